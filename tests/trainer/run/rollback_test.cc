// Which checkpoint a run goes back to, and whose samples it leaves out.
#include "trainer/run/rollback.h"

#include <gtest/gtest.h>

namespace regatta::trainer {
namespace {

using checkpoint::Entry;
using checkpoint::Status;
using Names = std::vector<std::string>;
using Rollbacks = std::vector<checkpoint::Rollback>;

Entry entry(const std::string& name, std::int64_t step, const Rollbacks& rollbacks = {}) {
  Entry made;
  made.name = name;
  made.step = step;
  made.status = Status::Valid;
  made.manifest.emplace();
  made.manifest->step = step;
  made.manifest->rollbacks = rollbacks;
  return made;
}
Entry broken(Entry entry) {
  entry.status = Status::Damaged;
  entry.manifest.reset();
  return entry;
}

TEST(Rollback, LeavesOutTheSamplesOfEveryStepGoneBackOver) {
  EXPECT_EQ(run::skipped_steps({}), 0);
  EXPECT_EQ(run::skipped_steps({{17, 14}}), 3);
  EXPECT_EQ(run::skipped_steps({{17, 14}, {16, 7}, {9, 7}}), 14);
}

TEST(Rollback, Targets) {
  const Rollbacks one{{17, 14}};
  const Rollbacks two{{17, 14}, {16, 7}};
  struct Case {
    std::string what;
    std::vector<Entry> checkpoints;
    Rollbacks rollbacks;
    std::int64_t diverged_at;
    Names targets;
  };
  for (const Case& c : std::vector<Case>{
           {"nothing", {}, {}, 3, {}},
           {"the newest first",
            {entry("c", 14), entry("b", 7), entry("a", 0)},
            {},
            17,
            {"c", "b", "a"}},
           {"what was gone back to before, last, also where an interruption has written it again",
            {entry("d", 14, one), entry("c", 14), entry("b", 7)},
            one,
            17,
            {"b", "d", "c"}},
           {"in any order", {entry("b", 7), entry("c", 14)}, {}, 17, {"c", "b"}},
           {"not what cannot be read", {broken(entry("c", 14)), entry("b", 7)}, {}, 17, {"b"}},
           {"not of a later step", {entry("c", 21), entry("b", 14)}, {}, 21, {"b"}},
           {"those of an interruption last",
            {entry("x", 16), entry("c", 14), entry("b", 7)},
            {},
            17,
            {"c", "b", "x"}},
           {"but before nothing", {entry("x", 16)}, {}, 17, {"x"}},
           {"the one tried last of all", {entry("c", 14), entry("b", 7)}, one, 16, {"b", "c"}},
           {"tried again where there is no other", {entry("c", 14)}, one, 16, {"c"}},
           {"a newer one is not tried", {entry("d", 21, one), entry("c", 14)}, one, 22, {"d", "c"}},
           {"reached again, it is another",
            {entry("d", 14, two), entry("c", 14), entry("b", 7)},
            two,
            15,
            {"d", "b"}},
           {"not beyond a later rollback",
            {entry("d", 14, one), entry("c", 10), entry("b", 7)},
            two,
            16,
            {"b"}},
           {"not of another history", {entry("d", 14, {{15, 7}}), entry("b", 7)}, one, 16, {"b"}},
           {"not of a longer history", {entry("d", 14, two), entry("b", 7)}, one, 16, {"b"}},
       }) {
    EXPECT_EQ(run::rollback_targets(c.checkpoints, c.rollbacks, c.diverged_at, 7), c.targets)
        << c.what;
  }
}

}  // namespace
}  // namespace regatta::trainer
