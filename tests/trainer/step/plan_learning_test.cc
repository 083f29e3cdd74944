#include "trainer/step/plan_learning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "tests/base/faulty_file_system.h"
#include "trainer/step/buckets.h"
#include "trainer/step/gradient_reducer.h"

namespace regatta::trainer {
namespace {

using Ends = std::vector<int>;

Ends ends_of(const std::vector<topology::plan::Bucket>& buckets) {
  Ends ends;
  for (const topology::plan::Bucket& bucket : buckets) ends.push_back(bucket.end_tensor);
  return ends;
}

contract::RunConfig some_config() {
  contract::RunConfig config;
  config.model.layers = 1;
  config.model.hidden = 16;
  config.model.heads = 2;
  config.model.feed_forward = 32;
  config.model.max_positions = 16;
  config.model.vocabulary = 64;
  config.determinism.level = contract::Determinism::Fast;
  config.steps = 1000;
  config.ranks = 2;
  config.ranks_per_node = 2;
  config.buckets.bytes = 4096;
  return config;
}

// Rank 0's view; what others are told is the same.
class Learning : public testing::Test {
 protected:
  Learning()
      : config_(some_config()),
        table_(contract::make_tensor_table(config_.model)),
        run_(contract::RunDirectory::create(files_, folder_.path() / "run", "{}")) {
    situation_.communicator = "Open MPI v4.1.4";
    situation_.device = "cpu";
    situation_.standard = step::default_buckets(config_, table_, false);
    plan_.ranks = config_.ranks;
    plan_.buckets = situation_.standard;
  }
  [[nodiscard]] step::PlanLearning begin() {
    return {files_, base::system_clock(), host_, run_, config_, table_, plan_, situation_};
  }
  // To its end, on a machine on which every bucket costs.
  static contract::TrialRecord finish(step::PlanLearning* learning) {
    for (std::int64_t step = 1;; ++step) {
      const auto buckets = static_cast<double>(learning->buckets().size());
      const auto record = learning->observe(step, {1 + 0.05 * buckets, 1e12, false});
      if (record) return *record;
    }
  }
  [[nodiscard]] base::Path plans() const { return folder_.path() / topology::plan::kPlansFolder; }

