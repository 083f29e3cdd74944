// The product engine on an emulated GPU: which way a product goes, what is timed and when, and the
// file of choices. That the numbers are right on every way is op_gemm*_test.cc's; here they are
// small integers, exact in every type.
#include "trainer/cuda/gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "tests/trainer/cuda/emulation/facts.h"
#include "trainer/cuda/handles.h"

namespace regatta::trainer::cuda {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kM = 40, kN = 24, kK = 16;

class Products : public testing::Test {
 protected:
  Products() : scratch_(make_scratch()) {
    std::string name = testing::TempDir() + "regatta-products-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  ~Products() override {
    emulation::library() = {};
    emulation::fail_call(-1, cudaSuccess);
    std::filesystem::remove_all(directory_);
  }

  [[nodiscard]] GemmEngine engine(bool tune = true, const std::string& file = {}) {
    GemmOptions options;
    options.tune = tune;
    options.device_name = "emulated";
    if (!file.empty()) options.cache_file = (directory_ / file).string();
    return GemmEngine(options, base::posix_file_system());
  }
  [[nodiscard]] KernelLaunch at() const {
    return {stream_.get(), {}, scratch_.get(), kScratchBytes};
  }
  [[nodiscard]] device::View floats(const std::vector<float>& values) {
    memory_.emplace_back(values.size() * 4);
    const device::View view{memory_.back().get(), static_cast<std::int64_t>(values.size()),
                            device::Dtype::Float32};
    check(cudaMemcpyAsync(view.data, values.data(), values.size() * 4, cudaMemcpyHostToDevice,
                          stream_.get()),
          "copying");
    return view;
  }
  [[nodiscard]] static std::vector<float> read(const device::View& view) {
    return {view.floats(), view.floats() + view.size};  // the emulated GPU's memory is ours
  }
  [[nodiscard]] static std::vector<float> integers(std::int64_t count, int step) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<float>(i * step % 7 - 3));
    }
    return values;
  }
  // c = a·b, float32, all of it small integers.
  [[nodiscard]] device::Gemm product(float beta = 0) {
    device::Gemm op;
    op.m = kM;
    op.n = kN;
    op.k = kK;
    op.a = floats(integers(kM * kK, 3));
    op.b = floats(integers(kK * kN, 5));
    op.c = floats(std::vector<float>(kM * kN, 100));
    op.beta = beta;
    return op;
  }
  [[nodiscard]] static std::vector<float> expected(float start, float bias) {
    const std::vector<float> a = integers(kM * kK, 3);
    const std::vector<float> b = integers(kK * kN, 5);
    std::vector<float> c(kM * kN, start + bias);
    for (std::int64_t i = 0; i < kM * kN; ++i) {
      for (std::int64_t l = 0; l < kK; ++l) {
        c[static_cast<std::size_t>(i)] += a[static_cast<std::size_t>(i / kN * kK + l)] *
                                          b[static_cast<std::size_t>(l * kN + i % kN)];
      }
    }
    return c;
  }
  [[nodiscard]] static GemmPath path_of(const GemmEngine& engine, const device::Gemm& op) {
    return engine.plans().at(key_of(op, false)).path;
  }

  std::filesystem::path directory_;

 private:
  [[nodiscard]] static DevicePointer make_scratch() {
    emulation::configure({});
    emulation::fail_call(-1, cudaSuccess);
    emulation::library() = {};
    return DevicePointer(kScratchBytes);
  }
  DevicePointer scratch_;
  OwnStream stream_;
  std::vector<DevicePointer> memory_;
};

TEST_F(Products, AreTimedOnceAndThenOnlyEnqueued) {
  GemmEngine it = engine();
  const device::Gemm op = product();
  it.run(at(), op, false);
  EXPECT_EQ(read(op.c), expected(0, 0));
  EXPECT_EQ(path_of(it, op), GemmPath::Library);
  const auto after_first = emulation::library();
  EXPECT_EQ(after_first.heuristics, 1);
  EXPECT_EQ(after_first.calls, 2 * 4 + 1);  // two algorithms: one to warm up and three timed
  it.run(at(), op, false);
  EXPECT_EQ(emulation::library().heuristics, 1);
  EXPECT_EQ(emulation::library().calls, after_first.calls + 1);
}

