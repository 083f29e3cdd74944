// The emulated runtime API: memory with guards, copies, streams, graphs, launches that CUDA
// refuses, failures on demand.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "tests/trainer/cuda/emulation/facts.h"

namespace regatta::tests {
namespace {

class EmulatedRuntime : public testing::Test {
 protected:
  EmulatedRuntime() {
    emulation::configure({});
    emulation::fail_call(-1, cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~EmulatedRuntime() override {
    emulation::configure({});
    emulation::fail_call(-1, cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    for (void* memory : memory_) EXPECT_EQ(cudaFree(memory), cudaSuccess);
    (void)cudaGetLastError();
  }
  [[nodiscard]] float* device_floats(const std::vector<float>& values) {
    float* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 4 * values.size()), cudaSuccess);
    EXPECT_EQ(
        cudaMemcpyAsync(memory, values.data(), 4 * values.size(), cudaMemcpyHostToDevice, stream_),
        cudaSuccess);
    memory_.push_back(memory);
    return memory;
  }
  [[nodiscard]] std::vector<float> host_floats(const float* memory, std::size_t count) {
    std::vector<float> values(count);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), memory, 4 * count, cudaMemcpyDeviceToHost, stream_),
              cudaSuccess);
    return values;
  }
  template <typename... Parameters, typename... Arguments>
  cudaError_t launch_on(cudaStream_t stream, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                        std::size_t shared_bytes, Arguments... arguments) {
    const cudaLaunchConfig_t config{grid, block, shared_bytes, stream, nullptr, 0};
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
  }
  // What stream_ and `body` capture.
  template <typename Body>
  [[nodiscard]] cudaGraphExec_t captured(Body body) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    body();
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return executable;
  }

  cudaStream_t stream_ = nullptr;
  std::vector<void*> memory_;
};

__global__ void add_kernel(float* x, float value) { x[threadIdx.x] += value; }
__global__ void nothing_kernel() {}

TEST_F(EmulatedRuntime, NewMemoryIsNan) {
  float* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 4000), cudaSuccess);
  memory_.push_back(memory);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
  for (const float value : host_floats(memory, 1000)) ASSERT_TRUE(std::isnan(value));
}

