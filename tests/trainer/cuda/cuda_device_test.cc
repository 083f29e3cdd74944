// The CUDA device itself on an emulated GPU: whom it refuses and with which words, memory, events,
// graphs, and its plug-in's entry points.
#include "trainer/cuda/cuda_device.h"

#include <cublasLt.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/trainer/cuda/emulation/facts.h"
#include "trainer/cuda/optimizer_table.h"
#include "trainer/cuda/plugin.h"

namespace regatta::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

class CudaDeviceTest : public testing::Test {
 protected:
  CudaDeviceTest() { reset(); }
  ~CudaDeviceTest() override { reset(); }

  static void reset() {
    emulation::configure({});
    emulation::fail_call(-1, cudaSuccess);
    emulation::fault(cudaSuccess);
    emulation::library() = {};
  }
  [[nodiscard]] static std::unique_ptr<device::Device> make(int max_graphs = 32) {
    cuda::CudaOptions options;
    options.tune_products = false;
    options.max_graphs = max_graphs;
    return cuda::make_cuda_device(options);
  }
};

struct Refusal {
  const char* name;
  emulation::Facts facts;
  int index;
  base::Code code;
  std::vector<std::string> words;
};

std::vector<Refusal> refusals() {
  std::vector<Refusal> all;
  const auto add = [&](const char* name, base::Code code, std::vector<std::string> words) {
    all.push_back({name, {}, 0, code, std::move(words)});
    return &all.back();
  };
  Refusal* no_driver = add("no driver", base::Code::Operator, {"no NVIDIA driver", "device cpu"});
  no_driver->facts.driver_version = 0;
  no_driver->facts.no_device = cudaErrorInsufficientDriver;
  Refusal* old = add("old driver", base::Code::Operator,
                     {"driver is too old", "CUDA 12.2", "needs 13.0", "update the driver"});
  old->facts.driver_version = 12020;
  old->facts.no_device = cudaErrorInsufficientDriver;
  add("no GPU", base::Code::Operator, {"no NVIDIA GPU", "--gres=gpu:1", "CUDA_VISIBLE_DEVICES"})
      ->facts.no_device = cudaErrorNoDevice;
  add("hidden GPUs", base::Code::Operator, {"no NVIDIA GPU"})->facts.devices = 0;
  add("broken machine", base::Code::Operator, {"counting GPUs", "nvidia-smi"})->facts.no_device =
      cudaErrorSystemNotReady;
  add("unknown error", base::Code::Retry, {"counting GPUs", "another node"})->facts.no_device =
      cudaErrorUnknown;
  Refusal* beyond =
      add("index beyond", base::Code::User, {"GPU 2 was asked for", "sees 2", "counted from 0"});
  beyond->facts.devices = 2;
  beyond->index = 2;
  add("index below", base::Code::User, {"GPU -1 was asked for"})->index = -1;
  Refusal* turing = add("old architecture", base::Code::Operator,
                        {"compute capability 7.5", "8.0 (Ampere)", "device cpu"});
  turing->facts.architecture = 75;
  return all;
}

TEST_F(CudaDeviceTest, RefusesWithWordsOfItsOwnForEveryReason) {
  for (const Refusal& c : refusals()) {
    emulation::configure(c.facts);
    cuda::CudaOptions options;
    options.index = c.index;
    try {
      static_cast<void>(cuda::make_cuda_device(options));
      ADD_FAILURE() << c.name << " was accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), c.code) << c.name;
      for (const std::string& word : c.words) EXPECT_THAT(error.what(), HasSubstr(word)) << c.name;
      EXPECT_THAT(error.what(), Not(HasSubstr("\n"))) << c.name;
    }
  }
}

TEST_F(CudaDeviceTest, RefusesWarpgroupProductsWhereThereAreNone) {
  cuda::CudaOptions options;
  options.attention = trainer::cuda::CudaAttention::Wgmma;
  emulation::configure(emulation::facts_of(80));
  try {
    static_cast<void>(trainer::cuda::make_cuda_device(options));
    FAIL() << "made";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    EXPECT_NE(std::string(error.what()).find("needs a GPU of compute capability 9.0"),
              std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("has 8.0; use attention: automatic"),
              std::string::npos)
        << error.what();
  }
  emulation::configure(emulation::facts_of(90));
  EXPECT_NE(trainer::cuda::make_cuda_device(options)->description().find("attention wgmma"),
            std::string::npos);
}

