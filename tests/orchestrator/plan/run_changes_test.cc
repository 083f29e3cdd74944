// What may be asked of a run's file, and what comes of it.
#include "orchestrator/plan/run_changes.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace regatta::orchestrator::plan {
namespace {

using testing::HasSubstr;

const std::string& run_file() {
  static const std::string text = trainer::contract::to_json(trainer::contract::parse_run_config(
      "name: demo\ndata: {path: /data}\nsteps: 20\ntarget: {value: 0.5}\n"
      "slurm: {time_limit: 10, environment: {KEY: secret}}",
      "run.yaml"));
  return text;
}

template <typename Change>
std::string error_of(Change change, const std::string& changes) {
  try {
    (void)change(run_file(), changes);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User) << changes;
    return error.what();
  }
  return "";
}

TEST(RunChanges, SayWhatWasAndWhatIs) {
  const ChangedRunFile file =
      with_changes(run_file(), R"({"steps": 40, "target": 0.25, "slurm": {"time_limit": "1:00:00"},
                "checkpoint": {"keep_last": 5}})");
  EXPECT_EQ(file.config.steps, 40);
  EXPECT_EQ(file.config.target->value, 0.25);
  EXPECT_EQ(file.config.keep_last, 5);
  EXPECT_EQ(file.config.slurm->time_limit_minutes, 60);
  EXPECT_EQ(file.config.slurm->environment.at("KEY"), "secret") << "the rest stays";
  EXPECT_EQ(file.text, trainer::contract::to_json(file.config));
  EXPECT_THAT(file.words, HasSubstr("steps from 20 to 40"));
  EXPECT_THAT(file.words, HasSubstr("target.value from 0.5 to 0.25"));
  EXPECT_THAT(file.words, HasSubstr("checkpoint.keep_last from 3 to 5"));
  EXPECT_THAT(file.words, HasSubstr("slurm.time_limit from "));
}

TEST(RunChanges, WhatIsTheSameAlreadyIsNoChange) {
  const ChangedRunFile file = with_changes(run_file(), R"({"steps": 20, "target": 0.5})");
  EXPECT_EQ(file.text, run_file());
  EXPECT_EQ(file.words, "");
}

TEST(RunChanges, OneKindOfTargetReplacesTheOther) {
  const ChangedRunFile file = with_changes(run_file(), R"({"target": {"times_baseline": 3}})");
  EXPECT_EQ(file.config.target->value, std::nullopt);
  EXPECT_EQ(file.config.target->times_baseline, 3);
  EXPECT_EQ(with_changes(file.text, R"({"target": 0.75})").config.target->value, 0.75);
}

TEST(RunChanges, ASectionSlurmThatWasNotThereTellsOfTheTimeLimitAlone) {
  const std::string local = trainer::contract::to_json(
      trainer::contract::parse_run_config("data: {path: /data}", "run.yaml"));
  const ChangedRunFile file = with_changes(local, R"({"slurm": {"time_limit": 30}})");
  EXPECT_EQ(file.config.slurm->time_limit_minutes, 30);
  EXPECT_THAT(file.words, testing::StartsWith("slurm.time_limit from absent to "));
  EXPECT_THAT(file.words, testing::Not(HasSubstr(", ")));
}

TEST(RunChanges, OthersAreRefusedByName) {
  for (const auto& [changes, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "not a JSON object"},
           {"[]", "not a JSON object"},
           {"{}", "are empty"},
           {R"({"seed": 7})", "seed cannot change once the run exists"},
           {R"({"slurm": {"qos": "long"}})", "slurm.qos cannot change"},
           {R"({"slurm": {"environment": {"KEY": "x"}}})", "slurm.environment cannot change"},
           {R"({"target": {"metric": "mlm_loss", "value": 2}})", "target.metric cannot change"},
           {R"({"target": null})", "is null"},
           {R"({"slurm": {"time_limit": null}})", "is null"},
           {R"({"steps": 0})", "steps"},
           {R"({"steps": "40"})", "steps is a text; give it as 40, without quotes"},
           {R"({"target": {"stop": "false"}})", "target.stop is a text"},
           {R"({"steps": 40, "steps": 50})", "steps stands twice"},
           {R"({"target": {"value": 0.5, "value": 0.6}})", "value stands twice"},
           {R"({"stepz": 40})", "stepz"},
           {R"({"target": 1.5})", "target.value"}}) {
    EXPECT_THAT(error_of(with_changes, changes), HasSubstr(why)) << changes;
  }
}

