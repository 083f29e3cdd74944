// What journals say of a batch that grows.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "trainer/contract/journal.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

template <typename Body>
contract::JournalRecord record(Body body) {
  return {7, 1000.5, 2.5, std::move(body)};
}
contract::JournalRecord back(const contract::JournalRecord& record) {
  std::string line = contract::to_line(record);
  line.pop_back();
  return contract::parse_record(line).value();
}

TEST(JournalOfABatchThatGrows, RoundTripsAndSaysNothingOfOthers) {
  contract::StartRecord start;
  contract::StepRecord step;
  EXPECT_EQ(contract::to_line(record(start)).find("batches"), std::string::npos);
  EXPECT_EQ(contract::to_line(record(start)).find("progress"), std::string::npos);
  EXPECT_EQ(contract::to_line(record(step)).find("progress"), std::string::npos);
  start.batches = {{1, 64}, {400, 128}};
  start.first_progress = 500.25;
  step.progress = 501 + 1.0 / 3;
  const auto start_back = std::get<contract::StartRecord>(back(record(start)).body);
  EXPECT_EQ(start_back.batches, start.batches);
  EXPECT_EQ(start_back.first_progress, 500.25);
  EXPECT_EQ(std::get<contract::StepRecord>(back(record(step)).body).progress, step.progress);
  const std::string good = contract::to_line(record(start));
  for (const char* const bad :
       {R"([{"step":1,"size":64},{"step":400,"size":0}])", R"([{"step":2,"size":64}])", "[1]",
        R"([{"step":1,"size":0}])", R"([{"step":1,"size":"a"}])", "{}"}) {
    std::string line = good.substr(0, good.size() - 1);
    const std::size_t from = line.find("\"batches\":") + 10, to = line.find(']', from) + 1;
    line.replace(from, to - from, bad);
    EXPECT_FALSE(contract::parse_record(line)) << line;
  }
}

TEST(JournalOfABatchThatGrows, RoundTripsADecision) {
  const contract::BatchRecord batch{404, 128, 300.5, 1.0 / 3};
  const auto batch_back = std::get<contract::BatchRecord>(back(record(batch)).body);
  EXPECT_EQ(batch_back.step, 404);
  EXPECT_EQ(batch_back.size, 128);
  EXPECT_EQ(batch_back.noise_scale, 300.5);
  EXPECT_EQ(batch_back.noise_scale_low, 1.0 / 3);
  EXPECT_EQ(std::get<contract::BatchRecord>(back(record(contract::BatchRecord{})).body).noise_scale,
            std::nullopt);
}

}  // namespace
}  // namespace regatta::tests
