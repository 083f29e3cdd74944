// What the table of operations cannot ask of the optimizer: how tensors are cut, that tables are
// made once, addresses that are no multiple of 16 bytes, and sums of every size.
#include "trainer/cuda/optimizer_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/trainer/cuda/emulation/facts.h"
#include "trainer/cuda/check.h"
#include "trainer/cuda/handles.h"

namespace regatta::trainer::cuda {
namespace {

TEST(OptimizerChunks, CoverEveryTensorInOrder) {
  const std::int64_t whole = kChunkElements;
  const std::vector<device::OptimizerTensor> tensors = {{5, 1, true, false},
                                                        {100, 0, true, true},
                                                        {200, whole, false, true, 0.5F},
                                                        {200 + whole, whole + 1, true, true, 0},
                                                        {10 * whole, 3 * whole - 1, false, false}};
  const OptimizerChunks chunks = chunks_of(tensors.data(), static_cast<std::int64_t>(5));
  ASSERT_EQ(chunks.tensors.size(), tensors.size());
  ASSERT_EQ(chunks.chunks.size(), 1U + 0 + 1 + 2 + 3);
  std::int32_t next = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    EXPECT_EQ(chunks.tensors[t].first, next);
    EXPECT_EQ(chunks.tensors[t].trust_ratio != 0, tensors[t].trust_ratio);
    std::int64_t at = tensors[t].offset;
    for (std::int32_t i = 0; i < chunks.tensors[t].count; ++i, ++next) {
      const OptimizerChunk& chunk = chunks.chunks[static_cast<std::size_t>(next)];
      EXPECT_EQ(chunk.begin, at);
      EXPECT_GT(chunk.size, 0);
      EXPECT_LE(chunk.size, whole);
      EXPECT_EQ(chunk.tensor, static_cast<std::int32_t>(t));
      EXPECT_EQ(chunk.weight_decay != 0, tensors[t].weight_decay);
      EXPECT_EQ(chunk.learning_rate, tensors[t].learning_rate);
      at += chunk.size;
    }
    EXPECT_EQ(at, tensors[t].offset + tensors[t].size);
  }
  EXPECT_TRUE(chunks_of(nullptr, 0).chunks.empty());
}

TEST(OptimizerChunks, PiecesOfOneTensorAreAChain) {
  const std::vector<device::OptimizerTensor> tensors = {{0, 64, true, true, 1, 3},
                                                        {64, 64, true, true, 1, 7},
                                                        {128, 0, true, true, 1, 3},
                                                        {128, 64, true, true, 1, 9},
                                                        {192, 64, true, true, 1, 3}};
  const OptimizerChunks chunks = chunks_of(tensors.data(), 5);
  const std::vector<int> numbers = {3, 7, 3, 9, 3};
  const std::vector<int> firsts = {1, 1, 0, 1, 0};
  const std::vector<int> nexts = {2, -1, 4, -1, -1};
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    EXPECT_EQ(chunks.tensors[t].number, numbers[t]) << t;
    EXPECT_EQ(chunks.tensors[t].is_first, firsts[t]) << t;
    EXPECT_EQ(chunks.tensors[t].next, nexts[t]) << t;
  }
}

class OptimizerKernels : public testing::Test {
 protected:
  OptimizerKernels() : scratch_(make_scratch()) {}

  [[nodiscard]] KernelLaunch at() const {
    return {stream_.get(), {}, scratch_.get(), kScratchBytes};
  }
  // The emulated GPU's memory is the test's own.
  [[nodiscard]] device::View values(const std::vector<float>& from, std::int64_t skip = 0) {
    memory_.emplace_back((from.size() + static_cast<std::size_t>(skip)) * 4 + 64);
    const device::View view{static_cast<float*>(memory_.back().get()) + skip,
                            static_cast<std::int64_t>(from.size()), device::Dtype::Float32};
    std::copy(from.begin(), from.end(), view.floats());
    return view;
  }
  [[nodiscard]] static std::vector<float> read(const device::View& view) {
    return {view.floats(), view.floats() + view.size};
  }

 private:
  [[nodiscard]] static DevicePointer make_scratch() {
    emulation::configure({});
    emulation::fail_call(-1, cudaSuccess);
    return DevicePointer(kScratchBytes);
  }
  DevicePointer scratch_;
  OwnStream stream_;
  std::vector<DevicePointer> memory_;
};

TEST_F(OptimizerKernels, TablesAreMadeOncePerListOfTensors) {
  OptimizerTables tables;
  std::vector<device::OptimizerTensor> tensors = {{0, 100, true, true}, {128, 40000, false, true}};
  EXPECT_EQ(tables.find(tensors.data(), 2), nullptr);
  const OptimizerTableView first = tables.make(tensors.data(), 2);
  EXPECT_EQ(first.chunk_count, 4);
  EXPECT_EQ(first.tensor_count, 2);
  std::vector<device::OptimizerTensor> copy = tensors;
  ASSERT_NE(tables.find(copy.data(), 2), nullptr);
  EXPECT_EQ(tables.find(copy.data(), 2)->chunks, first.chunks);
  EXPECT_EQ(tables.find(copy.data(), 1), nullptr);
  copy[1].weight_decay = true;
  EXPECT_EQ(tables.find(copy.data(), 2), nullptr);
  copy[1] = tensors[1];
  copy[1].number = 1;
  EXPECT_EQ(tables.find(copy.data(), 2), nullptr);
  copy[1] = tensors[1];
  copy[1].learning_rate = 0.5F;
  EXPECT_EQ(tables.find(copy.data(), 2), nullptr);
  copy[1] = tensors[1];
  copy[0].offset = 1;
  EXPECT_EQ(tables.find(copy.data(), 2), nullptr);
  static_cast<void>(tables.make(copy.data(), 2));
  ASSERT_NE(tables.find(tensors.data(), 2), nullptr);
  EXPECT_EQ(tables.find(tensors.data(), 2)->chunks, first.chunks) << "a table moved";
  tables.clear();
  EXPECT_EQ(tables.find(tensors.data(), 2), nullptr);
}