TEST_F(CudaDeviceTest, EntryPointsTurnErrorsIntoCodeAndMessage) {
  EXPECT_STREQ(regatta_cuda_plugin_version(), cuda::kCudaPluginVersion);
  for (const Refusal& c : refusals()) {
    emulation::configure(c.facts);
    cuda::CudaOptions options;
    options.index = c.index;
    device::PluginError error;
    EXPECT_EQ(regatta_make_cuda_device(&options, &error), nullptr) << c.name;
    EXPECT_EQ(error.code, static_cast<int>(c.code)) << c.name;
    EXPECT_THAT(error.message, HasSubstr(c.words.front())) << c.name;
  }
  reset();
  emulation::library().starts = false;
  device::PluginError error;
  const cuda::CudaOptions options;
  EXPECT_EQ(regatta_make_cuda_device(&options, &error), nullptr);
  EXPECT_THAT(error.message, HasSubstr("cuBLASLt does not start"));
  reset();
  const std::unique_ptr<device::Device> device(regatta_make_cuda_device(&options, &error));
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->token_bucket(), 256);
}

// Whichever call of the runtime fails on the way, there is an error and nothing is left.
TEST_F(CudaDeviceTest, StartSurvivesEveryFailingCall) {
  const emulation::Live before = emulation::live();
  int failures = 0;
  for (std::int64_t n = 0;; ++n) {
    emulation::fail_call(n, cudaErrorUnknown);
    std::unique_ptr<device::Device> device;
    try {
      device = make();
    } catch (const base::Error&) {
      ++failures;
    }
    const bool failed = emulation::calls() > n;
    emulation::fail_call(-1, cudaSuccess);
    device.reset();
    if (!failed) break;
    ASSERT_LT(n, 1000);
  }
  EXPECT_GT(failures, 3);
  EXPECT_EQ(emulation::live().allocations, before.allocations);
  EXPECT_EQ(emulation::live().streams, before.streams);
  EXPECT_EQ(emulation::live().events, before.events);
}