// The trials of a product that adds must not add: not to c, and not to column sums.
TEST_F(Products, TrialsLeaveNoTrace) {
  GemmEngine it = engine();
  device::Gemm op = product(1);
  it.run(at(), op, false);
  EXPECT_EQ(read(op.c), expected(100, 0));

  device::Gemm sums;
  sums.m = kM;
  sums.n = kN;
  sums.k = kK;
  sums.transpose_a = true;
  sums.beta = 1;
  sums.a = floats(std::vector<float>(kK * kM, 2));
  sums.b = floats(std::vector<float>(kK * kN, 1));
  sums.c = floats(std::vector<float>(kM * kN, 5));
  sums.a_column_sums = floats(std::vector<float>(kM, 1000));
  it.run(at(), sums, false);
  EXPECT_EQ(read(sums.c), std::vector<float>(kM * kN, 5 + 2 * kK));
  EXPECT_EQ(read(sums.a_column_sums), std::vector<float>(kM, 1000 + 2 * kK));
  it.run(at(), sums, false);
  EXPECT_EQ(read(sums.a_column_sums), std::vector<float>(kM, 1000 + 4 * kK));
}

TEST_F(Products, TakeTheirFirstOfferWithoutTuning) {
  GemmEngine it = engine(false);
  const device::Gemm op = product(1);
  it.run(at(), op, false);
  EXPECT_EQ(read(op.c), expected(100, 0));
  EXPECT_EQ(emulation::library().calls, 1);
}

TEST_F(Products, AreNotTimedInsideACapture) {
  GemmEngine it = engine();
  const device::Gemm op = product();
  it.run(at(), op, true);
  EXPECT_EQ(emulation::library().calls, 1);
  it.run(at(), op, false);  // the choice stays: equal calls give equal bits
  EXPECT_EQ(emulation::library().calls, 2);
}

TEST_F(Products, GoSeparateWaysWhenEpiloguesAreRefused) {
  emulation::library().refuses_epilogues = true;
  GemmEngine it = engine();
  device::Gemm op = product(1);
  op.bias = floats(std::vector<float>(kN, 7));
  it.run(at(), op, false);
  EXPECT_EQ(read(op.c), expected(100, 7));
  EXPECT_EQ(path_of(it, op), GemmPath::Separate);
  op.bias = {};
  EXPECT_EQ(path_of(it, op), GemmPath::Library);
}

TEST_F(Products, AreBuiltInWhenTheLibraryRefuses) {
  emulation::library().refuses_products = true;
  for (const bool tune : {true, false}) {
    GemmEngine it = engine(tune);
    device::Gemm op = product(1);
    op.bias = floats(std::vector<float>(kN, 7));
    it.run(at(), op, false);
    EXPECT_EQ(read(op.c), expected(100, 7));
    op.bias = {};
    EXPECT_EQ(path_of(it, op), GemmPath::BuiltIn);
  }
  EXPECT_EQ(emulation::library().calls, 0);
}

TEST_F(Products, SkipAnAlgorithmThatDoesNotRun) {
  emulation::library().fails_first_algorithm = true;
  GemmEngine it = engine();
  const device::Gemm op = product();
  it.run(at(), op, false);
  EXPECT_EQ(read(op.c), expected(0, 0));
  EXPECT_EQ(it.plans().at(key_of(op, false)).algorithm[1], 1U);
  GemmEngine untimed = engine(false);
  EXPECT_THROW(untimed.run(at(), op, false), base::Error);
}

// Partial sums in place have no fixed order; the emulated library offers them as its third.
TEST_F(Products, NeverReduceInPlace) {
  GemmEngine it = engine();
  const device::Gemm op = product();
  it.run(at(), op, false);
  EXPECT_NE(it.plans().at(key_of(op, false)).algorithm[2], 1U);
  EXPECT_EQ(emulation::library().calls, 9) << "the third algorithm was tried";
}

