#include "checkpoint/retention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "base/error.h"
#include "checkpoint/pins.h"
#include "checkpoint/tombstones.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"

namespace regatta::checkpoint {
namespace {

using Names = std::vector<std::string>;
using Mode = RetentionRound::Mode;
using tests::always;
using tests::SampleCheckpoint;

Names gone(const std::vector<Decision>& decisions) {  // oldest first
  Names names;
  for (auto it = decisions.rbegin(); it != decisions.rend(); ++it) {
    if (it->goes) names.push_back(it->name);
  }
  return names;
}

Candidate valid(const char* name, std::int64_t step, std::optional<double> metric = {}) {
  Candidate candidate;
  candidate.name = name;
  candidate.step = step;
  candidate.metric = metric;
  candidate.execution = "old";
  return candidate;
}
Candidate with(Candidate candidate, Status status, const char* execution = "old") {
  candidate.status = status;
  candidate.execution = execution;
  return candidate;
}
Candidate pinned(Candidate candidate) {
  candidate.pinned = true;
  return candidate;
}
Candidate being_read(Candidate candidate) {
  candidate.being_read = true;
  return candidate;
}
Candidate removed(Candidate candidate) {
  candidate.removed = true;
  return candidate;
}

constexpr auto kHighest = Better::Highest;
constexpr auto kLowest = Better::Lowest;

TEST(PlanRetention, Table) {
  struct Row {
    const char* name;
    std::vector<Candidate> candidates;
    RetentionPolicy policy;
    Names removed;
  };
  const std::vector<Candidate> four{valid("c", 30, 0.5), valid("a", 10, 0.9), valid("d", 40, 0.6),
                                    valid("b", 20, 0.4)};
  const Row rows[] = {
      {"none", {}, {}, {}},
      {"fewer than kept", four, {9}, {}},
      {"last two", four, {2}, {"a", "b"}},
      {"zero counts as one", four, {0}, {"a", "b", "c"}},
      {"negative counts as one", four, {-5, -1, -1}, {"a", "b", "c"}},
      {"and the highest", four, {1, 1, 0, kHighest}, {"b", "c"}},
      {"and the lowest", four, {1, 1, 0, kLowest}, {"a", "c"}},
      {"and the two lowest", four, {1, 2, 0, kLowest}, {"a"}},
      {"more best than there are", four, {1, 9, 0, kHighest}, {}},
      {"and every twentieth step", four, {1, 0, 20}, {"a", "c"}},
      {"every step", four, {1, 0, 1}, {}},
      {"no step is reached", four, {1, 0, 1000}, {"a", "b", "c"}},
      {"step 0 is not one of every", {valid("a", 0), valid("b", 1)}, {1, 0, 7}, {"a"}},
      {"all rules", four, {1, 1, 20, kHighest}, {"c"}},
      {"same step, by name", {valid("y", 5), valid("x", 5)}, {1}, {"x"}},
      {"pinned stays and does not count",
       {pinned(valid("a", 1)), valid("b", 2), pinned(valid("c", 3))},
       {1},
       {}},
      {"pinned is not the best one either",
       {pinned(valid("a", 1, 0.9)), valid("b", 2, 0.5), valid("c", 3, 0.1)},
       {1, 1, 0, kHighest},
       {}},
      {"being read stays and counts",
       {being_read(valid("a", 1)), valid("b", 2), being_read(valid("c", 3))},
       {1},
       {"b"}},
      {"no metric, no best", {valid("a", 1), valid("b", 2)}, {1, 1, 0, kHighest}, {"a"}},
      {"newer among equals",
       {valid("a", 1, 0.5), valid("b", 2, 0.5), valid("c", 3, 0.1)},
       {1, 1, 0, kHighest},
       {"a"}},
      {"not a number is never best",
       {valid("a", 1, std::nan("")), valid("b", 2, 0.1), valid("c", 3)},
       {1, 2, 0, kLowest},
       {"a"}},
      {"infinity is a number",
       {valid("a", 1, HUGE_VAL), valid("b", 2, 0.1), valid("c", 3)},
       {1, 1, 0, kHighest},
       {"b"}},
      {"broken ones, older",
       {with(valid("a", 1), Status::Damaged), with(valid("b", 2), Status::Unfinished),
        with(valid("c", 3), Status::Unreadable), valid("d", 4)},
       {1},
       {"a", "b"}},
      {"broken ones, newer",
       {valid("a", 1), with(valid("b", 2), Status::Damaged), with(valid("c", 1), Status::Damaged)},
       {1},
       {}},
      {"broken ones of the newest attempt",
       {with(valid("a", 1), Status::Unfinished, "now"), valid("b", 2)},
       {1},
       {}},
      {"broken ones, pinned or read",
       {pinned(with(valid("a", 1), Status::Damaged)),
        being_read(with(valid("b", 2), Status::Unfinished)), valid("c", 3)},
       {1},
       {}},
      {"only broken ones",
       {with(valid("a", 1), Status::Damaged), with(valid("b", 2), Status::Unfinished)},
       {1},
       {}},
      {"a removal that was cut short", {removed(valid("a", 1)), valid("b", 2)}, {9}, {"a"}},
      {"cut short, half there",
       {removed(with(valid("a", 1), Status::Unfinished, "now")), valid("b", 2)},
       {9},
       {"a"}},
      {"cut short, but nothing else is good",
       {removed(valid("a", 1)), removed(valid("b", 2)), with(valid("c", 3), Status::Damaged)},
       {1},
       {"a"}},
      {"cut short, but pinned or read",
       {pinned(removed(valid("a", 1))), being_read(removed(valid("b", 2))), valid("c", 3)},
       {1},
       {}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(gone(plan_retention(row.candidates, row.policy, "now")), row.removed) << row.name;
  }
}

TEST(PlanRetention, SaysWhy) {
  RetentionPolicy policy{2, 1, 1000, Better::Highest, "mlm_accuracy"};
  const std::vector<Candidate> candidates{
      valid("a", 500, 0.1),
      valid("b", 1000, 0.41),
      pinned(valid("c", 1500)),
      being_read(valid("d", 1600)),
      with(valid("e", 1700), Status::Damaged),
      valid("f", 2000, 0.2),
      valid("g", 2500, 0.3),
      with(valid("h", 3000), Status::Unfinished),
  };
  const std::vector<Decision> plan = plan_retention(candidates, policy, "now");
  ASSERT_EQ(plan.size(), 8U);
  const std::vector<std::pair<std::string, Names>> expected{
      {"h", {"unfinished, but no older than the newest good one"}},
      {"g", {"latest 1 of 2"}},
      {"f", {"latest 2 of 2", "every 1000"}},
      {"e", {"damaged, and older than the newest good one"}},
      {"d", {"being read"}},
      {"c", {"pinned"}},
      {"b", {"best mlm_accuracy 0.41", "every 1000"}},
      {"a", {"not among the latest 2, nor the best 1, nor at every 1000"}}};
  for (std::size_t i = 0; i < plan.size(); ++i) {
    EXPECT_EQ(plan[i].name, expected[i].first);
    EXPECT_EQ(plan[i].reasons, expected[i].second) << plan[i].name;
    EXPECT_EQ(plan[i].goes, plan[i].name == "a" || plan[i].name == "e");
  }
  policy.keep_best = 3;
  EXPECT_EQ(plan_retention(candidates, policy, "now")[1].reasons[1],
            "best 2 of 3, mlm_accuracy 0.3");
  EXPECT_EQ(plan_retention({removed(valid("a", 1))}, policy, "now")[0].reasons,
            Names{"the last good one"});
}

Candidate random_candidate(std::mt19937& random, unsigned number) {
  Candidate candidate;
  candidate.name = "n" + std::to_string(number);
  candidate.step = static_cast<std::int64_t>(random() % 10);
  candidate.execution = random() % 3 == 0 ? "now" : "old";
  if (random() % 2 == 0) candidate.metric = static_cast<double>(random() % 4);
  if (random() % 20 == 0) candidate.metric = std::nan("");
  if (random() % 3 == 0) candidate.status = static_cast<Status>(random() % 4);
  candidate.pinned = random() % 6 == 0;
  candidate.being_read = random() % 6 == 0;
  candidate.removed = random() % 8 == 0;
  return candidate;
}

bool was_good(const Candidate& candidate) { return candidate.status == Status::Valid; }
bool was_counted(const Candidate& candidate) {
  return was_good(candidate) && !candidate.removed && !candidate.pinned;
}

// What must hold of any plan, each by name.
void expect_invariants(const std::vector<Candidate>& candidates, const RetentionPolicy& policy,
                       const std::vector<Decision>& plan) {
  ASSERT_EQ(plan.size(), candidates.size()) << "one decision each";
  std::map<std::string, const Decision*> of;
  for (const Decision& decision : plan) {
    ASSERT_FALSE(decision.reasons.empty()) << "every decision has a reason";
    of[decision.name] = &decision;
  }
  ASSERT_EQ(of.size(), candidates.size());
  std::size_t good_before = 0;
  std::size_t good_after = 0;
  std::int64_t newest_good = -1;
  bool newest_good_stays = true;
  for (const Candidate& candidate : candidates) {
    const bool goes = of.at(candidate.name)->goes;
    ASSERT_FALSE(goes && candidate.pinned) << "a pinned one never goes";
    ASSERT_FALSE(goes && candidate.being_read) << "one being read never goes";
    ASSERT_FALSE(goes && candidate.status == Status::Unreadable) << "nor one not readable now";
    if (!was_good(candidate)) continue;
    ++good_before;
    good_after += goes ? 0 : 1;
    if (!candidate.removed && candidate.step > newest_good) {
      newest_good = candidate.step;
      newest_good_stays = false;
    }
    if (!candidate.removed && candidate.step == newest_good && !goes) newest_good_stays = true;
  }
  ASSERT_TRUE(good_before == 0 || good_after > 0) << "the last good one never goes";
  ASSERT_TRUE(newest_good_stays) << "nor the newest good one";
  const int last = std::max(policy.keep_last, 1);
  for (const Candidate& candidate : candidates) {
    const bool goes = of.at(candidate.name)->goes;
    if (!was_counted(candidate)) continue;
    int newer = 0;
    int better = 0;
    for (const Candidate& other : candidates) {
      if (!was_counted(other)) continue;
      const bool is_newer =
          std::pair(other.step, other.name) > std::pair(candidate.step, candidate.name);
      newer += is_newer ? 1 : 0;
      if (!candidate.metric || !other.metric || std::isnan(*other.metric)) continue;
      const double sign = policy.better == Better::Highest ? 1 : -1;
      const double by = sign * (*other.metric - *candidate.metric);
      better += by > 0 || (by == 0 && is_newer) ? 1 : 0;
    }
    const bool latest = newer < last;
    const bool best =
        candidate.metric && !std::isnan(*candidate.metric) && better < policy.keep_best;
    const bool every =
        policy.keep_every > 0 && candidate.step > 0 && candidate.step % policy.keep_every == 0;
    ASSERT_EQ(goes, !(latest || best || every || candidate.being_read))
        << candidate.name << ": exactly what no rule keeps";
  }
}

TEST(PlanRetention, HoldsForRandomSets) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 5000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<Candidate> candidates;
    const auto count = static_cast<unsigned>(random() % 14);
    for (unsigned i = 0; i < count; ++i) candidates.push_back(random_candidate(random, i));
    const RetentionPolicy policy{static_cast<int>(random() % 5), static_cast<int>(random() % 4),
                                 static_cast<std::int64_t>(random() % 5),
                                 static_cast<Better>(random() % 2), ""};
    const std::vector<Decision> plan = plan_retention(candidates, policy, "now");
    expect_invariants(candidates, policy, plan);
    if (HasFatalFailure()) return;

    std::shuffle(candidates.begin(), candidates.end(), random);
    const std::vector<Decision> again = plan_retention(candidates, policy, "now");
    for (std::size_t i = 0; i < plan.size(); ++i) {
      ASSERT_EQ(again[i].name, plan[i].name) << "order does not matter";
      ASSERT_EQ(again[i].goes, plan[i].goes);
      ASSERT_EQ(again[i].reasons, plan[i].reasons);
    }
    const Names first = gone(plan);
    const std::set<std::string> went(first.begin(), first.end());
    std::erase_if(candidates, [&](const Candidate& c) { return went.count(c.name) != 0; });
    ASSERT_TRUE(gone(plan_retention(candidates, policy, "now")).empty()) << "once is enough";
  }
}

class ApplyRetentionTest : public testing::Test {
 protected:
  Names names() const {
    Names found;
    for (const Entry& entry : store_.list()) found.push_back(entry.name);
    return found;
  }
  std::string write(std::int64_t step, const std::string& execution) {
    const SampleCheckpoint sample(step, execution);
    return store_.write(sample.contents, always).name;
  }

