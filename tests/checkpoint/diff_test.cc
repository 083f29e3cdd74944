#include "checkpoint/diff.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shards.h"
#include "tests/base/faulty_file_system.h"

namespace regatta::checkpoint {
namespace {

using Shape = std::vector<std::int64_t>;

class DiffTest : public testing::Test {
 protected:
  struct Tensor {
    std::string name;
    std::string dtype;
    Shape shape;
    std::vector<std::byte> bytes;
  };
  template <typename T>
  static Tensor tensor(const std::string& name, const std::string& dtype, const Shape& shape,
                       const std::vector<T>& values) {
    Tensor out{name, dtype, shape, std::vector<std::byte>(values.size() * sizeof(T))};
    if (!values.empty()) std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
    return out;
  }
  static Tensor floats(const std::string& name, const Shape& shape,
                       const std::vector<float>& values) {
    return tensor(name, "F32", shape, values);
  }
  // A directory with one file for each list of tensors.
  base::Path write_shards(const std::vector<std::vector<Tensor>>& shards) {
    const base::Path path = directory_.path() / std::to_string(++written_);
    files_.create_directory(path);
    for (std::size_t i = 0; i < shards.size(); ++i) {
      std::vector<NamedTensor> named;
      for (const Tensor& one : shards[i]) {
        named.push_back({one.name, one.dtype, one.shape, one.bytes});
      }
      const std::string file =
          shard_file(kModel, static_cast<int>(i), static_cast<int>(shards.size()));
      write_safetensors(files_, path / file, named, {});
    }
    return path;
  }
  CheckpointDifference compare(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    return compare_checkpoints(files_, write_shards({a}), write_shards({b}), kModel);
  }

