#include "orchestrator/simulate/mlperf_log.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator::simulate {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string line(std::int64_t ms, const std::string& key, const std::string& value = "null",
                 const std::string& metadata = "") {
  return R"(:::MLLOG {"namespace": "", "time_ms": )" + std::to_string(ms) +
         R"(, "event_type": "POINT_IN_TIME", "key": ")" + key + R"(", "value": )" + value +
         R"(, "metadata": {"file": "a.py", "lineno": 1)" +
         (metadata.empty() ? "" : ", " + metadata) + "}}\n";
}

constexpr std::int64_t kStart = 1'700'000'000'000;

std::string head() {
  return "some output\n" + line(kStart - 9000, "submission_benchmark", R"("bert")") +
         line(kStart - 9000, "submission_org", R"("Somebody")") +
         line(kStart - 9000, "submission_platform", R"("box")") +
         line(kStart - 9000, "submission_division", R"("closed")") +
         line(kStart - 9000, "global_batch_size", "64") +
         line(kStart - 9000, "from_the_future", R"({"a": [1, 2]})");
}
std::string evaluation(std::int64_t ms, const std::string& value, std::int64_t samples) {
  return "[1] " +
         line(kStart + ms, "eval_accuracy", value, "\"epoch_num\": " + std::to_string(samples));
}
std::string good_log() {
  return head() + line(kStart, "run_start") + evaluation(1500, "0.5", 640) + "progress 50 %\r\n" +
         evaluation(3250, "0.7", 1280) + evaluation(5000, "0.725", 1920) +
         evaluation(6000, "0.73", 2560) +
         line(kStart + 6250, "run_stop", "null", R"("status": "success")");
}

TEST(MlperfLog, IsReadByHand) {
  const runs::ReferenceCurve curve = read_mlperf_log(good_log(), "log");
  EXPECT_THAT(curve.seconds, ElementsAre(1.5, 3.25, 5, 6));
  EXPECT_THAT(curve.values, ElementsAre(0.5, 0.7, 0.725, 0.73));
  EXPECT_THAT(curve.samples, ElementsAre(640, 1280, 1920, 2560));
  const runs::Reference& about = curve.about;
  EXPECT_EQ(about.submitter, "Somebody");
  EXPECT_EQ(about.system, "box");
  EXPECT_EQ(about.division, "closed");
  EXPECT_EQ(about.status, "success");
  EXPECT_EQ(about.global_batch, 64);
  EXPECT_EQ(about.threshold, 0.72);
  EXPECT_EQ(about.run_seconds, 6.25);
  EXPECT_FALSE(about.chips);
  runs::ReferenceCurve complete = curve;
  complete.about.name = "one";
  runs::complete(&complete);
  EXPECT_EQ(complete.about.time_to_accuracy_seconds, 5);
  EXPECT_EQ(complete.about.evaluations, 4);
}

TEST(MlperfLog, TellsWhatItSays) {
  const std::string more = line(kStart - 1, "number_of_nodes", "2") +
                           line(kStart - 1, "accelerators_per_node", "8") +
                           line(kStart - 1, "target_accuracy", "0.6") + good_log();
  EXPECT_EQ(read_mlperf_log(more, "log").about.chips, 16);
  EXPECT_EQ(read_mlperf_log(more, "log").about.threshold, 0.6);
  // The number of the only epoch, and no samples.
  const std::string old = head() + line(kStart, "run_start") + evaluation(10, "0.5", 1);
  EXPECT_THAT(read_mlperf_log(old, "log").samples, IsEmpty());
  EXPECT_EQ(read_mlperf_log(old, "log").about.status, "");
  EXPECT_FALSE(read_mlperf_log(old, "log").about.run_seconds);
}