TEST(RunChanges, AnExtensionIsOfStepsAndTargetAlone) {
  EXPECT_EQ(with_extension(run_file(), R"({"steps": 40})").config.steps, 40);
  EXPECT_EQ(with_extension(run_file(), R"({"target": {"stop": false}})").config.stop_at_target,
            false);
  EXPECT_THAT(error_of(with_extension, "{}"), HasSubstr("give steps, a target, or both"));
  EXPECT_THAT(error_of(with_extension, R"({"slurm": {"time_limit": 5}})"),
              HasSubstr("an extension has no slurm"));
}

TEST(RunChanges, AForkChangesAllButModelAndData) {
  const ChangedRunFile file = forked_run_file(
      run_file(), R"({"optimizer": {"learning_rate": 0.5}, "slurm": {"environment": null}})",
      "other");
  EXPECT_EQ(file.config.name, "other");
  EXPECT_EQ(file.config.optimizer.learning_rate, 0.5);
  EXPECT_TRUE(file.config.slurm->environment.empty());
  EXPECT_EQ(forked_run_file(run_file(), "", "").text, run_file());
  const auto fork = [](const std::string& config, const std::string& changes) {
    return forked_run_file(config, changes, "");
  };
  EXPECT_THAT(error_of(fork, R"({"model": {"layers": 7}})"), HasSubstr("model.layers cannot"));
  EXPECT_THAT(error_of(fork, R"({"data": {"path": "/other"}})"), HasSubstr("data.path cannot"));
  EXPECT_THAT(error_of(fork, R"({"task": "regression", "target": null})"),
              HasSubstr("task cannot"));
  EXPECT_THAT(error_of(fork, R"({"from": {"path": "/m"}})"), HasSubstr("from cannot"));
}

// As data, pipeline and ranks of the run that comes of it; or why there is none.
std::string layout_of(int data, int pipeline, const std::string& changes) {
  const std::string layout =
      "{data: " + std::to_string(data) + ", pipeline: " + std::to_string(pipeline) + "}";
  const std::string text = trainer::contract::to_json(trainer::contract::parse_run_config(
      "data: {path: /data}\nmodel: {layers: 4}\nbatch: {size: 16, micro: 1}\nparallel: " + layout,
      "run.yaml"));
  try {
    const trainer::contract::RunConfig made = forked_run_file(text, changes, "").config;
    const trainer::contract::RankGrid grid = trainer::contract::rank_grid(made);
    return std::to_string(grid.data) + " x " + std::to_string(grid.stages) + " of " +
           std::to_string(made.ranks);
  } catch (const base::Error& error) {
    return error.what();
  }
}

TEST(RunChanges, OfAForksLayoutWhatIsNotGivenFollows) {
  EXPECT_EQ(layout_of(1, 2, R"({"parallel": {"pipeline": 1}})"), "2 x 1 of 2");
  EXPECT_EQ(layout_of(4, 1, R"({"parallel": {"pipeline": 2}})"), "2 x 2 of 4");
  EXPECT_EQ(layout_of(1, 2, R"({"ranks": 4})"), "2 x 2 of 4");
  EXPECT_EQ(layout_of(2, 1, R"({"ranks": 4})"), "4 x 1 of 4");
  EXPECT_EQ(layout_of(1, 2, R"({"parallel": {"data": 2}})"), "2 x 2 of 4");
  EXPECT_EQ(layout_of(2, 1, R"({"parallel": {"data": 3}})"), "3 x 1 of 3");
  EXPECT_EQ(layout_of(2, 2, R"({"parallel": {"data": 1, "pipeline": 4}})"), "1 x 4 of 4");
  EXPECT_EQ(layout_of(2, 2, R"({"parallel": {"pipeline": 4}, "ranks": 8})"), "2 x 4 of 8");
  EXPECT_EQ(layout_of(2, 2, R"({"parallel": null})"), "4 x 1 of 4");
  EXPECT_EQ(layout_of(2, 2, R"({"ranks": null})"), "2 x 2 of 4");
  EXPECT_EQ(layout_of(2, 2, R"({"seed": 3})"), "2 x 2 of 4");
  EXPECT_THAT(layout_of(1, 2, R"({"ranks": 3})"),
              HasSubstr("parallel.pipeline: is 2, which does not divide ranks (3); set ranks to a "
                        "multiple of it"));
  EXPECT_THAT(layout_of(1, 2, R"({"parallel": {"pipeline": 3}})"),
              HasSubstr("set ranks to a multiple of it"));
}