  Names apply(const RetentionPolicy& policy, Mode mode = Mode::Apply, double now = kNow) {
    return apply_retention(files_, store_, policy, {"bbbb", now, mode}).removed;
  }
  void flip_a_byte(const std::string& name) {
    std::fstream file(store_.directory() / name / kModelFile,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
  }

  static constexpr double kNow = 1.7e9;
  tests::FaultyFileSystem files_;  // never fails here, and spares the disk the syncs
  tests::TemporaryDirectory directory_;
  CheckpointStore store_{files_, directory_.path() / "checkpoints"};
};

TEST_F(ApplyRetentionTest, RemovesOldAndBrokenOnesOnly) {
  const std::string old = write(1, "aaaa");
  const std::string unfinished = write(2, "aaaa");
  const std::string damaged = write(3, "aaaa");
  const std::string ours = write(4, "bbbb");
  const std::string kept = write(5, "bbbb");
  const std::string newest = write(6, "bbbb");
  const std::string later = write(7, "aaaa");
  for (const std::string& name : {unfinished, ours, later}) {
    files_.remove_file(store_.directory() / name / kManifestFile);
  }
  base::replace_file(files_, store_.directory() / damaged / kManifestFile, "{");
  files_.create_directory(store_.directory() / "notes");

  EXPECT_EQ(apply({2}), (Names{old, unfinished, damaged}));
  EXPECT_EQ(names(), (Names{later, newest, kept, ours}));
  EXPECT_TRUE(files_.exists(store_.directory() / "notes"));
}

TEST_F(ApplyRetentionTest, RemovesNothingWhenNothingIsValid) {
  const std::string only = write(1, "aaaa");
  files_.remove_file(store_.directory() / only / kManifestFile);
  EXPECT_TRUE(apply({1}).empty());
  EXPECT_EQ(names(), Names{only});
}

TEST_F(ApplyRetentionTest, NeverReachesThroughALink) {
  const std::string newest = write(9, "aaaa");
  const base::Path outside = directory_.path() / "outside";
  std::filesystem::copy(store_.directory() / newest, outside);
  const std::string link = CheckpointName{1, "aaaa"}.text();
  std::filesystem::create_directory_symlink(outside, store_.directory() / link);
  store_.remove(link);
  EXPECT_FALSE(files_.exists(store_.directory() / link));
  EXPECT_EQ(files_.list(outside).size(), 5U);
}

TEST_F(ApplyRetentionTest, RemoveTakesCheckpointNamesOnly) {
  write(1, "aaaa");
  for (const char* name : {"", ".", "..", "../checkpoints", "/", "step-1", "step-0000000001-",
                           "step-0000000001-a/b", "step-0000000001-..", "notes"}) {
    EXPECT_THROW(store_.remove(name), base::Error) << name;
  }
  EXPECT_EQ(names().size(), 1U);
  EXPECT_NO_THROW(store_.remove(CheckpointName{77, "gone"}.text()));
}

TEST_F(ApplyRetentionTest, LeavesTombstones) {
  const std::string old = write(1, "aaaa");
  write(2, "aaaa");
  EXPECT_EQ(apply({1}, Mode::Plan), Names{});
  EXPECT_TRUE(read_tombstones(files_, store_.directory()).empty());
  EXPECT_EQ(names().size(), 2U) << "a plan removes nothing";
  EXPECT_EQ(apply({1}), Names{old});
  const auto tombstones = read_tombstones(files_, store_.directory());
  ASSERT_EQ(tombstones.size(), 1U);
  EXPECT_EQ(tombstones.at(old).step, 1);
  EXPECT_EQ(tombstones.at(old).utc_seconds, kNow);
  EXPECT_EQ(tombstones.at(old).why, "not among the latest 1");
  EXPECT_EQ(apply({1}), Names{}) << "once is enough";
  const std::string line = files_.read(store_.directory() / "removed.jsonl", 10000);
  EXPECT_EQ(line.rfind(R"({"name":"step-0000000001-aaaa","step":1,"utc_seconds":1700000000.0,)"
                       R"("why":"not among the latest 1","round":")",
                       0),
            0U)
      << line;
}

TEST_F(ApplyRetentionTest, RespectsPinsAndMarks) {
  const std::string pinned_one = write(1, "aaaa");
  const std::string read_one = write(2, "aaaa");
  const std::string other = write(3, "aaaa");
  const std::string newest = write(4, "aaaa");
  pin(files_, store_.directory(), pinned_one, {"keep", kNow});
  {
    const ReadingMark mark(files_, store_.directory(), read_one, "test", kNow);
    EXPECT_EQ(apply({1}), Names{other});
    EXPECT_EQ(names(), (Names{newest, read_one, pinned_one}));
    EXPECT_EQ(apply({1}, Mode::Apply, kNow + kLongestMark), Names{read_one})
        << "its reader has died";
  }
  EXPECT_TRUE(unpin(files_, store_.directory(), pinned_one));
  EXPECT_EQ(apply({1}), Names{pinned_one});
}

TEST_F(ApplyRetentionTest, KeepsTheBestByTheMetricNamed) {
  const auto write_value = [&](std::int64_t step, const char* metric, double value) {
    SampleCheckpoint sample(step, "aaaa");
    sample.contents.manifest.metric = metric;
    sample.contents.manifest.value = value;
    return store_.write(sample.contents, always).name;
  };
  write_value(1, "mlm_accuracy", 0.9);
  const std::string best = write_value(2, "mlm_loss", 1.0);
  write_value(3, "mlm_loss", 2.0);
  const std::string newest = write_value(4, "mlm_loss", 3.0);
  apply({1, 1, 0, Better::Lowest, "mlm_loss"});
  EXPECT_EQ(names(), (Names{newest, best}));
}

TEST_F(ApplyRetentionTest, ReadsTheNewestBeforeOlderOnesGo) {
  write(1, "aaaa");
  const std::string good = write(2, "aaaa");
  const std::string newest = write(3, "aaaa");
  flip_a_byte(newest);
  apply({1}, Mode::Check);
  EXPECT_EQ(names(), (Names{newest, good})) << "the damaged one does not count";
}

TEST_F(ApplyRetentionTest, FinishesARemovalThatWasCutShort) {
  const std::string whole = write(1, "bbbb");
  const std::string half = write(2, "bbbb");
  const std::string newest = write(3, "bbbb");
  const base::Path& path = store_.directory();
  add_tombstones(files_, path, {{whole, 1, kNow, "w", false}, {half, 2, kNow, "h", false}});
  files_.remove_file(path / half / kManifestFile);
  const std::string left = "removing-" + CheckpointName{4, "cccc"}.text() + "-0123456789abcdef";
  files_.create_directory(path / left);
  files_.create_directory(path / "removing-notes-00");
  EXPECT_EQ(apply({9}), (Names{whole, half}));
  EXPECT_EQ(names(), Names{newest});
  EXPECT_FALSE(files_.exists(path / left));
  EXPECT_TRUE(files_.exists(path / "removing-notes-00")) << "not of our making";
  EXPECT_EQ(read_tombstones(files_, path).at(whole).why, "w");
}

// Whatever fails and whenever the machine stops: the newest stays whole, and the next round
// finishes.
TEST_F(ApplyRetentionTest, TheNextRoundFinishesAfterEveryFailureAndCrash) {
  for (const auto crash : {tests::Crash::LoseBytes, tests::Crash::LoseEverything}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, 1000);
      SCOPED_TRACE("stopped at operation " + std::to_string(n));
      for (const std::string& name : names()) store_.remove(name);
      files_.remove_file(store_.directory() / "removed.jsonl");
      const std::string old = write(1, "aaaa");
      const std::string older = write(2, "aaaa");
      const std::string newest = write(3, "aaaa");
      tests::FaultyFileSystem faulty;
      CheckpointStore store(faulty, store_.directory());
      faulty.fail_at(n, tests::Fault::ForEver);
      bool finished = true;
      try {
        apply_retention(faulty, store, {1}, {"bbbb", kNow});
      } catch (const base::Error&) {
        finished = false;
      }
      faulty.crash(crash);
      const auto tombstones = read_tombstones(files_, store_.directory());
      for (const std::string& name : {old, older}) {
        if (store_.verify(name)) {
          EXPECT_EQ(tombstones.count(name), 1U) << "gone without a word: " << name;
        }
      }
      apply({1});
      EXPECT_EQ(names(), Names{newest});
      EXPECT_EQ(store_.verify(newest), std::nullopt);
      for (const std::string& file : files_.list(store_.directory())) {
        EXPECT_NE(file.rfind("removing-", 0), 0U) << file;
      }
      EXPECT_EQ(read_tombstones(files_, store_.directory()).size(), 2U);
      if (finished) break;
    }
  }
}