TEST_F(Products, AreNotTimedWithoutMemoryForTrials) {
  GemmEngine it = engine();
  const device::Gemm op = product(1);
  emulation::fail_call(0, cudaErrorMemoryAllocation);
  it.run(at(), op, false);
  EXPECT_EQ(read(op.c), expected(100, 0));
  EXPECT_EQ(emulation::library().calls, 1);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(Products, OfNothingOnlySumTheirInput) {
  GemmEngine it = engine();
  device::Gemm op = product();
  op.n = 0;
  op.b.size = op.c.size = 0;
  op.transpose_a = true;
  op.a_column_sums = floats(std::vector<float>(kM, 1));
  op.a = floats(std::vector<float>(kM * kK, 2));
  it.run(at(), op, false);
  EXPECT_EQ(read(op.a_column_sums), std::vector<float>(kM, 1 + 2 * kK));
  EXPECT_EQ(emulation::library().calls, 0);
}

TEST_F(Products, RememberTheirTimesInAFile) {
  const device::Gemm op = product();
  GemmEngine first = engine(true, "products");
  first.run(at(), op, false);
  first.save();
  EXPECT_EQ(first.warning(), "");
  emulation::library() = {};
  GemmEngine second = engine(true, "products");
  second.run(at(), op, false);
  EXPECT_EQ(emulation::library().calls, 1);
  EXPECT_EQ(emulation::library().heuristics, 0);
  EXPECT_EQ(second.plans().at(key_of(op, false)).algorithm,
            first.plans().at(key_of(op, false)).algorithm);
}

// Not for every product that is timed, but when the host waits, and when the engine goes.
TEST_F(Products, AreSavedTogether) {
  const base::Path file = directory_ / "products";
  const auto products_in_file = [&] {
    return std::filesystem::exists(file)
               ? GemmCache::parse(base::posix_file_system().read(file, 1 << 20)).size()
               : 0U;
  };
  {
    GemmEngine it = engine(true, "products");
    const device::Gemm one = product();
    device::Gemm other = product();
    other.beta = 1;
    it.run(at(), one, false);
    it.run(at(), other, false);
    EXPECT_EQ(products_in_file(), 0U);
    it.save();
    EXPECT_EQ(products_in_file(), 2U);
    std::filesystem::remove(file);
    it.run(at(), one, false);
    it.save();
    EXPECT_EQ(products_in_file(), 0U) << "nothing new, but written";
    other.beta = 0;
    other.transpose_b = true;
    it.run(at(), other, false);
  }
  EXPECT_EQ(products_in_file(), 3U);
}

TEST_F(Products, MakeTheDirectoryOfTheirFile) {
  const device::Gemm op = product();
  GemmEngine it = engine(true, "fresh/cache/products");
  it.run(at(), op, false);
  it.save();
  EXPECT_EQ(it.warning(), "");
  EXPECT_TRUE(std::filesystem::exists(directory_ / "fresh" / "cache" / "products"));
}

TEST_F(Products, OfTwoProcessesShareTheFile) {
  const device::Gemm one = product();
  device::Gemm two = product();
  two.beta = 1;
  GemmEngine first = engine(true, "products");
  GemmEngine second = engine(true, "products");
  first.run(at(), one, false);
  second.run(at(), two, false);
  first.save();
  second.save();
  emulation::library() = {};
  GemmEngine third = engine(true, "products");
  third.run(at(), one, false);
  third.run(at(), two, false);
  EXPECT_EQ(emulation::library().calls, 2);
}

TEST_F(Products, IgnoreADamagedFileAndReplaceIt) {
  const base::Path path = directory_ / "products";
  std::ofstream(path) << "regatta-gemm 1\nmachine emulated\nrubbish\nend 1\n";
  GemmEngine it = engine(true, "products");
  EXPECT_THAT(it.warning(), HasSubstr("ignored"));
  EXPECT_THAT(it.warning(), HasSubstr("line 3"));
  const device::Gemm op = product();
  it.run(at(), op, false);
  EXPECT_EQ(read(op.c), expected(0, 0));
  it.save();
  EXPECT_EQ(engine(true, "products").warning(), "");
}

// An algorithm that the library no longer takes is timed anew, not run.
TEST_F(Products, CheckWhatTheFileSays) {
  const device::Gemm op = product();
  const GemmKey key = key_of(op, false);
  GemmCache cache;
  GemmPlan plan;
  plan.path = GemmPath::Library;
  plan.algorithm = {1, 2, 3, 4, 5, 6, 7, 8};
  cache.put("emulated / cuBLASLt 13.1.0", key, plan);
  std::ofstream(directory_ / "products") << cache.text();
  GemmEngine it = engine(true, "products");
  it.run(at(), op, false);
  EXPECT_EQ(read(op.c), expected(0, 0));
  EXPECT_NE(it.plans().at(key).algorithm, plan.algorithm);
}

TEST_F(Products, GoOnWhenTheFileCannotBeWritten) {
  std::ofstream(directory_ / "a file") << "in the way";
  GemmEngine it = engine(true, "a file/products");
  device::Gemm op = product();
  it.run(at(), op, false);
  EXPECT_EQ(read(op.c), expected(0, 0));
  it.save();
  EXPECT_THAT(it.warning(), HasSubstr("not written"));
  op.beta = 1;
  it.run(at(), op, false);
  it.save();  // and says so once
  EXPECT_THAT(it.warning(), HasSubstr("not written"));
}

TEST_F(Products, SayWhenTheLibraryDoesNotStart) {
  emulation::library().starts = false;
  try {
    static_cast<void>(engine());
    FAIL() << "it started";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Operator);
    EXPECT_THAT(error.what(), HasSubstr("cuBLASLt does not start"));
  }
}

}  // namespace
}  // namespace regatta::trainer::cuda