TEST_F(CudaDeviceTest, DescribesItself) {
  const std::string text = make()->description();
  for (const char* part : {"compute capability 9.0", "driver 13.0", "runtime 13.0",
                           "cuBLASLt 13.1.0", "float32 products in float32"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  cuda::CudaOptions options;
  options.tf32 = true;
  EXPECT_THAT(cuda::make_cuda_device(options)->description(), HasSubstr("products in TF32"));
}

// A profiler shows every operation under the name that it has in the code.
TEST_F(CudaDeviceTest, NamesItsRangesLikeTheCode) {
  const std::unique_ptr<device::Device> device = make();
  const device::DeviceMemory x(*device, 64, device::Dtype::Float32);
  const device::DeviceMemory y(*device, 64, device::Dtype::Float32);
  device->fill_zero(0, x.view());
  device->fill_zero(0, y.view());
  emulation::ranges() = {};
  device->add(0, x.view(), y.view());
  device->gelu_forward(0, x.view(), y.view(), true);
  device->repeat(0, 1, [&] { device->sum_of_squares(0, x.view(), y.view().slice(0, 1)); });
  EXPECT_THAT(emulation::ranges().names,
              testing::ElementsAre("add", "gelu_forward", "repeat", "sum_of_squares"));
  EXPECT_EQ(emulation::ranges().open, 0);
}

// Every bucket of a run has a list of tensors of its own. More than there is room for are told, and
// right all the same.
TEST_F(CudaDeviceTest, TakesAnyNumberOfTensorLists) {
  constexpr std::int64_t kLists = std::int64_t{cuda::OptimizerTables::kMaxTables} + 1;
  const auto device = make();
  const device::DeviceMemory arena(*device, kLists, device::Dtype::Float32);
  const device::DeviceMemory zeros(*device, 3 * kLists, device::Dtype::Float32);
  const device::DeviceMemory scalars(*device, device::kStepScalars + 1, device::Dtype::Float32);
  std::vector<float> weights(static_cast<std::size_t>(kLists), 1);
  std::vector<float> settings(device::kStepScalars + 1, 0);
  settings[device::kLearningRate] = 0.5F;
  settings[device::kBiasCorrection1] = settings[device::kBiasCorrection2] = 1;
  device->copy_to_device(0, arena.view(), weights.data());
  device->copy_to_device(0, scalars.view(), settings.data());
  device->fill_zero(0, zeros.view());
  device::OptimizerUpdate op;
  op.parameters = arena.view();
  op.gradients = zeros.view().slice(0, kLists);
  op.first_moment = zeros.view().slice(kLists, kLists);
  op.second_moment = zeros.view().slice(2 * kLists, kLists);
  op.epsilon = op.weight_decay = 1;
  op.scalars = scalars.view().slice(0, device::kStepScalars);
  op.squared_norm = scalars.view().slice(device::kStepScalars, 1);
  op.tensor_count = 1;
  for (std::int64_t i = 0; i < kLists; ++i) {
    EXPECT_THAT(device->description(), Not(HasSubstr("lists of tensors")));
    const device::OptimizerTensor tensor{i, 1, true, true};
    op.tensors = &tensor;
    device->update(0, op);
  }
  EXPECT_THAT(device->description(), HasSubstr("lists of tensors"));
  device->copy_to_host(0, weights.data(), arena.view());
  device->synchronize();
  EXPECT_THAT(weights, testing::Each(0.5F));  // each decayed once
}

TEST_F(CudaDeviceTest, LeavesNothingBehind) {
  const emulation::Live before = emulation::live();
  {
    const auto device = make();
    const device::Stream other = device->make_stream();
    const device::DeviceMemory memory(*device, 1000, device::Dtype::Float32);
    void* pinned = device->allocate_host(64);
    device->fill_zero(other, memory.view());
    device->add(other, memory.view(), memory.view());
    for (int i = 0; i < 3; ++i) {
      device->repeat(other, 1, [&] { device->fill_zero(other, memory.view()); });
    }
    device->wait(0, device->record(other));
    device->release_host(pinned);
  }
  const emulation::Live after = emulation::live();
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.host_allocations, before.host_allocations);
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_EQ(after.events, before.events);
  EXPECT_EQ(after.graphs, before.graphs);
}

TEST_F(CudaDeviceTest, SaysHowMuchMemoryIsMissing) {
  const auto device = make();
  const device::DeviceMemory some(*device, 1000000, device::Dtype::Float32);
  emulation::fail_call(1, cudaErrorMemoryAllocation);  // after the choice of the GPU
  try {
    static_cast<void>(device->allocate(std::int64_t{5} << 40));
    FAIL() << "it was there";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Operator);
    for (const char* part : {"5.5 TB", "are free", "4.0 MB", "micro_batch_size", "token_bucket"}) {
      EXPECT_THAT(error.what(), HasSubstr(part));
    }
  }
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << "the next launch would fail for it";
  EXPECT_EQ(device->peak_bytes(), 4000000);
}

TEST_F(CudaDeviceTest, EventsAreUsedAgainAndStayTrue) {
  const auto device = make();
  const device::Stream other = device->make_stream();
  std::vector<device::Event> events;
  for (int i = 0; i < 1000; ++i) {
    events.push_back(device->record(i % 2 == 0 ? 0 : other));
    EXPECT_GT(events.back(), i == 0 ? 0 : events[events.size() - 2]);
  }
  EXPECT_LT(emulation::live().events, 200U);
  for (const device::Event event : events) {
    device->wait(0, event);
    device->wait_host(event);
    device->wait_host(event);
  }
  device->synchronize();
  device->wait(other, events.front());
}

TEST_F(CudaDeviceTest, EventsThatNeverWereAreABug) {
  const auto device = make();
  EXPECT_DEATH(device->wait_host(1), "recorded before");
  EXPECT_DEATH(device->wait(0, 0), "recorded before");
  EXPECT_DEATH(device->wait(3, device->record(0)), "make_stream");
}

class CudaRepeats : public CudaDeviceTest {
 protected:
  // x += 1 with key, counting how often the host enqueues.
  void repeat(device::Device& device, std::uint64_t key, device::View x, device::View one,
              device::Stream stream = 0) {
    device.repeat(stream, key, [&device, stream, x, one, this] {
      ++enqueued_;
      device.add(stream, one, x);
    });
  }
  [[nodiscard]] static device::View filled(device::Device& device,
                                           const device::DeviceMemory& memory,
                                           const std::vector<float>& values) {
    device.copy_to_device(0, memory.view(), values.data());
    device.synchronize();
    return memory.view();
  }
  int enqueued_ = 0;
};