TEST_F(ApplyRetentionTest, LinksOutOfTheTreeAreNotFollowed) {
  const std::string newest = write(9, "aaaa");
  const base::Path outside = directory_.path() / "outside";
  std::filesystem::create_directory(outside);
  std::filesystem::copy(store_.directory() / newest, outside / "deep",
                        std::filesystem::copy_options::recursive);
  const std::string link = CheckpointName{1, "aaaa"}.text();
  const std::string inner = write(2, "aaaa");
  std::filesystem::create_directory_symlink(outside / "deep", store_.directory() / link);
  std::filesystem::create_directory_symlink(outside, store_.directory() / inner / "way_out");
  std::filesystem::create_directory_symlink(
      outside, store_.directory() / ("removing-" + link + "-0011223344556677"));
  EXPECT_EQ(apply({1}), (Names{link, inner}));
  EXPECT_EQ(names(), Names{newest});
  EXPECT_EQ(files_.list(outside / "deep").size(), 5U);
}

TEST_F(ApplyRetentionTest, RefusesACheckpointsDirectoryThatIsALink) {
  write(1, "aaaa");
  write(2, "aaaa");
  const base::Path run = directory_.path() / "run";
  std::filesystem::create_directory(run);
  std::filesystem::create_directory_symlink(store_.directory(), run / "checkpoints");
  CheckpointStore linked(files_, run / "checkpoints");
  EXPECT_THROW(apply_retention(files_, linked, {1}, {"bbbb", kNow}), base::Error);
  EXPECT_EQ(names().size(), 2U);
}