  base::FileSystem& files_ = base::posix_file_system();
  tests::TemporaryDirectory directory_;
  int written_ = 0;
};

TEST_F(DiffTest, NormsAndLargestDifferenceByHand) {
  const auto diff = compare({floats("w", {2, 3}, {3, 0, 0, 4, 0, 0})},
                            {floats("w", {2, 3}, {3, 0, 0, 4, 12, -5})});
  ASSERT_EQ(diff.tensors.size(), 1U);
  const TensorDifference& w = diff.tensors[0];
  EXPECT_DOUBLE_EQ(w.norm_a, 5);
  EXPECT_DOUBLE_EQ(w.norm_b, std::sqrt(194.0));
  EXPECT_DOUBLE_EQ(w.norm, 13);
  EXPECT_DOUBLE_EQ(w.relative, 13 / std::sqrt(194.0));
  EXPECT_EQ(w.largest, 12);
  EXPECT_EQ(w.at, (Shape{1, 1}));
  EXPECT_FALSE(w.same_bits);
  EXPECT_TRUE(diff.misfits.empty());
}

TEST_F(DiffTest, SortedByRelativeDifference) {
  const auto diff = compare({floats("a", {1}, {100}), floats("b", {1}, {1}), floats("c", {1}, {0}),
                             floats("d", {1}, {1})},
                            {floats("a", {1}, {101}), floats("b", {1}, {2}), floats("c", {1}, {0}),
                             floats("d", {1}, {0})});
  std::string order;
  for (const TensorDifference& one : diff.tensors) order += one.name;
  EXPECT_EQ(order, "dbac");
  EXPECT_EQ(diff.tensors[0].relative, 1);
  EXPECT_EQ(diff.tensors[3].relative, 0);
  EXPECT_TRUE(diff.tensors[3].same_bits);
  EXPECT_TRUE(diff.tensors[3].at.empty());
}

TEST_F(DiffTest, SaysWhatCannotBeCompared) {
  const auto diff = compare({floats("gone", {1}, {1}), floats("shape", {2, 3}, {1, 2, 3, 4, 5, 6}),
                             tensor<std::uint8_t>("f8", "F8_E5M2", {2}, {1, 2})},
                            {floats("shape", {3, 2}, {1, 2, 3, 4, 5, 6}), floats("new", {1}, {1}),
                             tensor<std::uint8_t>("f8", "F8_E5M2", {2}, {1, 2})});
  EXPECT_TRUE(diff.tensors.empty());
  ASSERT_EQ(diff.misfits.size(), 4U);
  EXPECT_EQ(diff.misfits[0].what, "elements of type F8_E5M2");
  EXPECT_EQ(diff.misfits[1].name + ": " + diff.misfits[1].what, "gone: only in a");
  EXPECT_EQ(diff.misfits[2].name + ": " + diff.misfits[2].what, "new: only in b");
  EXPECT_EQ(diff.misfits[3].what, "shape [2, 3] in a, [3, 2] in b");
}

TEST_F(DiffTest, TypesMayDiffer) {
  // 1.5, -2, 2^-24 (the smallest binary16), 65504 (the largest).
  const auto halves = tensor<std::uint16_t>("h", "F16", {4}, {0x3E00, 0xC000, 0x0001, 0x7BFF});
  const auto diff = compare(
      {tensor<std::int64_t>("i", "I64", {1}, {-7}), halves,
       tensor<std::uint16_t>("b", "BF16", {2}, {0x3FC0, 0xC000}),
       tensor<std::uint8_t>("t", "BOOL", {2}, {0, 1})},
      {floats("h", {4}, {1.5F, -2, 0x1p-24F, 65504}), tensor<double>("b", "F64", {2}, {1.5, -2}),
       tensor<std::int8_t>("i", "I8", {1}, {-7}), tensor<std::uint8_t>("t", "U8", {2}, {0, 1})});
  ASSERT_EQ(diff.tensors.size(), 4U);
  for (const TensorDifference& one : diff.tensors) {
    EXPECT_EQ(one.norm, 0) << one.name;
    EXPECT_GT(one.norm_a, 0) << one.name;
    EXPECT_FALSE(one.same_bits);
  }
}

TEST_F(DiffTest, NonFiniteElementsAreCountedAndComeFirst) {
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  const auto diff = compare(
      {floats("a", {3}, {1, nan, infinity}), floats("b", {1}, {1}), floats("c", {2}, {nan, 2}),
       tensor<std::uint16_t>("h", "F16", {3}, {0x7C00, 0xFC00, 0x7E01})},
      {floats("a", {3}, {1, 1, infinity}), floats("b", {1}, {9}), floats("c", {2}, {nan, 2}),
       tensor<std::uint16_t>("h", "F16", {3}, {0x7C00, 0xFC00, 0x7E01})});
  EXPECT_EQ(diff.tensors[0].name, "a");
  EXPECT_EQ(diff.tensors[0].not_finite_a, 2);
  EXPECT_EQ(diff.tensors[0].not_finite_b, 1);
  EXPECT_EQ(diff.tensors[0].norm, 0);
  EXPECT_EQ(diff.tensors[1].name, "b");
  EXPECT_EQ(diff.tensors[2].name, "c");
  EXPECT_TRUE(diff.tensors[2].same_bits);
  EXPECT_EQ(diff.tensors[3].not_finite_a, 3);
}

TEST_F(DiffTest, NeitherOverflowsNorLosesSmallOnes) {
  const auto diff = compare(
      {tensor<double>("big", "F64", {2}, {3e300, 4e300}),
       tensor<double>("small", "F64", {1}, {1e-300}), floats("scalar", {}, {2}),
       floats("empty", {0, 5}, {})},
      {tensor<double>("big", "F64", {2}, {0, 0}), tensor<double>("small", "F64", {1}, {3e-300}),
       floats("scalar", {}, {3}), floats("empty", {0, 5}, {})});
  ASSERT_EQ(diff.tensors.size(), 4U);
  EXPECT_DOUBLE_EQ(diff.tensors[0].norm, 5e300);
  EXPECT_DOUBLE_EQ(diff.tensors[1].relative, 2.0 / 3);
  EXPECT_EQ(diff.tensors[2].largest, 1);
  EXPECT_TRUE(diff.tensors[2].at.empty()) << "a scalar has no index";
  EXPECT_EQ(diff.tensors[3].relative, 0);
}

TEST_F(DiffTest, HowTensorsAreSplitMakesNoDifference) {
  const base::Path whole =
      write_shards({{floats("w", {2, 3}, {1, 2, 3, 4, 5, 6}), floats("b", {2}, {7, 8})}});
  const base::Path two = write_shards({{floats("w[0:4]", {4}, {1, 2, 3, 4})},
                                       {floats("w[4:6]", {2}, {5, 6}), floats("b", {2}, {7, 8})}});
  const base::Path three =
      write_shards({{floats("b[0:2]", {2}, {7, 8}), floats("w[0:1]", {1}, {1})},
                    {floats("w[1:5]", {4}, {2, 3, 4, 5})},
                    {floats("w[5:6]", {1}, {9})}});
  const CheckpointDifference same = compare_checkpoints(files_, two, whole, kModel);
  EXPECT_TRUE(same.misfits.empty());
  ASSERT_EQ(same.tensors.size(), 2U);
  for (const TensorDifference& one : same.tensors) EXPECT_TRUE(one.same_bits) << one.name;
  for (const auto& [a, b] : {std::pair(whole, three), {three, whole}}) {
    const CheckpointDifference other = compare_checkpoints(files_, a, b, kModel);
    ASSERT_EQ(other.tensors.size(), 2U);
    EXPECT_EQ(other.tensors[0].name, "w");
    EXPECT_EQ(other.tensors[0].largest, 3);
    EXPECT_EQ(other.tensors[0].shape, (Shape{2, 3})) << "the whole one knows its shape";
    EXPECT_EQ(other.tensors[0].at, (Shape{1, 2}));
    EXPECT_TRUE(other.tensors[1].same_bits);
  }
  EXPECT_EQ(compare_checkpoints(files_, two, three, kModel).tensors[0].at, (Shape{5}))
      << "in ranges on both sides";
}

TEST_F(DiffTest, RangesOfAnotherSizeAreMisfits) {
  const base::Path whole = write_shards({{floats("w", {2, 3}, {1, 2, 3, 4, 5, 6})}});
  const base::Path short_one =
      write_shards({{floats("w[0:4]", {4}, {1, 2, 3, 4})}, {floats("w[4:5]", {1}, {5})}});
  const CheckpointDifference diff = compare_checkpoints(files_, whole, short_one, kModel);
  EXPECT_TRUE(diff.tensors.empty());
  ASSERT_EQ(diff.misfits.size(), 1U);
  EXPECT_EQ(diff.misfits[0].what, "shape [2, 3] in a, [5] in ranges in b");
}

TEST_F(DiffTest, RefusesBadFiles) {
  const base::Path good = write_shards({{floats("a", {1}, {1})}});
  const base::Path bad = write_shards({});
  const base::Path absent = directory_.path() / "absent";
  for (const base::Path& other : {bad, absent}) {
    EXPECT_THROW((void)compare_checkpoints(files_, good, other, kModel), base::Error);
  }
  base::replace_file(files_, bad / "model.safetensors", "not a safetensors file");
  EXPECT_THROW((void)compare_checkpoints(files_, good, bad, kModel), base::Error);
  EXPECT_THROW((void)compare_checkpoints(files_, good, good, kOptimizer), base::Error);
}

}  // namespace
}  // namespace regatta::checkpoint