TEST_F(CudaRepeats, RunPlainlyThenCaptureThenReplay) {
  const auto device = make();
  const device::DeviceMemory x_memory(*device, 8, device::Dtype::Float32),
      one_memory(*device, 8, device::Dtype::Float32);
  const std::vector<float> zeros(8), ones(8, 1);
  const device::View x = filled(*device, x_memory, zeros), one = filled(*device, one_memory, ones);
  const int expected[] = {1, 2, 2, 2, 2};
  for (int i = 0; i < 5; ++i) {
    repeat(*device, 9, x, one);
    EXPECT_EQ(enqueued_, expected[i]) << i;
    device->synchronize();
    EXPECT_EQ(x.floats()[3], static_cast<float>(i + 1));
  }
  EXPECT_EQ(emulation::live().graphs, 1U);
  repeat(*device, 10, x, one);
  EXPECT_EQ(enqueued_, 3);
  device->forget_repeats();
  EXPECT_EQ(emulation::live().graphs, 0U);
  repeat(*device, 9, x, one);
  EXPECT_EQ(enqueued_, 4);
  device->synchronize();
  EXPECT_EQ(x.floats()[0], 7);
}

TEST_F(CudaRepeats, KeepTheLastUsed) {
  const auto device = make(2);
  const device::DeviceMemory x_memory(*device, 8, device::Dtype::Float32),
      one_memory(*device, 8, device::Dtype::Float32);
  const std::vector<float> zeros(8), ones(8, 1);
  const device::View x = filled(*device, x_memory, zeros), one = filled(*device, one_memory, ones);
  for (const std::uint64_t key : {1, 1, 2, 2, 1}) repeat(*device, key, x, one);
  EXPECT_EQ(enqueued_, 4);
  repeat(*device, 3, x, one);  // 2 was used before 1
  EXPECT_EQ(emulation::live().graphs, 1U);
  repeat(*device, 1, x, one);
  EXPECT_EQ(enqueued_, 5);
  repeat(*device, 2, x, one);
  EXPECT_EQ(enqueued_, 6);
  EXPECT_LE(emulation::live().graphs, 2U);
  device->synchronize();
  EXPECT_EQ(x.floats()[0], 8);
}

TEST_F(CudaRepeats, RunPlainlyWithoutGraphs) {
  const auto device = make(0);
  const device::DeviceMemory x_memory(*device, 8, device::Dtype::Float32),
      one_memory(*device, 8, device::Dtype::Float32);
  const std::vector<float> zeros(8), ones(8, 1);
  const device::View x = filled(*device, x_memory, zeros), one = filled(*device, one_memory, ones);
  for (int i = 0; i < 4; ++i) repeat(*device, 1, x, one);
  EXPECT_EQ(enqueued_, 4);
  EXPECT_EQ(emulation::live().graphs, 0U);
}

// Work that cannot be captured, such as the first use of a stream's scratch memory by the second
// call, runs all the same, and the description says so.
TEST_F(CudaRepeats, FallBackWhenCapturingFails) {
  const auto device = make();
  const device::Stream fresh = device->make_stream();
  const device::DeviceMemory x_memory(*device, 8, device::Dtype::Float32),
      one_memory(*device, 8, device::Dtype::Float32);
  const std::vector<float> zeros(8), ones(8, 1);
  const device::View x = filled(*device, x_memory, zeros), one = filled(*device, one_memory, ones);
  int call = 0;
  for (int i = 0; i < 4; ++i) {
    device->repeat(fresh, 5, [&] {
      ++call;
      if (call > 1) device->wait_host(device->record(fresh));  // no graph can hold that
      device->add(fresh, one, x);
    });
  }
  device->synchronize();
  EXPECT_EQ(x.floats()[0], 4);
  EXPECT_EQ(emulation::live().graphs, 0U);
  EXPECT_THAT(device->description(), HasSubstr("1 sequences run without a graph"));
  EXPECT_THAT(device->description(), HasSubstr("recording an event cannot be captured"));
}

// Whichever runtime call of capture, instantiation or launch fails: either an error or the right
// result, and the device goes on working.
TEST_F(CudaRepeats, SurviveEveryFailingCall) {
  for (std::int64_t n = 0;; ++n) {
    const auto device = make();
    const device::DeviceMemory x_memory(*device, 8, device::Dtype::Float32),
        one_memory(*device, 8, device::Dtype::Float32);
    const std::vector<float> zeros(8), ones(8, 1);
    const device::View x = filled(*device, x_memory, zeros),
                       one = filled(*device, one_memory, ones);
    repeat(*device, 1, x, one);
    emulation::fail_call(n, cudaErrorStreamCaptureInvalidated);
    float expected = 2;
    try {
      repeat(*device, 1, x, one);
    } catch (const base::Error&) {
      expected = 1;
    }
    const bool failed = emulation::calls() > n;
    emulation::fail_call(-1, cudaSuccess);
    repeat(*device, 1, x, one);
    device->synchronize();
    EXPECT_EQ(x.floats()[0], expected + 1) << n;
    if (!failed) break;
    ASSERT_LT(n, 100);
  }
}

