// What benchmarks of several ranks train on, and that their commands run to a complete result.
#include "trainer/bench/bench_ranks.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/process.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/bench/bench_ablation.h"
#include "trainer/bench/bench_overlap.h"
#include "trainer/samples/random_samples.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

constexpr double kDeadline = 200;  // seconds for any command here, on any machine

contract::ModelShape shape_of(int positions) {
  contract::ModelShape shape = contract::preset_shape("tiny");
  shape.vocabulary = 100;
  shape.max_positions = positions;
  return shape;
}

TEST(RandomSamples, EveryLengthAsOftenAsTheTableSays) {
  const contract::LengthTable table = contract::LengthTable::parse("8,8,1\n20,20,3\n", "t");
  const samples::SampleStream stream = samples::random_samples(table, shape_of(512), 40);
  std::map<std::int32_t, int> counts;
  for (std::int64_t i = 0; i < 40; ++i) ++counts[stream.length(i)];
  EXPECT_EQ(counts, (std::map<std::int32_t, int>{{8, 10}, {20, 30}}));
}

TEST(RandomSamples, RepeatAfterAPeriodAndAreAsLongAsTheySay) {
  const contract::LengthTable table = contract::LengthTable::parse("8,60,1\n", "t");
  const samples::SampleStream stream = samples::random_samples(table, shape_of(40), 12);
  std::set<std::vector<std::int32_t>> seen;
  for (std::int64_t i = 0; i < 12; ++i) {
    const samples::Sample sample = stream.at(i);
    EXPECT_EQ(std::ssize(sample.ids), stream.length(i)) << i;
    EXPECT_LE(stream.length(i), 40) << "the model's positions";
    EXPECT_EQ(stream.at(i + 24).ids, sample.ids) << i;
    EXPECT_EQ(sample.masked_positions.size(), sample.masked_labels.size());
    EXPECT_GE(sample.masked_positions.size(), 1U);
    EXPECT_LT(sample.masked_positions.back(), stream.length(i));
    seen.insert(sample.ids);
  }
  EXPECT_EQ(seen.size(), 12U) << "all differ";
}

TEST(RandomSamples, PaddingChangesNothingButLengths) {
  const contract::LengthTable table = contract::LengthTable::parse("8,60,1\n", "t");
  const samples::SampleStream stream = samples::random_samples(table, shape_of(64), 10);
  const samples::SampleStream padded = samples::padded_samples(stream, 60);
  for (std::int64_t i = 0; i < 10; ++i) {
    const samples::Sample before = stream.at(i), after = padded.at(i);
    EXPECT_EQ(padded.length(i), 60);
    ASSERT_EQ(after.ids.size(), 60U);
    ASSERT_EQ(after.types.size(), 60U);
    EXPECT_EQ(std::vector(after.ids.begin(), after.ids.begin() + stream.length(i)), before.ids);
    EXPECT_EQ(std::count(after.ids.begin() + stream.length(i), after.ids.end(), 0),
              60 - stream.length(i));
    EXPECT_EQ(after.masked_positions, before.masked_positions);
  }
}

TEST(BenchShape, TheDefaultOverlapModelHasFewEmbeddingsAndManyBuckets) {
  const contract::ModelShape shape = bench::bench_shape(bench::kSmallEmbedding);
  double embeddings = 0;
  const contract::TensorTable table = contract::make_tensor_table(shape);
  for (const contract::TensorEntry& tensor : table.tensors) {
    if (tensor.name.find("embeddings") != std::string::npos) {
      embeddings += static_cast<double>(tensor.size);
    }
  }
  EXPECT_LT(embeddings, 0.1 * static_cast<double>(table.parameter_count));
  EXPECT_THROW((void)bench::bench_shape("enormous"), base::Error);
}

