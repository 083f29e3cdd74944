// The figures of a task in an evaluation's record: what is written, and what is believed.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trainer/contract/journal.h"

namespace regatta::trainer::contract {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

EvalRecord judged(std::vector<Metric> metrics) {
  EvalRecord record;
  record.mlm_accuracy = record.mlm_loss = record.nsp_accuracy = kUnknown;
  record.metrics = std::move(metrics);
  return record;
}
std::optional<EvalRecord> read(const std::string& line) {
  const std::optional<JournalRecord> record = parse_record(line);
  if (!record) return std::nullopt;
  return std::get<EvalRecord>(record->body);
}
std::optional<EvalRecord> read_metrics(const std::string& metrics) {
  return read(R"({"sequence":1,"utc_seconds":2,"seconds":3,"type":"eval","step":4,"metrics":)" +
              metrics + "}");
}

TEST(JournalMetrics, AreAnObjectInTheirOrder) {
  const std::string line =
      to_line({7, 1, 2, judged({{"f1", 0.75}, {"exact", 0.5}, {"loss", 1.5}})});
  EXPECT_NE(line.find(R"("metrics":{"f1":0.75,"exact":0.5,"loss":1.5})"), std::string::npos)
      << line;
  EXPECT_EQ(to_line({7, 1, 2, EvalRecord{}}).find("metrics"), std::string::npos)
      << "pre-training has none";
}

// A model may be worse than chance: correlations are from −1 to 1, and only losses are above.
TEST(JournalMetrics, ComeBackToTheLastBit) {
  const std::vector<Metric> metrics{{"accuracy", 0},        {"f1", 1},          {"matthews", -0.1},
                                    {"pearson", -1},        {"spearman", 1e-9}, {"exact", 1.0 / 3},
                                    {"loss", 1234567.8901}, {"new one", 0.25}};
  std::string line = to_line({7, 1, 2, judged(metrics)});
  line.pop_back();
  const std::optional<EvalRecord> found = read(line);
  ASSERT_TRUE(found.has_value()) << line;
  ASSERT_EQ(found->metrics.size(), metrics.size());
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_EQ(found->metrics[i].name, metrics[i].name);
    EXPECT_EQ(found->metrics[i].value, metrics[i].value) << metrics[i].name;
    EXPECT_EQ(value_of(*found, metrics[i].name), metrics[i].value) << metrics[i].name;
  }
  EXPECT_TRUE(std::isnan(value_of(*found, "recall")));
  EXPECT_TRUE(std::isnan(value_of(*found, "mlm_accuracy")));
}

TEST(JournalMetrics, OfPreTrainingAreItsOwnFields) {
  EvalRecord record;
  record.mlm_accuracy = 0.25;
  record.mlm_loss = 5;
  EXPECT_EQ(value_of(record, "mlm_accuracy"), 0.25);
  EXPECT_EQ(value_of(record, "mlm_loss"), 5);
  for (const char* const other : {"loss", "f1", "accuracy", ""}) {
    EXPECT_TRUE(std::isnan(value_of(record, other))) << other;
  }
}

TEST(JournalMetrics, AreBelievedWithinTheirBounds) {
  const auto many = [](int count) {
    std::string object = "{";
    for (int i = 0; i < count; ++i) object += (i > 0 ? ",\"m" : "\"m") + std::to_string(i) + "\":0";
    return object + "}";
  };
  const auto named = [](std::size_t bytes) { return "{\"" + std::string(bytes, 'a') + "\":0}"; };
  for (const std::string& good :
       {std::string("{}"), std::string(R"({"f1":null})"), std::string(R"({"loss":null})"),
        std::string(R"({"pearson":-1,"spearman":1})"), many(64), named(64)}) {
    EXPECT_TRUE(read_metrics(good).has_value()) << good;
  }
  EXPECT_TRUE(std::isnan(value_of(*read_metrics(R"({"f1":null})"), "f1")));
  for (const std::string& bad :
       {std::string(R"({"f1":1.001})"), std::string(R"({"pearson":-1.001})"),
        std::string(R"({"accuracy":-0.001})"), std::string(R"({"exact":70})"),
        std::string(R"({"f1":"1"})"), std::string(R"({"f1":true})"), std::string(R"({"f1":{}})"),
        std::string("[]"), std::string("7"), many(65), named(65)}) {
    EXPECT_FALSE(read_metrics(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace regatta::trainer::contract