// Whatever the host reads after a wait was made by choices that are on disk: a run that is killed
// then can be repeated bit for bit.
TEST_F(CudaDeviceTest, SavesTimedProductsWhenTheHostWaits) {
  std::string directory = testing::TempDir() + "regatta-products-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  cuda::CudaOptions options;
  options.gemm_cache_file = directory + "/products.txt";
  const auto device = cuda::make_cuda_device(options);
  const device::DeviceMemory memory(*device, 3 * 64, device::Dtype::Float32);
  device->fill_zero(0, memory.view());
  device::Gemm op;
  op.m = op.n = op.k = 8;
  op.a = memory.view().slice(0, 64);
  op.b = memory.view().slice(64, 64);
  op.c = memory.view().slice(128, 64);
  const auto is_saved = [&] { return std::filesystem::remove(options.gemm_cache_file); };
  device->gemm(0, op);
  EXPECT_FALSE(is_saved());
  device->synchronize();
  EXPECT_TRUE(is_saved());
  op.transpose_a = true;
  device->gemm(0, op);
  device->wait_host(device->record(0));
  EXPECT_TRUE(is_saved());
  device->gemm(0, op);
  device->synchronize();
  EXPECT_FALSE(is_saved());
  std::filesystem::remove_all(directory);
}

// As CUDA does once a kernel has made its context unusable: every call fails, and the host must
// get away without the process ending.
TEST_F(CudaDeviceTest, AFaultFailsEveryCallAndNoDestructor) {
  {
    const auto device = make();
    const device::DeviceMemory memory(*device, 64, device::Dtype::Float32);
    emulation::fault(cudaErrorIllegalAddress);
    for (int i = 0; i < 2; ++i) {
      EXPECT_THROW(device->fill_zero(0, memory.view()), base::Error) << i;
      try {
        device->synchronize();
        ADD_FAILURE() << i;
      } catch (const base::Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("cudaErrorIllegalAddress"));
      }
    }
    EXPECT_THROW(static_cast<void>(make()), base::Error);
  }
  emulation::fault(cudaSuccess);
  EXPECT_NO_THROW(make()->synchronize());
}

// More lists of tensors than tables are kept for: an update still is right.
TEST_F(CudaDeviceTest, UpdatesOutliveTheTablesBound) {
  const auto device = make();
  const std::int64_t size = 64;
  const device::DeviceMemory memory(*device, 5 * size, device::Dtype::Float32);
  device->fill_zero(0, memory.view());
  device::OptimizerUpdate op;
  op.parameters = memory.view().slice(0, size);
  op.gradients = memory.view().slice(size, size);
  op.first_moment = memory.view().slice(2 * size, size);
  op.second_moment = memory.view().slice(3 * size, size);
  op.scalars = memory.view().slice(4 * size, device::kStepScalars);
  op.squared_norm = memory.view().slice(4 * size + 32, 1);
  const std::vector<float> ones(size, 1);
  std::vector<float> scalars(device::kStepScalars, 0);
  scalars[device::kLearningRate] = 1;
  scalars[device::kBiasCorrection1] = scalars[device::kBiasCorrection2] =
      scalars[device::kInverseLossScale] = 1;
  device->copy_to_device(0, op.gradients, ones.data());
  device->copy_to_device(0, op.scalars, scalars.data());
  op.epsilon = 0;
  op.tensor_count = 1;
  for (int i = 0; i < 300; ++i) {
    const device::OptimizerTensor tensor{i % 60, 1 + i / 60 % 4, false, false};
    op.tensors = &tensor;
    device->update(0, op);
  }
  device->synchronize();
  // beta 0: m and v are the gradient and its square, so every update moves a weight by −1.
  double moved = 0;
  for (std::int64_t i = 0; i < size; ++i) moved -= static_cast<double>(op.parameters.floats()[i]);
  double expected = 0;
  for (int i = 0; i < 300; ++i) expected += 1 + i / 60 % 4;
  EXPECT_EQ(moved, expected);
}

}  // namespace
}  // namespace regatta::trainer