TEST_F(OptimizerKernels, TablesLeaveNothingBehind) {
  const emulation::Live before = emulation::live();
  {
    OptimizerTables tables;
    const device::OptimizerTensor tensor{0, 1, true, true};
    static_cast<void>(tables.make(&tensor, 1));
    emulation::fail_call(0, cudaErrorMemoryAllocation);
    const device::OptimizerTensor other{0, 2, true, true};
    EXPECT_ANY_THROW(static_cast<void>(tables.make(&other, 1)));
    EXPECT_EQ(tables.find(&other, 1), nullptr);
  }
  EXPECT_EQ(emulation::live().allocations, before.allocations);
  EXPECT_EQ(emulation::live().host_allocations, before.host_allocations);
  EXPECT_EQ(emulation::live().streams, before.streams);
}

// Sums of squares of small integers are exact, whatever the size and the address.
TEST_F(OptimizerKernels, SumsOfSquaresAreExactOnIntegers) {
  for (const std::int64_t size :
       {0, 1, 2, 3, 4, 5, 7, 255, 1023, 1024, 1025, 8191, 8192, 8193, 100003}) {
    for (const std::int64_t skip : {0, 1, 2, 3}) {
      std::vector<float> x;
      double exact = 0;
      for (std::int64_t i = 0; i < size; ++i) {
        x.push_back(static_cast<float>(i % 5 - 2));
        exact += static_cast<double>(x.back() * x.back());
      }
      const device::View result = values({-1});
      sum_of_squares(at(), values(x, skip), result);
      EXPECT_EQ(static_cast<double>(read(result)[0]), exact) << size << " at " << skip;
    }
  }
}

TEST_F(OptimizerKernels, SumsOfSquaresShowWhatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t place : {0U, 1U, 500U, 998U}) {
      std::vector<float> x(999, 1);
      x[place] = bad;
      const device::View result = values({0});
      sum_of_squares(at(), values(x, 1), result);
      EXPECT_FALSE(std::isfinite(read(result)[0])) << place;
    }
  }
}

struct State {
  std::vector<float> w, m, v;
};
// Two steps of tensors whose chunks begin and end anywhere, in arrays shifted by `skip` elements.
State two_steps(const KernelLaunch& at, const std::function<device::View(std::size_t)>& array,
                bool lamb) {
  const std::vector<device::OptimizerTensor> tensors = {{1, 2, true, true},
                                                        {3, 6, true, false},
                                                        {9, 1, false, true},
                                                        {13, 2 * kChunkElements + 3, true, true}};
  OptimizerTables tables;
  const OptimizerTableView table = tables.make(tensors.data(), 4);
  device::OptimizerUpdate op;
  op.parameters = array(0);
  op.gradients = array(1);
  op.first_moment = array(2);
  op.second_moment = array(3);
  op.beta1 = 0.9F;
  op.beta2 = 0.99F;
  op.epsilon = 1e-6F;
  op.weight_decay = 0.1F;
  op.lamb = lamb;
  op.scalars = array(4);
  op.squared_norm = array(5);
  for (int step = 0; step < 2; ++step) update(at, op, table);
  const auto read = [](const device::View& view) {
    return std::vector<float>(view.floats(), view.floats() + view.size);
  };
  return {read(op.parameters), read(op.first_moment), read(op.second_moment)};
}

// AdamW is element by element, so an arena at an odd address must give the same bits.
TEST_F(OptimizerKernels, AnyAddressWillDo) {
  constexpr std::size_t kSize = 2 * kChunkElements + 20;
  std::vector<float> w, g, zero(kSize);
  for (std::size_t i = 0; i < kSize; ++i) {
    w.push_back(static_cast<float>(i % 11) - 5);
    g.push_back(static_cast<float>(i % 13) * 0.25F - 1);
  }
  std::vector<float> scalars(device::kStepScalars);
  scalars[device::kLearningRate] = 0.125F;
  scalars[device::kBiasCorrection1] = 0.5F;
  scalars[device::kBiasCorrection2] = 0.25F;
  scalars[device::kInverseLossScale] = 1;
  for (const bool lamb : {false, true}) {
    std::vector<State> states;
    for (const std::int64_t skip : {0, 1, 2}) {
      const std::vector<std::vector<float>> arrays = {w, g, zero, zero, scalars, {9}};
      states.push_back(two_steps(
          at(), [&](std::size_t i) { return values(arrays[i], i < 4 ? skip : 0); }, lamb));
    }
    for (std::size_t i = 1; i < states.size(); ++i) {
      EXPECT_EQ(states[i].m, states[0].m) << lamb;
      EXPECT_EQ(states[i].v, states[0].v) << lamb;
      for (std::size_t e = 0; e < kSize; ++e) {
        // LAMB's norms are summed in another order, in float64: the ratio may differ by a rounding.
        ASSERT_NEAR(states[i].w[e], states[0].w[e], lamb ? 2e-6 : 0) << e;
      }
    }
    EXPECT_NE(states[0].w[14], w[14]);
    for (const std::size_t gap : {0U, 10U, 11U, 12U}) EXPECT_EQ(states[0].w[gap], w[gap]) << gap;
    EXPECT_EQ(states[0].w.back(), w.back());
  }
}

}  // namespace
}  // namespace regatta::trainer::cuda