// The real command, in a directory with a table of short samples.
class BenchCommand : public testing::Test {
 protected:
  BenchCommand() { std::ofstream(directory_.path() / "lengths.csv") << "8,31,1\n"; }
  base::Output run(std::vector<std::string> arguments) {
    base::Command command;
    command.arguments = {std::string(REGATTA_BINARY_DIR) + "/trainer/regatta-train", "bench"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    for (const char* more : {"--lengths", "lengths.csv", "--threads", "1"}) {
      const bool takes_none = arguments.front() == "input" && std::string(more) == "--threads";
      if (takes_none) break;
      command.arguments.emplace_back(more);
    }
    command.directory = directory_.path();
    return base::run(command, kDeadline);
  }
  static void expect_row(const nlohmann::json& row) {
    EXPECT_GT(row["step_ms"].get<double>(), 0) << row;
    EXPECT_GT(row["useful_tokens_per_second"].get<double>(), 0) << row;
    EXPECT_GE(row["exposed_ms"].get<double>(), 0) << row;
    EXPECT_LE(row["exposed_ms"].get<double>(), row["step_ms"].get<double>()) << row;
    EXPECT_GE(row["imbalance"].get<double>(), 1) << row;
    EXPECT_GT(row["utilisation"].get<double>(), 0) << row;
    EXPECT_GT(row["ratio"].get<double>(), 0) << row;
    EXPECT_GT(row["phases_ms"]["backward"].get<double>(), 0) << row;
  }
  // Names of rows by group; whether they were measured is as it should be.
  static std::map<std::string, std::vector<std::string>> rows_of(const nlohmann::json& json,
                                                                 int ranks) {
    std::map<std::string, std::vector<std::string>> names;
    for (const nlohmann::json& row : json["rows"]) {
      const std::string name = row["name"];
      names[row["group"]].push_back(name);
      const bool needs_ranks = name == "balance" || name == "overlap" || name == "sharding";
      if (name == "graphs") {
        EXPECT_EQ(row["skipped"], "GPU only");
      } else if (needs_ranks && ranks == 1) {
        EXPECT_EQ(row["skipped"], "needs several ranks");
      } else {
        expect_row(row);
      }
    }
    return names;
  }
  base::Output ablation(int ranks, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"ablation", "--ranks",   std::to_string(ranks),
                                       "--model",  "tiny",      "--vocabulary",
                                       "100",      "--samples", "5",
                                       "--steps",  "2",         "--rounds",
                                       "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }

  TemporaryDirectory directory_;
};

const std::vector<std::string> kIdeas{"unpadding", "fused kernels",   "graphs",  "balance",
                                      "overlap",   "bucket clipping", "sharding"};

void expect_all_rows(std::map<std::string, std::vector<std::string>> names) {
  EXPECT_EQ(names["everything"], std::vector<std::string>{"everything"});
  EXPECT_EQ(names["off"], kIdeas);
  EXPECT_EQ(names["clip"], (std::vector<std::string>{"none", "global", "bucket", "rank"}));
  std::vector<std::string> added{"nothing"};
  added.insert(added.end(), kIdeas.begin(), kIdeas.end());
  EXPECT_EQ(names["added"], added);
}

TEST_F(BenchCommand, AblationOnOneRankSaysWhatNeedsSeveral) {
  const base::Output output = ablation(1);
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  const auto json = nlohmann::json::parse(output.text);
  EXPECT_EQ(json["ranks"], 1);
  EXPECT_EQ(json["longest"], 31);
  EXPECT_NEAR(json["useful_tokens"].get<double>(), 5 * 19.5, 5);
  expect_all_rows(rows_of(json, 1));
  EXPECT_NE(output.errors.find("without unpadding"), std::string::npos) << "the table";
  EXPECT_NE(output.errors.find("needs several ranks"), std::string::npos);
}

#ifdef REGATTA_TEST_MPI
TEST_F(BenchCommand, AblationOnTwoRanks) {
  const base::Output output = ablation(2, {"--link-gbps", "1", "--link-latency-us", "500"});
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  const auto json = nlohmann::json::parse(output.text);
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["link_gigabits_per_second"], 1.0);
  expect_all_rows(rows_of(json, 2));
  for (const nlohmann::json& row : json["rows"]) {
    // 5 samples on 2 ranks are never even; the link lets nothing through in no time.
    const bool off = row["group"] == "off";
    if (row["group"] == "everything") {
      EXPECT_GT(row["imbalance"], 1.0);
    } else if (off && row["name"] == "overlap") {
      EXPECT_GT(row["exposed_ms"], 0.5);
    }
  }
}

// Making samples is spread over threads; a loop on each core meanwhile has less of it.
TEST_F(BenchCommand, InputByThreads) {
  const base::Output output = run({"input", "--workers", "1,2,8", "--seconds", "0.1", "--rounds",
                                   "1", "--batch", "16", "--demand", "1e12"});
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  const auto json = nlohmann::json::parse(output.text);
  ASSERT_EQ(json["rows"].size(), 3U);
  for (const nlohmann::json& row : json["rows"]) {
    EXPECT_GT(row["samples_per_second"].get<double>(), 100) << row;
    // Lengths of 8 to 31.
    EXPECT_GE(row["tokens_per_second"].get<double>(), 8 * row["samples_per_second"].get<double>());
    EXPECT_LE(row["tokens_per_second"].get<double>(), 31 * row["samples_per_second"].get<double>());
    EXPECT_GT(row["computing"].get<double>(), 0) << row;
    EXPECT_GT(row["processors"].get<double>(), 0.05) << row;
    EXPECT_LE(row["processors"].get<double>(), 1.2 * row["workers"].get<double>() + 1) << row;
  }
  EXPECT_EQ(json["rows"][0]["ratio"], 1.0);
  EXPECT_TRUE(json["enough"].is_null());
  EXPECT_NE(output.errors.find("need more than any of these"), std::string::npos);
  const base::Output few = run({"input", "--workers", "2", "--workers", "1", "--seconds", "0.05",
                                "--rounds", "1", "--batch", "4", "--demand", "1"});
  EXPECT_EQ(nlohmann::json::parse(few.text)["enough"], 1) << few.text;
  EXPECT_NE(run({"input", "--workers", "0"}).exit.code, 0);
}

TEST_F(BenchCommand, OverlapOnTwoRanks) {
  const base::Output output =
      run({"overlap", "--model", "tiny", "--samples", "4", "--steps", "1", "--rounds", "2"});
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  const auto json = nlohmann::json::parse(output.text);
  ASSERT_EQ(json["cases"].size(), 1U);
  const nlohmann::json& row = json["cases"][0];
  EXPECT_EQ(row["model"], "tiny");
  EXPECT_EQ(row["ratio_of_rounds"].size(), 2U);
  for (const char* key :
       {"compute_seconds", "communication_seconds", "last_bucket_seconds", "first_ready_seconds",
        "overlap_seconds", "no_overlap_seconds", "bound_seconds", "ratio", "ratio_to_bound",
        "no_overlap_to_overlap", "link_gigabits_per_second"}) {
    EXPECT_GT(row[key].get<double>(), 0) << key;
  }
  // Most of this model is its embedding, so most of the bytes come last.
  EXPECT_GT(row["last_bucket_seconds"].get<double>(),
            0.5 * row["communication_seconds"].get<double>());
}

// Whether predictions hold is shown by plan_bench_test.
TEST_F(BenchCommand, PlanOnTwoRanks) {
  const base::Output output = run(
      {"plan", "--model", "tiny", "--samples", "4", "--rounds", "3", "--links", "none,latency"});
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  const auto json = nlohmann::json::parse(output.text);
  EXPECT_EQ(json["ranks"], 2);
  ASSERT_EQ(json["cases"].size(), 2U);
  EXPECT_FALSE(json["cases"][0].contains("link_gb_per_s"));
  EXPECT_GT(json["cases"][1]["link_latency_us"], 0.0);
  for (const nlohmann::json& row : json["cases"]) {
    std::vector<std::string> names;
    for (const nlohmann::json& cut : row["cuts"]) {
      names.push_back(cut["name"]);
      for (const char* key : {"buckets", "predicted_seconds", "seconds", "ratio"}) {
        EXPECT_GT(cut[key].get<double>(), 0) << key;
      }
    }
    EXPECT_EQ(names, (std::vector<std::string>{"25 MB", "planned", "one bucket", "a layer"}));
    EXPECT_EQ(row["timeline"]["buckets"].size(), row["cuts"][1]["buckets"]);
    EXPECT_EQ(row["ratio_to_prediction_of_rounds"].size(), 3U);
    EXPECT_EQ(row["planned_to_standard_of_rounds"].size(), 3U);
    EXPECT_GE(row["curve"].size(), 2U);
    EXPECT_GT(row["compute_seconds"], row["forward_seconds"]);
    EXPECT_NE(row["why"], "");
  }
  EXPECT_NE(output.errors.find("bucket 0    |"), std::string::npos) << "the timeline";
  EXPECT_NE(output.errors.find("measured / predicted"), std::string::npos);
}

TEST_F(BenchCommand, PlanOverALinkThatIsGiven) {
  const base::Output output = run({"plan", "--model", "tiny", "--samples", "2", "--rounds", "1",
                                   "--link-gb-per-s", "2", "--link-latency-us", "100"});
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  const auto json = nlohmann::json::parse(output.text);
  ASSERT_EQ(json["cases"].size(), 1U);
  const nlohmann::json& row = json["cases"][0];
  EXPECT_EQ(row["link"], "given");
  EXPECT_NEAR(row["link_gb_per_s"].get<double>(), 2, 1e-9);
  // The curve is that of the link or worse.
  for (const nlohmann::json& point : row["curve"]) {
    EXPECT_GE(point["seconds"].get<double>(), 100e-6 + 0.99 * point["bytes"].get<double>() / 2e9);
  }
}
#endif

TEST_F(BenchCommand, BadInputIsOneLine) {
  const struct {
    std::vector<std::string> arguments;
    const char* message;
  } cases[] = {
      {{"ablation", "--ranks", "1", "--model", "enormous"}, "enormous"},
      {{"ablation", "--ranks", "1", "--dtype", "bfloat16"}, "the CPU computes in float32"},
      {{"overlap", "--model", "enormous"}, "enormous"},
      {{"overlap", "--ranks", "1"}, "--ranks"},
      {{"plan", "--model", "enormous"}, "enormous"},
      {{"plan", "--ranks", "1"}, "--ranks"},
      {{"plan", "--links", "fast"}, "fast"},
  };
  for (const auto& c : cases) {
    const base::Output output = run(c.arguments);
    EXPECT_NE(output.exit.code.value_or(0), 0) << c.message;
    EXPECT_NE(output.errors.find(c.message), std::string::npos) << output.errors;
    EXPECT_EQ(output.text, "");
  }
}

}  // namespace
}  // namespace regatta::tests
