#include "trainer/probe/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/text.h"
#include "tests/trainer/probe/probed_run.h"
#include "trainer/model/initial_weights.h"
#include "trainer/probe/step_probe.h"
#include "trainer/run/checkpoint_keeper.h"
#include "trainer/samples/mixture.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class ReplayTest : public ProbedRun {
 protected:
  // Names, sizes and times of all that is in a directory.
  static std::string contents_of(const base::Path& path) {
    std::vector<std::string> lines;
    for (const auto& each : std::filesystem::recursive_directory_iterator(path)) {
      lines.push_back(each.path().string() + " " +
                      std::to_string(each.is_regular_file() ? each.file_size() : 0) + " " +
                      std::to_string(each.last_write_time().time_since_epoch().count()));
    }
    std::sort(lines.begin(), lines.end());
    return base::join(lines, "\n");
  }
  static void damage(const base::Path& checkpoint) {
    std::fstream file(checkpoint / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-4, std::ios::end);
    file.write("\1\2\3\4", 4);
  }
  static std::string failure_of(const probe::ReplayOptions& options) {
    try {
      (void)probe::probe_step(disk(), base::system_clock(), options);
    } catch (const base::Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    return "nothing";
  }
};

TEST_F(ReplayTest, LeavesTheRunAsItIs) {
  const contract::RunDirectory run = train(config_of(6));
  damage(checkpoint_of(run, 3));
  const std::string before = contents_of(run.path());
  for (const std::int64_t step : {1, 4, 6}) (void)probe(run, step);
  EXPECT_EQ(contents_of(run.path()), before);
}

TEST_F(ReplayTest, ADamagedCheckpointIsPassedOverAndAnOlderOneLeadsThere) {
  const contract::RunDirectory run = train(config_of(8));
  const auto whole = probe(run, 8);
  EXPECT_EQ(whole.at("from").at("step"), 6);
  damage(checkpoint_of(run, 6));
  const auto older = probe(run, 8);
  EXPECT_EQ(older.at("from").at("step"), 3);
  EXPECT_EQ(older.at("replayed_steps"), 4);
  EXPECT_EQ(older.at("parts"), whole.at("parts"));
  disk().remove_tree(checkpoint_of(run, 3));
  const auto first = probe(run, 8);
  EXPECT_EQ(first.at("from").at("kind"), "new weights");
  EXPECT_EQ(first.at("parts"), whole.at("parts"));
}

TEST_F(ReplayTest, WeightsOfAnotherModelAreNotTaken) {
  const contract::RunDirectory run = train(config_of(4));
  EXPECT_EQ(probe(run, 4).at("from").at("step"), 3);
  EXPECT_EQ(probe(run, 4, {"model.gelu=tanh"}).at("from").at("kind"), "new weights");
  EXPECT_EQ(probe(run, 4, {"model.layers=1"}).at("from").at("kind"), "new weights");
  EXPECT_EQ(probe(run, 4, {"seed=5"}).at("from").at("step"), 3);
}

TEST_F(ReplayTest, BeginsWithTheGivenWeights) {
  const contract::RunDirectory first = train(config_of(3), "first");
  contract::RunConfig config = config_of(2);
  config.from = contract::StartConfig{checkpoint_of(first, 3).string(), false};
  const contract::RunDirectory run =
      contract::RunDirectory::create(disk(), folder_.path() / "second", contract::to_json(config));
  const auto found = probe(run, 1);
  EXPECT_EQ(found.at("from").at("kind"), "given weights");
  EXPECT_EQ(found.at("from").at("path"), checkpoint_of(first, 3).string());
  EXPECT_FALSE(found.contains("journal_loss")) << "the run has not trained";
  // They are those that step 4 of the other run would begin with.
  contract::RunConfig longer = config_of(6);
  const contract::RunDirectory again = train(longer, "third");
  EXPECT_EQ(part(found, "weights"), part(probe(again, 4), "weights"));
}

// The samples of a step behind a rollback are later ones, and those before it are the same.
TEST_F(ReplayTest, FollowsTheRunsPresentHistory) {
  const contract::RunConfig config = config_of(9);
  const contract::RunDirectory run = train(config);
  const contract::TensorTable table = contract::make_tensor_table(config.model);
  const samples::Datasets datasets = samples::Datasets::open(config.data);
  run::CheckpointKeeper keeper({disk(), base::system_clock(), run,
                                contract::Fence(run, run.newest_epoch()), config, table,
                                datasets.fingerprint(), "0123456789abcdef"});
  step::TrainingState state;
  state.parameters = model::initial_weights(table, 1, 1);
  state.first_moment.assign(state.parameters.size(), 0.0F);
  state.second_moment = state.first_moment;
  keeper.keep_rollbacks({{5, 3}});  // step 5 diverged, and the run went back to step 3
  for (const auto& record : keeper.write(7, state.whole(table), std::nullopt)) {
    EXPECT_EQ(record.status, "written") << record.message;
  }
  const samples::SampleSource source(datasets.first(), data::Split::Training, config.data,
                                     config.seed);
  const auto first_sample = [&](std::int64_t step) {
    return part(probe(run, step), "samples").at("each").at(0).at("id").get<std::string>();
  };
  EXPECT_EQ(first_sample(2), "0:" + source.id_at(1 * 8));
  EXPECT_EQ(first_sample(3), "0:" + source.id_at(2 * 8));
  EXPECT_EQ(first_sample(4), "0:" + source.id_at((3 + 2) * 8)) << "behind step 3";
  EXPECT_EQ(first_sample(8), "0:" + source.id_at((7 + 2) * 8));
  const auto found = probe(run, 7);
  EXPECT_EQ(found.at("from").at("step"), 3) << "that of step 6 is of the way it did not go";
  EXPECT_EQ(probe(run, 8).at("from").at("step"), 7);
}

