// What a run file says of a batch that grows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_difference.h"

namespace regatta::trainer::contract {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kGrowing =
    "data: {path: /d}\nbatch: {size: 8, growth: adascale, max_size: 64}\n";

std::string error_of(const std::string& text) {
  try {
    (void)parse_run_config(text, "f");
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User) << error.what();
    return error.what();
  }
  return "taken";
}

TEST(GrowthConfig, IsReadAndWrittenAgain) {
  const RunConfig config = parse_run_config(kGrowing, "f");
  EXPECT_EQ(config.growth, BatchGrowth::AdaScale);
  EXPECT_EQ(config.batch_size, 8);
  EXPECT_EQ(config.max_batch, 64);
  const RunConfig again = parse_run_config(to_json(config), "f");
  EXPECT_TRUE(differences(config, again).empty());
  EXPECT_EQ(again.max_batch, 64);
  EXPECT_EQ(
      parse_run_config("data: {path: /d}\nbatch: {growth: square_root, max_size: 32}", "f").growth,
      BatchGrowth::SquareRoot);
}

// The text by which runs were told apart so far.
TEST(GrowthConfig, LeavesTheTextOfOtherRunsAsItWas) {
  const RunConfig config = parse_run_config("data: {path: /d}\nbatch: {growth: none}", "f");
  EXPECT_FALSE(grows(config));
  EXPECT_EQ(to_json(config), to_json(parse_run_config("data: {path: /d}", "f")));
  EXPECT_THAT(to_json(config), Not(HasSubstr("growth")));
  EXPECT_THAT(to_json(config), Not(HasSubstr("max_size")));
}

TEST(GrowthConfig, RefusesWhatDoesNotGoWithIt) {
  struct Case {
    const char* name;
    std::string text;
    const char* key;
    const char* says;
  };
  const std::string growing = kGrowing;
  const Case cases[] = {
      {"no largest", "data: {path: /d}\nbatch: {growth: adascale}", "batch.max_size", "missing"},
      {"a smaller largest", "data: {path: /d}\nbatch: {size: 8, growth: adascale, max_size: 7}",
       "batch.max_size", "is 7, below batch.size (8)"},
      {"a largest without growth", "data: {path: /d}\nbatch: {max_size: 64}", "batch.max_size",
       "set batch.growth"},
      {"one sample", "data: {path: /d}\nbatch: {size: 1, growth: adascale, max_size: 64}",
       "batch.size", "use at least 2"},
      {"no statistics", growing + "statistics: {every: 0}", "statistics.every", "is 0"},
      {"clipping by bucket", growing + "clip: {mode: bucket}", "clip.mode", "use global or none"},
      {"clipping by rank", growing + "clip: {mode: rank}", "clip.mode", "use global or none"},
      {"windows", growing + "balance: {strategy: stratified}", "balance.strategy",
       "use another strategy"},
      {"rollbacks", growing + "on_divergence: rollback", "on_divergence", "set it to stop"},
      {"a log of MLPerf", growing + "mllog: {file: a, submitter: b}", "mllog", "leave it out"},
      {"another word", "data: {path: /d}\nbatch: {growth: linear, max_size: 64}", "batch.growth",
       "linear"},
  };
  for (const Case& c : cases) {
    const std::string error = error_of(c.text);
    EXPECT_THAT(error, HasSubstr(c.key)) << c.name;
    EXPECT_THAT(error, HasSubstr(c.says)) << c.name;
    EXPECT_EQ(error.find('\n'), std::string::npos) << c.name;
  }
  EXPECT_EQ(error_of(growing + "ranks: 4\nsharding: {optimizer: true}"), "taken");
  EXPECT_EQ(error_of("data: {path: /d}\nranks: 4\nparallel: {pipeline: 2}\n"
                     "batch: {size: 8, micro: 2, growth: square_root, max_size: 8}"),
            "taken");
}

}  // namespace
}  // namespace regatta::trainer::contract
