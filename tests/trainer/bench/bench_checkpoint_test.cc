#include "trainer/bench/bench_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "trainer/cpu/cpu_device.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using nlohmann::json;
using testing::HasSubstr;

contract::ModelShape small_shape(int hidden) {
  contract::ModelShape shape = contract::preset_shape("tiny");
  shape.hidden = hidden;
  shape.heads = 2;
  shape.feed_forward = 2 * hidden;
  shape.vocabulary = 100;
  shape.max_positions = 64;
  return shape;
}

class BenchCheckpointTest : public testing::Test {
 protected:
  BenchCheckpointTest() {
    options_.shape = small_shape(32);
    options_.model_name = "small one";
    options_.resume_shape = small_shape(64);
    options_.resume_model_name = "larger one";
    options_.directory = directory_.path();
    options_.samples = 2;
    options_.rounds = 2;
    options_.block_seconds = 0.05;
    options_.digest_bytes = 1 << 20;
  }
  json measured() {
    const auto device = cpu::make_cpu_device(1);
    const contract::LengthTable lengths = contract::LengthTable::parse("8,39,1\n", "t");
    return json::parse(bench::bench_checkpoint(*device, base::system_clock(), lengths, options_));
  }
  std::vector<std::string> left() { return base::posix_file_system().list(directory_.path()); }

  TemporaryDirectory directory_;
  bench::BenchCheckpointOptions options_;
};

TEST_F(BenchCheckpointTest, ReportsFiguresThatFitTogether) {
  const json all = measured();
  EXPECT_EQ(all["model"], "small one");
  const std::int64_t weights = 4 * all["parameters"].get<std::int64_t>();

  const json& overhead = all["overhead"];
  EXPECT_EQ(overhead["samples_per_step"], 2);
  EXPECT_GE(overhead["steps_per_block"], 2);
  EXPECT_GE(overhead["checkpoint_bytes"], 3 * weights);
  EXPECT_GT(overhead["block_seconds_with"], 0);
  EXPECT_GT(overhead["block_seconds_without"], 0);
  ASSERT_EQ(overhead["extra_seconds_of_rounds"].size(), 2U);
  const double sum = overhead["extra_seconds_of_rounds"][0].get<double>() +
                     overhead["extra_seconds_of_rounds"][1].get<double>();
  EXPECT_NEAR(overhead["extra_seconds"].get<double>(), sum / 2, 1e-9);
  EXPECT_NEAR(overhead["percent_at_one_per_60_s"].get<double>(),
              overhead["extra_seconds"].get<double>() / 0.6, 1e-9);
  EXPECT_GT(overhead["copy_seconds"], 0);
  EXPECT_GE(overhead["stall_seconds"], overhead["copy_seconds"]);
  EXPECT_GE(overhead["whole_after_seconds"], overhead["write_seconds"]);

  const json& writer = all["writer"];
  EXPECT_GE(writer["bytes"], 3 * weights);
  EXPECT_LT(writer["bytes"], 3 * weights + 100'000) << "weights and two moments, and headers";
  EXPECT_GT(writer["gigabytes_per_second"], 0);
  EXPECT_NEAR(writer["ratio_to_dd"].get<double>() * writer["dd_gigabytes_per_second"].get<double>(),
              writer["gigabytes_per_second"].get<double>(), 1e-9);
  EXPECT_EQ(writer["ratio_of_rounds"].size(), 2U);

  EXPECT_EQ(all["digest"]["bytes"], 1 << 20);
  EXPECT_GT(all["digest"]["gigabytes_per_second"], 0);

  const json& resume = all["resume"];
  EXPECT_EQ(resume["model"], "larger one");
  ASSERT_FALSE(resume.contains("skipped")) << resume;
  EXPECT_GT(resume["bytes"], writer["bytes"]);
  EXPECT_GT(resume["find_verify_and_read_seconds"], 0);
  EXPECT_GE(resume["seconds"], resume["load_seconds"]);
  EXPECT_TRUE(left().empty()) << "nothing stays";
}

TEST_F(BenchCheckpointTest, MeasuresOnlyWhatIsAskedFor) {
  options_.parts = {"digest"};
  const json all = measured();
  EXPECT_TRUE(all.contains("digest"));
  for (const char* part : {"overhead", "writer", "resume"}) {
    EXPECT_FALSE(all.contains(part)) << part;
  }
  EXPECT_EQ(all["digest"]["digest"], measured()["digest"]["digest"]) << "of the same bytes";
}

TEST_F(BenchCheckpointTest, FindsHowManySamplesMakeAStep) {
  options_.parts = {"overhead"};
  options_.samples = 0;
  options_.rounds = 1;
  options_.step_seconds = 1e-9;
  EXPECT_EQ(measured()["overhead"]["samples_per_step"], 1);
  options_.step_seconds = 0.05;
  const json overhead = measured()["overhead"];
  EXPECT_GE(overhead["samples_per_step"], 1);
  EXPECT_LE(overhead["samples_per_step"], 4096);
  EXPECT_TRUE(left().empty());
}

TEST_F(BenchCheckpointTest, SaysWhatIsWrong) {
  const auto message = [this] {
    try {
      (void)measured();
    } catch (const base::Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  options_.parts = {"digest", "speed"};
  EXPECT_THAT(message(), HasSubstr("no part 'speed'"));
  options_.parts = {"writer"};
  options_.directory = directory_.path() / "absent";
  EXPECT_THAT(message(), HasSubstr("absent"));
  EXPECT_TRUE(left().empty());
}

}  // namespace
}  // namespace regatta::tests
