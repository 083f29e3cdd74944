// A run that is judged by something else than pre-training is, in text and in event files.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "orchestrator/text/comparison.h"
#include "orchestrator/text/event_file.h"
#include "orchestrator/text/log_lines.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::text {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr, testing::Not;

Json judged_by(const std::string& metric, double value, double target) {
  return {{"id", "squad"},    {"state", "running"}, {"step", 25},
          {"steps", 100},     {"metric", metric},   {"value", value},
          {"target", target}, {"baseline", 0.5},    {"loss", 1.5}};
}

TEST(MetricsText, NamesTheMetricOfTheRun) {
  const Json f1 = judged_by("f1", 0.75, 0.88);
  EXPECT_EQ(step_line(f1), "-- step 25/100, loss 1.5, f1 0.7500 of 0.8800\n");
  EXPECT_THAT(progress_line(f1, 100), HasSubstr("step 25/100  f1 0.7500 of 0.8800"));
  EXPECT_THAT(run_summary(f1), HasSubstr("f1 0.8800, not reached; last 0.7500 (the best constant "
                                         "guess: 0.5000)"));
  EXPECT_THAT(run_summary(judged_by("matthews", -0.25, 0.5)), HasSubstr("; last -0.2500 (the"));
  for (const char* loss : {"loss", "mlm_loss"}) {
    const std::string text = run_summary(judged_by(loss, 1.25, 1));
    EXPECT_THAT(text, HasSubstr(std::string(loss) + " 1.0000, not reached; last 1.2500\n"));
    EXPECT_THAT(text, Not(HasSubstr("constant guess"))) << "a guess has no loss";
  }
}

TEST(MetricsText, OfEvaluationsAreAllThatTheJournalSays) {
  const Json metrics = {
      {"evaluations",
       {{10, 5.0, nullptr, nullptr, false, 0.75, {{"exact", 0.5}, {"f1", 0.75}, {"loss", nullptr}}},
        {20, 6.0, 0.25, 5.0, false, 0.25, Json::object()},
        {30, 7.0, nullptr, nullptr, false, nullptr, {{"a\x1b[2J", 1.0}}},
        {40, 8.0, 0.5, 4.0}}},
      {"checkpoints", Json::array()}};
  EXPECT_EQ(event_lines(metrics),
            "-- step 10: evaluation, exact 0.5000, f1 0.7500\n"
            "-- step 20: evaluation, mlm_accuracy 0.2500, mlm_loss 5.0000\n"
            "-- step 30: evaluation, a\\x1b[2J 1.0000\n"
            "-- step 40: evaluation, mlm_accuracy 0.5000, mlm_loss 4.0000\n");
}

TEST(MetricsText, OfEventFilesHaveTheirTags) {
  EventFile events(0);
  const std::string file = events.records(
      Json::array({{{"type", "evaluation"},
                    {"attempt", 1},
                    {"at_seconds", 2.5},
                    {"step", 10},
                    {"mlm_accuracy", nullptr},
                    {"mlm_loss", nullptr},
                    {"value", 0.75},
                    {"metrics", {{"exact", nullptr}, {"f1", 0.75}, {"loss", 1.5}}}},
                   {{"type", "evaluation"}, {"attempt", 1}, {"step", 20}, {"metrics", nullptr}},
                   {{"type", "evaluation"}, {"attempt", 1}, {"step", 30}, {"metrics", "f1"}}}));
  EXPECT_THAT(file, HasSubstr("eval/f1"));
  EXPECT_THAT(file, HasSubstr("eval/loss"));
  EXPECT_THAT(file, Not(HasSubstr("eval/exact"))) << "not known";
  EXPECT_THAT(file, Not(HasSubstr("eval/mlm")));
}

TEST(MetricsText, OfComparedRunsAreEachItsOwn) {
  const Json all = comparison_of({judged_by("f1", 0.75, 0.88), judged_by("loss", 1.25, 1)});
  EXPECT_EQ(all["figures"]["metric"], Json({"f1", "loss"}));
  EXPECT_EQ(all["figures"]["value"], Json({0.75, 1.25}));
  EXPECT_EQ(all["figures"]["target"], Json({0.88, 1.0}));
}

}  // namespace
}  // namespace regatta::orchestrator::text
