// Devices, memory, copies and launches of the emulated runtime API.
#include "tests/trainer/cuda/emulation/runtime_api.h"

#include <cstdio>
#include <cstring>

#include "tests/trainer/cuda/emulation/machine.h"

using regatta::emulation::enqueue;
using regatta::emulation::Facts;
using regatta::emulation::Machine;
using regatta::emulation::machine;
using regatta::emulation::Memory;
using regatta::emulation::result;

namespace {

thread_local int current_device = 0;
constexpr std::size_t kPlainSharedLimit = std::size_t{48} << 10;

cudaError_t allocate(Memory& memory, void** at, std::size_t bytes, bool limited) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  if (const cudaError_t error = all.enter_unsafe(); error != cudaSuccess) return error;
  if (at == nullptr) return cudaErrorInvalidValue;
  *at = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (limited && bytes > all.facts.memory_bytes - memory.bytes()) return cudaErrorMemoryAllocation;
  *at = memory.allocate(bytes);
  return *at != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t release(Memory& memory, void* at) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  if (const cudaError_t error = all.enter_unsafe(); error != cudaSuccess) return error;
  if (at == nullptr) return cudaSuccess;
  return memory.release(at) ? cudaSuccess : cudaErrorInvalidValue;
}

// Whether the range is what a copy of this kind may touch on its device side (or host side).
bool legal(const void* pointer, std::size_t bytes, bool on_device) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const Memory::Where where = all.device_memory.find(pointer, bytes);
  if (on_device) return where == Memory::Where::Inside;
  return where == Memory::Where::Elsewhere &&
         all.host_memory.find(pointer, bytes) != Memory::Where::Across;
}
bool on_device(const void* pointer) {
  const std::lock_guard lock(machine().mutex);
  return machine().device_memory.find(pointer, 1) == Memory::Where::Inside;
}

cudaError_t check_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  const bool guess = kind == cudaMemcpyDefault;
  const bool to_device =
      guess ? on_device(to) : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device =
      guess ? on_device(from) : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (!legal(to, bytes, to_device) || !legal(from, bytes, from_device)) {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

bool known_device(int device) { return device >= 0 && device < machine().facts.devices; }

cudaError_t check_shape(const cudaLaunchConfig_t& config, const void* kernel) {
  const dim3& grid = config.gridDim;
  const dim3& block = config.blockDim;
  if (config.numAttrs != 0) return cudaErrorNotSupported;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7FFFFFFFU || grid.y > 65535 ||
      grid.z > 65535 || block.x == 0 || block.y == 0 || block.z == 0 || block.x > 1024 ||
      block.y > 1024 || block.z > 64 || block.x * block.y * block.z > 1024) {
    return cudaErrorInvalidConfiguration;
  }
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const auto limit = all.shared_limits.find(kernel);
  const std::size_t allowed = limit != all.shared_limits.end() ? limit->second : kPlainSharedLimit;
  return config.dynamicSmemBytes <= allowed ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  const std::lock_guard lock(machine().mutex);
  *count = 0;
  if (const cudaError_t error = machine().enter(); error != cudaSuccess) return result(error);
  *count = machine().facts.devices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  const std::lock_guard lock(machine().mutex);
  *device = current_device;
  return result(machine().enter());
}
cudaError_t cudaSetDevice(int device) {
  const std::lock_guard lock(machine().mutex);
  if (const cudaError_t error = machine().enter(); error != cudaSuccess) return result(error);
  if (!known_device(device)) return result(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaSetDeviceFlags(unsigned) {
  const std::lock_guard lock(machine().mutex);
  return result(machine().enter());
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const std::lock_guard lock(machine().mutex);
  if (const cudaError_t error = machine().enter(); error != cudaSuccess) return result(error);
  if (!known_device(device)) return result(cudaErrorInvalidDevice);
  const Facts& facts = machine().facts;
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Emulated GPU %d", device);
  properties->uuid.bytes[15] = static_cast<char>(device);
  properties->totalGlobalMem = facts.memory_bytes;
  properties->sharedMemPerBlock = kPlainSharedLimit;
  properties->sharedMemPerBlockOptin = facts.shared_bytes;
  properties->sharedMemPerMultiprocessor = facts.shared_bytes + 1024;
  properties->regsPerBlock = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->major = facts.architecture / 10;
  properties->minor = facts.architecture % 10;
  properties->multiProcessorCount = facts.multiprocessors;
  properties->l2CacheSize = 50 << 20;
  properties->pciBusID = device + 1;
  properties->ECCEnabled = 1;
  properties->asyncEngineCount = 3;
  properties->concurrentKernels = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const std::lock_guard lock(machine().mutex);
  if (const cudaError_t error = machine().enter(); error != cudaSuccess) return result(error);
  if (!known_device(device)) return result(cudaErrorInvalidDevice);
  const Facts& facts = machine().facts;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(kPlainSharedLimit);
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = 32;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = facts.multiprocessors;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = facts.architecture / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = facts.architecture % 10;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(facts.shared_bytes) + 1024;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(facts.shared_bytes);
      return cudaSuccess;
  }
  return result(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  const std::lock_guard lock(machine().mutex);
  if (const cudaError_t error = machine().enter(); error != cudaSuccess) return result(error);
  if (!known_device(device)) return result(cudaErrorInvalidDevice);
  if (text == nullptr || length < 13) return result(cudaErrorInvalidValue);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", device + 1);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  const std::lock_guard lock(machine().mutex);
  *version = machine().facts.driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  const std::lock_guard lock(machine().mutex);
  *version = machine().facts.runtime_version;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  if (const cudaError_t error = all.enter(); error != cudaSuccess) return result(error);
  for (auto& [number, capture] : all.captures) capture.valid = false;
  return result(all.captures.empty() ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const std::lock_guard lock(machine().mutex);
  if (const cudaError_t error = machine().enter(); error != cudaSuccess) return result(error);
  *total_bytes = machine().facts.memory_bytes;
  *free_bytes = *total_bytes - machine().device_memory.bytes();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return result(allocate(machine().device_memory, memory, bytes, true));
}
cudaError_t cudaFree(void* memory) { return result(release(machine().device_memory, memory)); }
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return result(allocate(machine().host_memory, memory, bytes, false));
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  if ((flags & ~7U) != 0) return result(cudaErrorInvalidValue);
  return cudaMallocHost(memory, bytes);
}
cudaError_t cudaFreeHost(void* memory) { return result(release(machine().host_memory, memory)); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (bytes == 0) return result(enqueue(stream, [] {}));
  if (const cudaError_t error = check_copy(to, from, bytes, kind); error != cudaSuccess) {
    return result(error);
  }
  return result(enqueue(stream, [=] { std::memmove(to, from, bytes); }));
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return result(enqueue(stream, [] {}));
  if (!legal(to, bytes, true)) return result(cudaErrorInvalidValue);
  return result(enqueue(stream, [=] { std::memset(to, value, bytes); }));
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  if (const cudaError_t error = all.enter(); error != cudaSuccess) return result(error);
  if (kernel == nullptr) return result(cudaErrorInvalidDeviceFunction);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<std::size_t>(value) > all.facts.shared_bytes) {
    return result(cudaErrorInvalidValue);
  }
  all.shared_limits[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

cudaError_t regatta::emulation::enqueue_kernel(const cudaLaunchConfig_t& config, const void* kernel,
                                               std::function<void()> run) {
  if (const cudaError_t error = check_shape(config, kernel); error != cudaSuccess) {
    return result(error);
  }
  return result(enqueue(config.stream, std::move(run)));
}
