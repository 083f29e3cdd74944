#include "checkpoint/retention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/checkpoint/samples.h"

namespace regatta::checkpoint {
namespace {

using Names = std::vector<std::string>;
using tests::always;
using tests::SampleCheckpoint;

TEST(PlanRetention, Table) {
  struct Row {
    const char* name;
    std::vector<Candidate> candidates;
    RetentionPolicy policy;
    Names removed;
  };
  const std::vector<Candidate> four{
      {"c", 30, 0.5, false}, {"a", 10, 0.9, false}, {"d", 40, 0.6, false}, {"b", 20, 0.4, false}};
  const Row rows[] = {
      {"none", {}, {}, {}},
      {"fewer than kept", four, {9, KeepBest::No}, {}},
      {"last two", four, {2, KeepBest::No}, {"a", "b"}},
      {"zero counts as one", four, {0, KeepBest::No}, {"a", "b", "c"}},
      {"negative counts as one", four, {-5, KeepBest::No}, {"a", "b", "c"}},
      {"and the highest", four, {1, KeepBest::Highest}, {"b", "c"}},
      {"and the lowest", four, {1, KeepBest::Lowest}, {"a", "c"}},
      {"same step, by name", {{"y", 5, {}, false}, {"x", 5, {}, false}}, {1, KeepBest::No}, {"x"}},
      {"pinned stays and does not count",
       {{"a", 1, {}, true}, {"b", 2, {}, false}, {"c", 3, {}, true}},
       {1, KeepBest::No},
       {}},
      {"no metric, no best",
       {{"a", 1, {}, false}, {"b", 2, {}, false}},
       {1, KeepBest::Highest},
       {"a"}},
      {"newest among equals",
       {{"a", 1, 0.5, false}, {"b", 2, 0.5, false}, {"c", 3, 0.1, false}},
       {1, KeepBest::Highest},
       {"a"}},
      {"not a number is never best",
       {{"a", 1, std::nan(""), false}, {"b", 2, 0.1, false}, {"c", 3, {}, false}},
       {1, KeepBest::Highest},
       {"a"}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(plan_retention(row.candidates, row.policy), row.removed) << row.name;
  }
}

TEST(PlanRetention, HoldsForRandomLists) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Candidate> candidates;
    const auto count = random() % 12;
    for (unsigned i = 0; i < count; ++i) {
      Candidate candidate{
          "n" + std::to_string(i), static_cast<std::int64_t>(random() % 8), {}, random() % 5 == 0};
      if (random() % 2 == 0) candidate.metric = static_cast<double>(random() % 4);
      candidates.push_back(candidate);
    }
    const RetentionPolicy policy{static_cast<int>(random() % 5),
                                 static_cast<KeepBest>(random() % 3)};
    const Names removed = plan_retention(candidates, policy);
    const std::set<std::string> gone(removed.begin(), removed.end());
    ASSERT_EQ(gone.size(), removed.size()) << "round " << round;
    if (!candidates.empty()) {
      ASSERT_LT(gone.size(), candidates.size()) << "one always stays";
    }

    std::size_t kept = 0;
    std::size_t free = 0;
    std::int64_t oldest_kept = 1000;
    std::int64_t newest_gone = -1;
    for (const Candidate& candidate : candidates) {
      const bool went = gone.count(candidate.name) != 0;
      ASSERT_FALSE(went && candidate.pinned);
      if (candidate.pinned) continue;
      ++free;
      kept += went ? 0 : 1;
      if (went) newest_gone = std::max(newest_gone, candidate.step);
      if (!went) oldest_kept = std::min(oldest_kept, candidate.step);
    }
    const auto most = static_cast<std::size_t>(std::max(policy.keep_last, 1)) +
                      (policy.keep_best == KeepBest::No ? 0 : 1);
    ASSERT_LE(kept, most) << "round " << round;
    ASSERT_GE(kept, std::min(free, static_cast<std::size_t>(std::max(policy.keep_last, 1))));
    if (policy.keep_best == KeepBest::No && !gone.empty()) {
      ASSERT_GE(oldest_kept, newest_gone);
    }

    std::shuffle(candidates.begin(), candidates.end(), random);
    ASSERT_EQ(plan_retention(candidates, policy), removed) << "order does not matter";

    std::erase_if(candidates, [&](const Candidate& c) { return gone.count(c.name) != 0; });
    ASSERT_TRUE(plan_retention(candidates, policy).empty()) << "once is enough";
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

  base::FileSystem& files_ = base::posix_file_system();
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

  EXPECT_EQ(apply_retention(store_, {2, KeepBest::No}, "bbbb"), (Names{old, damaged, unfinished}));
  EXPECT_EQ(names(), (Names{later, newest, kept, ours}));
  EXPECT_TRUE(files_.exists(store_.directory() / "notes"));
}

TEST_F(ApplyRetentionTest, RemovesNothingWhenNothingIsValid) {
  const std::string only = write(1, "aaaa");
  files_.remove_file(store_.directory() / only / kManifestFile);
  EXPECT_TRUE(apply_retention(store_, {1, KeepBest::No}, "bbbb").empty());
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
  EXPECT_EQ(files_.list(outside).size(), 3U);
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

}  // namespace
}  // namespace regatta::checkpoint