// Somebody swaps a checkpoint for a link to a directory elsewhere, again and again, while it is
// being removed.
TEST_F(ApplyRetentionTest, ASwapForALinkDuringRemovalReachesNothing) {
  const std::string newest = write(9, "aaaa");
  const base::Path outside = directory_.path() / "outside";
  std::filesystem::copy(store_.directory() / newest, outside,
                        std::filesystem::copy_options::recursive);
  const base::Path target = store_.directory() / CheckpointName{1, "aaaa"}.text();
  std::atomic<bool> stop{false};
  std::thread swapper([&] {
    std::error_code ignored;
    while (!stop) {
      std::filesystem::create_directory(target, ignored);
      std::filesystem::rename(target, directory_.path() / "aside", ignored);
      std::filesystem::create_directory_symlink(outside, target, ignored);
      std::filesystem::remove(target, ignored);
      std::filesystem::remove(directory_.path() / "aside", ignored);
    }
  });
  for (int i = 0; i < 100; ++i) {
    try {
      apply({1});
    } catch (const base::Error&) {  // what it was about to remove has changed: an error is right
    }
  }
  stop = true;
  swapper.join();
  EXPECT_EQ(files_.list(outside).size(), 5U);
  EXPECT_EQ(store_.verify(newest), std::nullopt);
}

// One thread pins, two remove: never does a pin succeed on a checkpoint that is then removed.
TEST_F(ApplyRetentionTest, APinThatSucceededHolds) {
  int held = 0;
  for (int round = 0; round < 60; ++round) {
    const std::string old = write(2 * round + 1, "aaaa");
    write(2 * round + 2, "aaaa");
    std::atomic<bool> pinned_it{false};
    std::thread pinner([&] {
      try {
        pin(files_, store_.directory(), old, {"mine", kNow});
        pinned_it = true;
      } catch (const base::Error&) {
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(100 * (round % 30)));  // either may win
    std::string trouble;
    std::thread another([&] {
      try {
        apply({1});
      } catch (const base::Error& error) {
        trouble = error.what();
      }
    });
    EXPECT_NO_THROW(apply({1}));
    another.join();
    pinner.join();
    ASSERT_EQ(trouble, "");
    // When each saw the other, both give way: not pinned, and still there.
    ASSERT_TRUE(!pinned_it || store_.verify(old) == std::nullopt) << "round " << round;
    held += pinned_it ? 1 : 0;
    (void)unpin(files_, store_.directory(), old);
    apply({1});
  }
  RecordProperty("pins_that_won", held);
}

}  // namespace
}  // namespace regatta::checkpoint