TEST_F(EmulatedRuntime, CopiesAndFills) {
  float* const x = device_floats({1, 2, 3, 4});
  float* const y = device_floats({0, 0, 0, 0});
  ASSERT_EQ(cudaMemcpyAsync(y + 1, x, 8, cudaMemcpyDeviceToDevice, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(x, 0, 12, stream_), cudaSuccess);
  EXPECT_EQ(host_floats(y, 4), (std::vector<float>{0, 1, 2, 0}));
  EXPECT_EQ(host_floats(x, 4), (std::vector<float>{0, 0, 0, 4}));
}

TEST_F(EmulatedRuntime, CopiesThatCudaRefuses) {
  float* const x = device_floats({1, 2, 3, 4});
  float* const y = device_floats({1, 2, 3, 4});
  std::vector<float> host(8);
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 16), cudaSuccess);
  struct Row {
    void* to;
    const void* from;
    std::size_t bytes;
    cudaMemcpyKind kind;
  };
  const Row rows[] = {
      {x, host.data(), 20, cudaMemcpyHostToDevice},     // past the end
      {x + 4, host.data(), 4, cudaMemcpyHostToDevice},  // behind the end
      {host.data(), x, 20, cudaMemcpyDeviceToHost},     //
      {host.data(), x, 16, cudaMemcpyHostToDevice},     // the wrong way round
      {x, host.data(), 16, cudaMemcpyDeviceToHost},     //
      {x, y, 16, cudaMemcpyHostToDevice},               //
      {x, host.data(), 16, cudaMemcpyDeviceToDevice},   //
      {pinned, x, 32, cudaMemcpyDeviceToHost},          // past pinned memory
  };
  for (const Row& row : rows) {
    EXPECT_NE(cudaMemcpyAsync(row.to, row.from, row.bytes, row.kind, stream_), cudaSuccess)
        << &row - rows;
    EXPECT_NE(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  EXPECT_EQ(cudaMemsetAsync(x, 0, 17, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(host.data(), 0, 4, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(host_floats(x, 4), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(EmulatedRuntime, HandlesAreChecked) {
  const auto strange = reinterpret_cast<cudaStream_t>(std::uintptr_t{16});
  EXPECT_EQ(launch_on(strange, nothing_kernel, 1, 1, 0), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(strange), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(nullptr, stream_), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaFree(&memory_), cudaErrorInvalidValue);
  float* const x = device_floats({1, 2});
  EXPECT_EQ(cudaFree(x + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(EmulatedRuntime, LaunchesThatCudaRefuses) {
  struct Row {
    dim3 grid, block;
    std::size_t shared;
    cudaError_t error;
  };
  const Row rows[] = {
      {0, 32, 0, cudaErrorInvalidConfiguration},
      {1, 0, 0, cudaErrorInvalidConfiguration},
      {1, 1025, 0, cudaErrorInvalidConfiguration},
      {1, {32, 64}, 0, cudaErrorInvalidConfiguration},
      {1, {1, 1, 65}, 0, cudaErrorInvalidConfiguration},
      {{1, 65536}, 1, 0, cudaErrorInvalidConfiguration},
      {{1, 1, 65536}, 1, 0, cudaErrorInvalidConfiguration},
      {0x80000000U, 1, 0, cudaErrorInvalidConfiguration},
      {1, 1, 49153, cudaErrorInvalidValue},
      {1, 1, 49152, cudaSuccess},
      {1, 1024, 0, cudaSuccess},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(launch_on(stream_, nothing_kernel, row.grid, row.block, row.shared), row.error)
        << &row - rows;
  }
}

__global__ void large_kernel() { emulation::dynamic_shared()[100000] = 1; }

TEST_F(EmulatedRuntime, LargeSharedMemoryMustBeAskedFor) {
  for (const int architecture : {80, 90}) {
    const emulation::Facts facts = emulation::facts_of(architecture);
    emulation::configure(facts);
    const auto most = static_cast<int>(facts.shared_bytes);
    const auto attribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
    ASSERT_EQ(cudaFuncSetAttribute(large_kernel, attribute, 48 << 10), cudaSuccess);
    EXPECT_EQ(launch_on(stream_, large_kernel, 1, 1, facts.shared_bytes), cudaErrorInvalidValue);
    EXPECT_EQ(cudaFuncSetAttribute(large_kernel, attribute, most + 1), cudaErrorInvalidValue);
    ASSERT_EQ(cudaFuncSetAttribute(large_kernel, attribute, most), cudaSuccess);
    EXPECT_EQ(launch_on(stream_, large_kernel, 1, 1, facts.shared_bytes), cudaSuccess);
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    EXPECT_EQ(10 * properties.major + properties.minor, architecture);
    EXPECT_EQ(properties.sharedMemPerBlockOptin, facts.shared_bytes);
  }
}

TEST_F(EmulatedRuntime, GraphsRunLaterWithArgumentsOfTheCapture) {
  float* const x = device_floats({1, 2});
  std::vector<float> source = {10, 20};
  float value = 5;
  cudaGraphExec_t graph = captured([&] {
    ASSERT_EQ(cudaMemcpyAsync(x, source.data(), 8, cudaMemcpyHostToDevice, stream_), cudaSuccess);
    ASSERT_EQ(launch_on(stream_, add_kernel, 1, 2, 0, x, value), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(x + 1, 0, 4, stream_), cudaSuccess);
  });
  value = 100;  // copied when captured; memory is read when the graph runs
  EXPECT_EQ(host_floats(x, 2), (std::vector<float>{1, 2}));
  ASSERT_EQ(cudaGraphLaunch(graph, stream_), cudaSuccess);
  EXPECT_EQ(host_floats(x, 2), (std::vector<float>{15, 0}));
  source = {30, 40};
  ASSERT_EQ(cudaGraphLaunch(graph, stream_), cudaSuccess);
  EXPECT_EQ(host_floats(x, 2), (std::vector<float>{35, 0}));
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(graph, stream_), cudaErrorInvalidValue);
}

class EmulatedCapture : public EmulatedRuntime {
 protected:
  EmulatedCapture() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&join_, cudaEventDisableTiming), cudaSuccess);
    x_ = device_floats({0, 0});
  }
  ~EmulatedCapture() override {
    EXPECT_EQ(cudaStreamDestroy(other_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(fork_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(join_), cudaSuccess);
  }
  void add(cudaStream_t stream, float value) {
    EXPECT_EQ(launch_on(stream, add_kernel, 1, 2, 0, x_, value), cudaSuccess);
  }
  void fork() {
    EXPECT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(other_, fork_, 0), cudaSuccess);
  }
  void join() {
    EXPECT_EQ(cudaEventRecord(join_, other_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(stream_, join_, 0), cudaSuccess);
  }
  [[nodiscard]] cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) {
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
    cudaStreamCaptureStatus status{};
    EXPECT_EQ(cudaStreamIsCapturing(other_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
    return error;
  }

  cudaStream_t other_ = nullptr;
  cudaEvent_t fork_ = nullptr;
  cudaEvent_t join_ = nullptr;
  float* x_ = nullptr;
};

TEST_F(EmulatedCapture, FollowsEventsToOtherStreams) {
  cudaGraphExec_t graph = captured([&] {
    add(stream_, 1);
    fork();
    add(other_, 10);
    join();
    add(stream_, 100);
  });
  EXPECT_EQ(host_floats(x_, 1), std::vector<float>{0});
  add(other_, 1000);  // no longer captured
  EXPECT_EQ(host_floats(x_, 1), std::vector<float>{1000});
  ASSERT_EQ(cudaGraphLaunch(graph, other_), cudaSuccess);
  EXPECT_EQ(host_floats(x_, 1), std::vector<float>{1111});
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(EmulatedCapture, WhatIsForkedMustBeJoined) {
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  fork();
  add(other_, 1);
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnjoined);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  fork();
  add(other_, 1);
  join();
  add(other_, 1);  // after the join
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnjoined);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  fork();
  add(other_, 1);
  join();
  EXPECT_EQ(end(), cudaSuccess);
}

TEST_F(EmulatedCapture, ForbiddenCallsSpoilIt) {
  void* memory = nullptr;
  cudaStream_t legacy_sharing = nullptr;
  ASSERT_EQ(cudaStreamCreate(&legacy_sharing), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(join_, other_), cudaSuccess);
  const std::pair<const char*, std::function<cudaError_t()>> rows[] = {
      {"malloc", [&] { return cudaMalloc(&memory, 1); }},
      {"free", [&] { return cudaFree(x_); }},
      {"pinned", [&] { return cudaMallocHost(&memory, 1); }},
      {"synchronize the stream", [&] { return cudaStreamSynchronize(stream_); }},
      {"synchronize the device", [&] { return cudaDeviceSynchronize(); }},
      {"ask for an event", [&] { return cudaEventQuery(join_); }},
      {"wait for an event", [&] { return cudaEventSynchronize(join_); }},
      {"depend on work outside", [&] { return cudaStreamWaitEvent(stream_, join_, 0); }},
      {"end it from elsewhere",
       [&] {
         fork();
         cudaGraph_t graph = nullptr;
         return cudaStreamEndCapture(other_, &graph);
       }},
  };
  for (const auto& [name, call] : rows) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
    add(stream_, 1);
    EXPECT_NE(call(), cudaSuccess) << name;
    EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated) << name;
  }
  EXPECT_EQ(host_floats(x_, 1), std::vector<float>{0});
  // The legacy stream would wait for streams that did not opt out.
  ASSERT_EQ(cudaStreamBeginCapture(legacy_sharing, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(launch_on(nullptr, nothing_kernel, 1, 1, 0), cudaErrorStreamCaptureImplicit);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(legacy_sharing, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamDestroy(legacy_sharing), cudaSuccess);
}

TEST_F(EmulatedRuntime, MachinesWithoutAGpu) {
  for (const cudaError_t error : {cudaErrorInsufficientDriver, cudaErrorNoDevice}) {
    emulation::Facts facts;
    facts.no_device = error;
    emulation::configure(facts);
    int count = 7;
    EXPECT_EQ(cudaGetDeviceCount(&count), error);
    EXPECT_EQ(count, 0);
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 1), error);
    emulation::configure({});
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    EXPECT_EQ(count, 1);
  }
}

TEST_F(EmulatedRuntime, MemoryHasItsLimit) {
  emulation::Facts facts;
  facts.memory_bytes = emulation::live().bytes + 1000;
  emulation::configure(facts);
  float* const x = device_floats(std::vector<float>(200));
  void* memory = &memory_;
  EXPECT_EQ(cudaMalloc(&memory, 201), cudaErrorMemoryAllocation);
  EXPECT_EQ(memory, nullptr);
  EXPECT_STREQ(cudaGetErrorName(cudaGetLastError()), "cudaErrorMemoryAllocation");
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
  EXPECT_EQ(free_bytes, 200U);
  EXPECT_EQ(total, facts.memory_bytes);
  ASSERT_EQ(cudaFree(x), cudaSuccess);
  memory_.pop_back();
  EXPECT_EQ(cudaMalloc(&memory, 201), cudaSuccess);
  memory_.push_back(memory);
}

TEST_F(EmulatedRuntime, AnyCallCanBeMadeToFail) {
  float* const x = device_floats({0});
  for (const std::int64_t n : {0, 1, 2}) {
    emulation::fail_call(n, cudaErrorLaunchFailure);
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(launch_on(stream_, add_kernel, 1, 1, 0, x, 1.0F),
                i == n ? cudaErrorLaunchFailure : cudaSuccess);
    }
    EXPECT_EQ(emulation::calls(), 3);
  }
  EXPECT_EQ(host_floats(x, 1), std::vector<float>{6});
}

__global__ void write_kernel(float* x, int index) { x[index] = 1; }

void write_and_free(int index) {
  float* memory = nullptr;
  (void)cudaMalloc(&memory, 100);
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = 1;
  (void)cudaLaunchKernelEx(&config, write_kernel, memory, index);
  (void)cudaFree(memory);
}

TEST(EmulatedRuntimeDeathTest, StrayWritesAreFoundWhenMemoryIsFreed) {
  for (const int index : {25, 26, 31, 100, 1000}) {
    EXPECT_DEATH(write_and_free(index), "past a device allocation of 100 bytes|use-after-poison")
        << index;
  }
  for (const int index : {-1, -256}) {
    EXPECT_DEATH(write_and_free(index), "before a device allocation of 100 bytes|use-after-poison")
        << index;
  }
  write_and_free(24);
}

TEST_F(EmulatedRuntime, EventsHaveTimes) {
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  cudaEvent_t timeless = nullptr;
  ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&timeless, cudaEventDisableTiming), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaEventRecord(start, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(timeless, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, timeless), cudaErrorInvalidResourceHandle);
  for (cudaEvent_t event : {start, end, timeless}) EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace regatta::tests