TEST(MlperfLog, RefusesInOneLineWithItsPlace) {
  const std::string run = head() + line(kStart, "run_start");
  const std::string lines = ":::MLLOG " + std::string(100'000, '[') + "\n";
  struct Case {
    const char* name;
    std::string text, why;
  };
  const Case cases[] = {
      {"empty", "", "log: there is no line of MLPerf's"},
      {"text", "hello\n", "log: there is no line of MLPerf's"},
      {"binary", std::string("\0\xff\xfe:::ML\0", 9), "log: there is no line of MLPerf's"},
      {"binary line", ":::MLLOG " + std::string("\0\xff{", 3), "log:1: a damaged line"},
      {"no object", ":::MLLOG [1]\n", "log:1: a damaged line"},
      {"no key", ":::MLLOG {\"time_ms\": 1}\n", "log:1: a damaged line"},
      {"no time", ":::MLLOG {\"key\": \"a\", \"time_ms\": \"1\"}\n", "log:1: a damaged line"},
      {"torn", good_log().substr(0, good_log().size() - 5), ": a damaged line"},
      {"deep", lines, "log:1: a damaged line"},
      {"long", line(1, "x", "\"" + std::string(2 << 20, 'x') + "\""),
       "log:1: a line of MLPerf's is"},
      {"other", line(1, "submission_benchmark", "\"resnet\""),
       "a log of resnet; only those of bert"},
      {"escape", line(1, "submission_benchmark", R"("\u001b[2J")"), "\\x1b[2J"},
      {"no start", head(), "log: there is no run_start"},
      {"no evaluation", run, "log: there is no eval_accuracy"},
      {"evaluation first", head() + evaluation(1, "0.5", 1),
       "log:8: eval_accuracy comes before run_start"},
      {"stop first", head() + line(1, "run_stop"), "log:8: run_stop comes before run_start"},
      {"two runs", good_log() + line(kStart, "run_start"), "a second run_start"},
      {"two ends", good_log() + line(kStart, "run_stop"), "a second run_stop"},
      {"after the end", good_log() + evaluation(9000, "0.5", 1),
       "eval_accuracy comes after run_stop"},
      {"backwards", run + evaluation(10, "0.5", 1) + evaluation(9, "0.5", 1),
       "log:10: eval_accuracy is earlier"},
      {"before the start", run + evaluation(-1, "0.5", 1), "log:9: its time is before run_start"},
      {"no number", run + evaluation(1, "null", 1), "log:9: the value of eval_accuracy"},
      {"too good", run + evaluation(1, "1.5", 1), "log:9: the value of eval_accuracy"},
      {"endless", run + evaluation(1, "1e999", 1), "log:9: "},
  };
  for (const Case& each : cases) {
    try {
      (void)read_mlperf_log(each.text, "log");
      ADD_FAILURE() << each.name << " is read";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << each.name;
      EXPECT_THAT(error.what(), HasSubstr(each.why)) << each.name;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << each.name;
    }
  }
  std::string many = run;
  for (int i = 0; i < 10'001; ++i) many += evaluation(i, "0.5", i);
  EXPECT_THROW((void)read_mlperf_log(many, "log"), base::Error);
}

TEST(MlperfLog, PlacesTellWhoseItIs) {
  const MlperfPlace repository =
      mlperf_place("/x/training_results_v2.0/NVIDIA/results/dgxa100/bert/result_3.txt");
  EXPECT_EQ(repository.name, "v2.0-NVIDIA-dgxa100-result_3");
  EXPECT_EQ(repository.round, "v2.0");
  EXPECT_EQ(repository.submitter, "NVIDIA");
  EXPECT_EQ(repository.system, "dgxa100");
  const MlperfPlace one = mlperf_place("/x/v4.1__tinycorp__tinybox_green__result_0.txt");
  EXPECT_EQ(one.name, "v4.1-tinycorp-tinybox_green-result_0");
  EXPECT_EQ(one.system, "tinybox_green");
  EXPECT_EQ(mlperf_place("/x/.my log (2).txt").name, "my-log-2-");
  EXPECT_EQ(mlperf_place("/x/.my log (2).txt").round, "");
}

TEST(MlperfLog, ValuesOfPublishedOnesAreThePublishedOnes) {
  REGATTA_NEED_SHARED("data/mlperf_logs/expected.json");
  const Json expected =
      Json::parse(tests::file_text(tests::shared_path("data/mlperf_logs/expected.json")));
  ASSERT_EQ(expected.size(), 10U);
  for (const auto& [name, published] : expected.items()) {
    SCOPED_TRACE(name);
    const std::filesystem::path path = tests::shared_path("data/mlperf_logs/" + name);
    runs::ReferenceCurve curve = read_mlperf_log(tests::file_text(path), name);
    curve.about.name = mlperf_place(path.string()).name;
    runs::complete(&curve);
    ASSERT_EQ(curve.seconds.size(), published["n_evals"].get<std::size_t>());
    const Json& points = published["curve"];
    const bool has_samples = points.back()["epoch_num"].get<double>() > 1;
    ASSERT_EQ(curve.samples.size(), has_samples ? points.size() : 0U);
    for (std::size_t i = 0; i < points.size(); ++i) {
      EXPECT_DOUBLE_EQ(curve.seconds[i] * 1e3, points[i]["ms_since_run_start"].get<double>());
      EXPECT_EQ(curve.values[i], points[i]["value"].get<double>());
      if (has_samples) {
        EXPECT_EQ(curve.samples[i], points[i]["epoch_num"].get<double>());
      }
    }
    const runs::Reference& about = curve.about;
    EXPECT_EQ(about.threshold, published["target"].get<double>());
    EXPECT_EQ(about.status, published["run_status"].is_null() ? "" : published["run_status"]);
    EXPECT_EQ(about.run_seconds.has_value(), !published["run_minutes"].is_null());
    if (about.run_seconds) {
      EXPECT_DOUBLE_EQ(*about.run_seconds, 60 * published["run_minutes"].get<double>());
    }
    const Json& first = published["first_eval_at_or_above_target"];
    ASSERT_EQ(about.time_to_accuracy_seconds.has_value(), !first.is_null());
    if (!first.is_null()) {
      EXPECT_DOUBLE_EQ(*about.time_to_accuracy_seconds * 1e3,
                       first["ms_since_run_start"].get<double>());
    }
    EXPECT_EQ(about.global_batch, published["hyperparameters"]["global_batch_size"].get<int>());
  }
}

}  // namespace
}  // namespace regatta::orchestrator::simulate