  base::FileSystem& files_ = base::posix_file_system();
  tests::TemporaryDirectory folder_;
  ranks::SingleHost host_;
  contract::RunConfig config_;
  contract::TensorTable table_;
  contract::RunDirectory run_;
  topology::plan::Plan plan_;
  step::PlanSituation situation_;
};

TEST_F(Learning, NothingIsTriedWhereBucketsMeanMore) {
  const std::pair<const char*, std::function<void(contract::RunConfig*)>> cases[] = {
      {"one rank", [](contract::RunConfig* c) { c->ranks = c->ranks_per_node = 1; }},
      {"run", [](contract::RunConfig* c) { c->determinism = {}; }},
      {"by bytes", [](contract::RunConfig* c) { c->buckets.by = contract::BucketPolicy::Bytes; }},
      {"one bucket", [](contract::RunConfig* c) { c->buckets.by = contract::BucketPolicy::One; }},
      {"sharded", [](contract::RunConfig* c) { c->sharding.optimizer = true; }},
      {"clipped by bucket", [](contract::RunConfig* c) { c->clip = contract::ClipMode::Bucket; }},
  };
  step::PlanLearning first = begin();
  ASSERT_TRUE(first.is_trying());
  ASSERT_EQ(finish(&first).winner, "coarser");
  for (const auto& [name, change] : cases) {
    config_ = some_config();
    change(&config_);
    for (const std::string& kept : {std::string(), first.found()}) {
      situation_.kept = kept;
      const step::PlanLearning learning = begin();
      EXPECT_FALSE(learning.is_trying()) << name;
      EXPECT_FALSE(learning.may_change()) << name;
      EXPECT_EQ(ends_of(learning.buckets()), ends_of(plan_.buckets)) << name;
      EXPECT_EQ(learning.found(), "") << name;
    }
  }
}

TEST_F(Learning, TellsWhatWasTriedAndWhatWon) {
  step::PlanLearning learning = begin();
  EXPECT_TRUE(learning.has_first_buckets());
  const contract::TrialRecord record = finish(&learning);
  EXPECT_FALSE(learning.is_trying());
  EXPECT_TRUE(learning.has_first_buckets()) << "those that the record tells";
  EXPECT_EQ(record.cuts, (std::vector<std::string>{"default", "coarser", "finer"}));
  EXPECT_EQ(record.winner, "coarser");
  EXPECT_EQ(record.step, record.steps);
  EXPECT_EQ(ends_of(learning.buckets()), ends_of(step::pairs_joined(plan_.buckets)));
  std::vector<std::int64_t> bytes;
  for (const step::ArenaSlice& slice : step::slices_of(table_, learning.buckets())) {
    bytes.push_back(4 * slice.size);
  }
  EXPECT_EQ(record.bucket_bytes, bytes);
  ASSERT_EQ(record.cut_buckets.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(record.cut_seconds[i], 1 + 0.05 * record.cut_buckets[i]) << i;
  }
}

TEST_F(Learning, LaterAttemptsKeepItOnTheSameLayoutOnly) {
  step::PlanLearning first = begin();
  const Ends winner = (finish(&first), ends_of(first.buckets()));
  std::filesystem::remove_all(plans());  // what the checkpoint says must do
  situation_.kept = first.found();
  situation_.first_step = 50;
  const step::PlanLearning second = begin();
  EXPECT_FALSE(second.is_trying());
  EXPECT_TRUE(second.may_change());
  EXPECT_EQ(ends_of(second.buckets()), winner);
  EXPECT_EQ(second.found(), first.found()) << "and so the next checkpoints";

  const std::pair<const char*, std::function<void()>> cases[] = {
      {"ranks", [&] { config_.ranks = plan_.ranks = 4; }},
      {"nodes", [&] { config_.ranks_per_node = 1; }},
      {"hierarchical", [&] { config_.hierarchical = true; }},
      {"library", [&] { situation_.communicator = "NCCL 2.28.9"; }},
      {"device", [&] { situation_.device = "gpu"; }},
      {"model", [&] { config_.model.gelu = contract::Gelu::Tanh; }},
      {"a plan.json", [&] { plan_.buckets = step::buckets_of_bytes(table_, 0); }},
      {"damaged", [&] { situation_.kept.resize(situation_.kept.size() / 2); }},
  };
  for (const auto& [name, change] : cases) {
    const auto before = std::make_tuple(config_, plan_, situation_);
    change();
    EXPECT_TRUE(begin().is_trying()) << name;
    EXPECT_EQ(begin().found(), "") << name;
    std::tie(config_, plan_, situation_) = before;
  }
}

TEST_F(Learning, TheNextRunStartsFromIt) {
  step::PlanLearning first = begin();
  const Ends winner = (finish(&first), ends_of(first.buckets()));
  step::PlanLearning next = begin();
  EXPECT_TRUE(next.is_trying());
  EXPECT_EQ(ends_of(next.buckets()), winner);
  const contract::TrialRecord record = finish(&next);
  EXPECT_EQ(record.cuts[0], "remembered");
  EXPECT_EQ(record.cuts[1], "default");
  EXPECT_EQ(record.winner, "coarser") << "there is a still better one";
  const Ends better = ends_of(next.buckets());
  EXPECT_LT(better.size(), winner.size());

  const contract::RunConfig config = config_;
  config_.steps = step::PlanLearning::kLeastStepsLeft - 1;
  const step::PlanLearning brief = begin();
  EXPECT_FALSE(brief.is_trying()) << "too few steps are left";
  EXPECT_EQ(ends_of(brief.buckets()), better) << "but it is known what to do";
  config_ = config;
  config_.hierarchical = true;
  EXPECT_EQ(ends_of(begin().buckets()), ends_of(plan_.buckets)) << "another key";
  config_ = config;
  plan_.buckets = step::buckets_of_bytes(table_, 0);
  const step::PlanLearning planned = begin();
  EXPECT_TRUE(planned.is_trying());
  EXPECT_EQ(ends_of(planned.buckets()), ends_of(situation_.standard)) << "it has a plan.json";
}

TEST_F(Learning, WithoutEnoughStepsThePlanStays) {
  config_.steps = 500;
  situation_.first_step = 500 - step::PlanLearning::kLeastStepsLeft;
  EXPECT_TRUE(begin().is_trying());
  ++situation_.first_step;
  EXPECT_FALSE(begin().is_trying());
  EXPECT_EQ(ends_of(begin().buckets()), ends_of(plan_.buckets));
}

// What is beside the runs may be anything; no run ends because of it.
TEST_F(Learning, ADamagedMemoryIsPassedOverAndWrittenAgain) {
  step::PlanLearning first = begin();
  (void)finish(&first);
  const auto names = files_.list(plans());
  ASSERT_EQ(names.size(), 1U);
  std::ofstream(plans() / names[0]) << "{";
  step::PlanLearning next = begin();
  EXPECT_EQ(finish(&next).cuts[0], "default");
  EXPECT_EQ(topology::plan::list_stored_plans(files_, plans()).size(), 1U);

  std::filesystem::remove_all(plans());
  std::ofstream(plans()) << "a file";
  step::PlanLearning unwritten = begin();
  EXPECT_EQ(finish(&unwritten).winner, "coarser");
  EXPECT_NE(unwritten.found(), "") << "checkpoints have it all the same";
}

TEST_F(Learning, PlansLieBesideTheRunHoweverItsPathIsSpelt) {
  for (const char* spelling : {"run/", "./run", "run/../run"}) {
    std::filesystem::remove_all(plans());
    const contract::RunDirectory run =
        contract::RunDirectory::open(files_, folder_.path() / spelling);
    step::PlanLearning learning(files_, base::system_clock(), host_, run, config_, table_, plan_,
                                situation_);
    (void)finish(&learning);
    EXPECT_EQ(files_.list(plans()).size(), 1U) << spelling;
  }
}

}  // namespace
}  // namespace regatta::trainer
