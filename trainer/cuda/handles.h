// Owners of CUDA's handles: each frees what it made when it dies, ignoring errors there, since the
// only ones left are those of a device that is lost anyway.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "trainer/cuda/check.h"

namespace regatta::trainer::cuda {

class DevicePointer {
 public:
  DevicePointer() = default;
  explicit DevicePointer(std::size_t bytes) {
    check(cudaMalloc(&pointer_, bytes), "allocating device memory");
  }
  [[nodiscard]] static DevicePointer adopt(void* pointer) {
    DevicePointer result;
    result.pointer_ = pointer;
    return result;
  }
  DevicePointer(DevicePointer&& other) noexcept
      : pointer_(std::exchange(other.pointer_, nullptr)) {}
  DevicePointer& operator=(DevicePointer&& other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~DevicePointer() {
    if (pointer_ != nullptr) static_cast<void>(cudaFree(pointer_));
  }
  [[nodiscard]] void* get() const { return pointer_; }

 private:
  void* pointer_ = nullptr;
};

class PinnedPointer {
 public:
  explicit PinnedPointer(std::size_t bytes) {
    check(cudaMallocHost(&pointer_, bytes), "allocating pinned host memory");
  }
  PinnedPointer(const PinnedPointer&) = delete;
  PinnedPointer& operator=(const PinnedPointer&) = delete;
  ~PinnedPointer() { static_cast<void>(cudaFreeHost(pointer_)); }
  [[nodiscard]] void* get() const { return pointer_; }

 private:
  void* pointer_ = nullptr;
};

// Does not wait for, nor is waited for by, the legacy default stream.
class OwnStream {
 public:
  OwnStream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  }
  OwnStream(OwnStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  OwnStream& operator=(OwnStream&&) = delete;
  ~OwnStream() {
    if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
  }
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class OwnEvent {
 public:
  explicit OwnEvent(unsigned flags = cudaEventDisableTiming) {
    check(cudaEventCreateWithFlags(&event_, flags), "making an event");
  }
  OwnEvent(OwnEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  OwnEvent& operator=(OwnEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~OwnEvent() {
    if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
  }
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace regatta::trainer::cuda