TEST(RunChanges, AForkBeginsWithItsCheckpointAlone) {
  auto json = nlohmann::json::parse(run_file());
  json.erase("target");  // whose metric that task has not
  json["task"] = "question-answering";
  json["from"] = {{"path", "/m"}};
  const auto config = trainer::contract::parse_run_config(json.dump(), "a test");
  const std::string text = trainer::contract::to_json(config);
  EXPECT_FALSE(forked_run_file(text, "", "").config.from);
  EXPECT_EQ(forked_run_file(text, "", "").config.model.task,
            trainer::contract::Task::QuestionAnswering);
  EXPECT_EQ(with_changes(text, R"({"steps": 77})").config.from->path, "/m");
  for (const char* const changes :
       {R"({"questions": {"doc_stride": 7}})", R"({"questions": {"max_question": 7}})"}) {
    EXPECT_THROW((void)forked_run_file(text, changes, ""), base::Error) << changes;
  }
  EXPECT_NO_THROW((void)forked_run_file(text, R"({"questions": {"best": 7}})", ""));
}

TEST(RunChanges, RefusalsNameTheKeyOfTheBody) {
  const auto key_of = [](const auto& change) {
    try {
      change();
    } catch (const base::Error& error) {
      return error.key();
    }
    return std::string("no error");
  };
  for (const auto& [changes, key] : std::vector<std::pair<std::string, std::string>>{
           {"[]", ""},
           {"{}", ""},
           {R"({"seed": 7})", "seed"},
           {R"({"slurm": {"qos": "long"}})", "slurm.qos"},
           {R"({"slurm": {"time_limit": null}})", "slurm.time_limit"},
           {R"({"steps": 0})", "steps"},
           {R"({"steps": "40"})", "steps"},
           {R"({"target": {"stop": "false"}})", "target.stop"},
           {R"({"steps": 40, "steps": 50})", "steps"},
           {R"({"stepz": 40})", "stepz"},
           {R"({"target": 1.5})", "target.value"}}) {
    EXPECT_EQ(key_of([&text = changes] { (void)with_changes(run_file(), text); }), key) << changes;
  }
  EXPECT_EQ(key_of([] { (void)with_extension(run_file(), R"({"slurm": {"time_limit": 5}})"); }),
            "slurm");
  const auto fork = [&](const char* changes, const char* name) {
    return key_of([=] { (void)forked_run_file(run_file(), changes, name); });
  };
  EXPECT_EQ(fork(R"({"model": {"layers": 7}})", ""), "changes.model.layers");
  EXPECT_EQ(fork(R"({"optimizer": {"learning_rate": 0}})", ""), "changes.optimizer.learning_rate");
  EXPECT_EQ(fork(R"({"name": "a b"})", ""), "changes.name");
  EXPECT_EQ(fork("{}", "a b"), "name");
}

TEST(RunChanges, OneDocumentHasOneText) {
  EXPECT_EQ(canonical_json(R"({"b": 1,  "a": [2]})"), canonical_json(R"({"a":[2],"b":1})"));
  EXPECT_NE(canonical_json(R"({"a": 1})"), canonical_json(R"({"a": 2})"));
  EXPECT_EQ(canonical_json("x"), "x");
}

}  // namespace
}  // namespace regatta::orchestrator::plan