TEST_F(ReplayTest, WhatCannotBeReplayedIsOneLine) {
  const contract::RunDirectory run = train(config_of(4));
  const auto with = [&](const std::function<void(probe::ReplayOptions*)>& change) {
    probe::ReplayOptions options = options_of(run, 2);
    change(&options);
    return failure_of(options);
  };
  const auto of_file = [&](const std::string& name,
                           const std::function<void(contract::RunConfig*)>& change) {
    contract::RunConfig config = config_of(4);
    change(&config);
    const auto made =
        contract::RunDirectory::create(disk(), folder_.path() / name, contract::to_json(config));
    return failure_of(options_of(made, 2));
  };
  const struct {
    std::string found, says;
  } kCases[] = {
      {with([](auto* o) { o->step = 5; }), "step 5: the run has 4 steps"},
      {with([](auto* o) { o->step = 0; }), "step 0: the run has 4 steps"},
      {with([](auto* o) { o->run /= "nowhere"; }), "run.json is missing"},
      {with([](auto* o) { o->data = "/nowhere"; }),
       "`regatta-train debug probe --data` says where it lies now"},
      {with([](auto* o) {
         o->changes = {{"model.vocabulary", "7"}};
       }),
       "model.vocabulary is 7"},
      {with([](auto* o) {
         o->changes = {{"dtype", "bfloat16"}};
       }),
       "the CPU computes in float32 only"},
      {of_file("gone", [](auto* c) { c->data.path = "/nowhere"; }), "/nowhere"},
      {of_file("stratified",
               [](auto* c) {
                 c->ranks = 2;
                 c->balance.strategy = contract::Balance::Stratified;
               }),
       "balance.strategy stratified"},
      {of_file("clipped",
               [](auto* c) {
                 c->ranks = 2;
                 c->clip = contract::ClipMode::Rank;
               }),
       "limits its own gradient"},
  };
  for (const auto& each : kCases) {
    EXPECT_NE(each.found.find(each.says), std::string::npos) << each.says << ": " << each.found;
  }
  std::ofstream(run.path() / "run.json") << R"({"name": "new", "from_the_future": 1})";
  EXPECT_NE(failure_of(options_of(run, 2)).find("from_the_future"), std::string::npos);
}

// Of a run that trained on other data than lie there now.
TEST_F(ReplayTest, OtherDataAreNoticedUnlessTheyAreAskedFor) {
  const contract::RunDirectory run = train(config_of(4));
  const TemporaryDirectory other;
  const base::Path data = make_small_dataset(other.path(), 50);
  contract::RunConfig config = config_of(4);
  const int pieces = static_cast<int>(data::Dataset::open(data).vocabulary().size());
  ASSERT_EQ(pieces, config.model.vocabulary) << "else the model would not fit either";
  config.data.path = data.string();
  std::ofstream(run.path() / "run.json") << contract::to_json(config);
  EXPECT_NE(failure_of(options_of(run, 4)).find("was trained on other data"), std::string::npos);
  std::ofstream(run.path() / "run.json") << contract::to_json(config_of(4));
  probe::ReplayOptions options = options_of(run, 4);
  const auto own = probe::probe_step(disk(), base::system_clock(), options);
  options.data = data;
  const auto changed = probe::probe_step(disk(), base::system_clock(), options);
  EXPECT_EQ(changed.at("changed").at("data.path"), data.string());
  EXPECT_EQ(changed.at("from"), own.at("from"));
  EXPECT_EQ(part(changed, "weights"), part(own, "weights"));
  EXPECT_NE(part(changed, "tokens"), part(own, "tokens"));
}

// Every operation fails in turn: an error in one line, or the right answer from an older state.
TEST_F(ReplayTest, SurvivesEveryFailingOperation) {
  const contract::RunDirectory run = train(config_of(5));
  const probe::ReplayOptions options = options_of(run, 5);
  FaultyFileSystem files;
  const auto whole = probe::probe_step(files, base::system_clock(), options);
  const std::int64_t operations = files.operations();
  ASSERT_GT(operations, 5);
  int failed = 0;
  for (std::int64_t n = 1; n <= operations; ++n) {
    files.fail_at(n, Fault::ForEver);
    try {
      const auto found = probe::probe_step(files, base::system_clock(), options);
      EXPECT_EQ(found.at("parts"), whole.at("parts")) << "operation " << n;
    } catch (const base::Error& error) {
      ++failed;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
    files.heal();
  }
  EXPECT_GT(failed, 3);
}

}  // namespace
}  // namespace regatta::tests
