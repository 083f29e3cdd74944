// The whole answers about a run whose records have a value in every member, and about one of which
// nothing is known, beside those that were agreed (golden/): no key goes, and none changes its
// meaning.
#include "orchestrator/api/answers.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "orchestrator/api/checkpoint_api.h"
#include "orchestrator/api/explain.h"
#include "orchestrator/api/run_json.h"
#include "orchestrator/control/reconcile.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/distinct_records.h"
#include "tests/orchestrator/store/store_rows.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;
using tests::distinct;

constexpr double kNow = 2e9;

// Of another order is no other answer.
void expect_agreed(const std::string& name, const Json& json) {
  const std::string path = REGATTA_SOURCE_DIR "/tests/orchestrator/api/golden/" + name;
  if (std::getenv("REGATTA_WRITE_GOLDEN") != nullptr) std::ofstream(path) << json.dump(1) << "\n";
  std::ifstream file(path);
  EXPECT_EQ(nlohmann::json::parse(json.dump()), nlohmann::json::parse(file, nullptr, false))
      << path << "; if the new answer is right, run with REGATTA_WRITE_GOLDEN=1";
}

struct Known {
  runs::Run run;
  RunParts parts;
};
Known known_run() {
  Known known;
  known.run = distinct<runs::Run>();
  known.run.config = "{\"name\": \"demo\", \"data\": {\"path\": \"/data\"}}";
  known.run.wait.category = runs::kSuspended;  // so that what is known of its wait is shown
  known.parts.launches = {distinct<runs::Launch>(0), distinct<runs::Launch>(1)};
  known.parts.attempts = {distinct<runs::Attempt>(1), distinct<runs::Attempt>(3)};
  known.parts.warnings = {distinct<store::WarningRow>()};
  known.parts.failures = {2, 7, "no space left"};
  for (std::size_t i = 0; i < 2; ++i) {
    known.parts.launches[i].number = static_cast<int>(i) + 1;
    known.parts.launches[i].attempts_before = static_cast<int>(i);
    known.parts.attempts[i].number = static_cast<int>(i) + 1;
    known.parts.attempts[i].started = true;
  }
  return known;
}

TEST(Answers, OfARunOfWhichEverythingIsKnown) {
  const Known known = known_run();
  expect_agreed("run.json", run_json(known.run, known.parts, kNow));
  expect_agreed("explain.json", explain_json(known.run, known.parts, {{"node7", 0.75, "hung"}},
                                             runs::Contact{1.5, "trouble", 2.5}, kNow));
}

TEST(Answers, OfARunOfWhichNothingIsKnown) {
  runs::Run run;
  run.config = "{\"name\": \"demo\", \"data\": {\"path\": \"/data\"}}";
  expect_agreed("new_run.json", run_json(run, {}, kNow));
  expect_agreed("explain_new.json", explain_json(run, {}, {}, std::nullopt, kNow));
  RunParts parts;
  parts.launches.resize(1);
  parts.attempts.resize(1);
  expect_agreed("starting_run.json", run_json(run, parts, kNow));
  expect_agreed("explain_starting.json", explain_json(run, parts, {}, std::nullopt, kNow));
}

TEST(Answers, SayWhatIsUnderWay) {
  Known known = known_run();
  runs::Launch& launch = known.parts.launches.back();
  launch.over = false;
  launch.words.clear();
  runs::Attempt& attempt = known.parts.attempts.back();
  attempt.exit_code.reset();
  attempt.message.clear();
  const auto explained = [&](runs::RunState state) {
    known.run.state = state;
    return explain_json(known.run, known.parts, {}, std::nullopt, kNow);
  };
  EXPECT_EQ(explained(runs::RunState::Running)["launches"][1]["what"], "running");
  EXPECT_EQ(explained(runs::RunState::Running)["attempts"][1]["what"], "training");
  EXPECT_EQ(explained(runs::RunState::Queued)["launches"][1]["what"], "waits to start");
  known.run.reason = "waits for a free slot";
  EXPECT_EQ(explained(runs::RunState::Queued)["summary"], "queued: waits for a free slot");
}

// Its only rank was stopped (SIGSTOP), and it was shown as one that trains at full speed.
TEST(Answers, SayHowLongATrainerHasBeenSilent) {
  Known known = known_run();
  runs::Run& run = known.run;
  run.state = runs::RunState::Running;
  run.wanted = runs::Wanted::Run;
  run.wait = {};
  run.reason.clear();
  run.summary.phase = "training";
  run.summary.step = 4319;
  run.summary.steps = 6000;
  run.summary.samples = 4319 * 8, run.summary.batch_size = 8;
  run.summary.progress.reset();
  run.summary.samples_per_second = 8275;
  run.summary.last_record_utc = kNow - 46;
  const auto shown = [&] { return run_json(run, known.parts, kNow); };
  const auto explained = [&] {
    return explain_json(run, known.parts, {}, std::nullopt, kNow).at("next").get<std::string>();
  };
  EXPECT_EQ(shown()["state_text"], "training, step 4319 of 6000; silent for 46.0 s");
  EXPECT_EQ(shown()["silent_seconds"], 46);
  for (const char* const rate : {"samples_per_second", "tokens_per_second", "goodput", "mfu",
                                 "utilisation", "predicted_seconds_to_target"}) {
    EXPECT_TRUE(shown()[rate].is_null()) << rate;
  }
  const store::RunRow row{run, 1, {}, {}, {}};
  EXPECT_TRUE(slim_json(row, kNow)["samples_per_second"].is_null()) << "in lists, too";
  EXPECT_EQ(slim_json(row, kNow)["silent_seconds"], 46);
  EXPECT_EQ(explain_json(run, known.parts, {}, std::nullopt, kNow)["summary"],
            "training, step 4319 of 6000; silent for 46.0 s");
  known.parts.attempts.back().ranks = 1;
  EXPECT_THAT(explained(), testing::HasSubstr("nothing, as long as its process lives"));
  EXPECT_THAT(explained(), testing::HasSubstr("`regatta requeue "));
  known.parts.attempts.back().ranks = 4;
  EXPECT_THAT(explained(), testing::HasSubstr("its watchdog ends the attempt"));
  run.wanted = runs::Wanted::Observe;
  EXPECT_THAT(explained(), testing::HasSubstr("is left alone"));

  const auto is_silent = [&] { return silent_seconds(run, kNow).has_value(); };
  run.summary.last_record_utc = kNow - 29;
  EXPECT_FALSE(is_silent());
  EXPECT_EQ(shown()["state_text"], "training, step 4319 of 6000");
  EXPECT_EQ(shown()["samples_per_second"], 8275);
  EXPECT_TRUE(shown()["silent_seconds"].is_null());
  run.summary.samples_per_second = 0.5;  // 16 s a step
  run.summary.last_record_utc = kNow - 79;
  EXPECT_FALSE(is_silent()) << "slow steps";
  run.summary.last_record_utc = kNow - 81;
  EXPECT_TRUE(is_silent());
  run.summary.phase = "loading";
  run.summary.last_record_utc = kNow - 59;
  EXPECT_FALSE(is_silent());
  run.summary.last_record_utc = kNow - 61;
  EXPECT_EQ(shown()["state_text"], "loading; silent for 1 min 01 s");
  run.wait.category = runs::kSuspended;
  EXPECT_FALSE(is_silent()) << "Slurm has suspended it";
  EXPECT_TRUE(shown()["predicted_seconds_to_target"].is_null()) << "it does not move";
  run.wait = {};
  run.summary.last_record_utc = kNow - 1;
  EXPECT_FALSE(shown()["predicted_seconds_to_target"].is_null());
  for (const runs::RunState state : {runs::RunState::Queued, runs::RunState::Starting,
                                     runs::RunState::Stopping, runs::RunState::Stopped}) {
    run.state = state;
    EXPECT_TRUE(shown()["predicted_seconds_to_target"].is_null()) << "nothing counts down";
  }
  run.wait = {};
  run.state = runs::RunState::Stopping;
  EXPECT_FALSE(is_silent());
}

TEST(Answers, SayWhereARunEndedWhoseEndWasMoved) {
  runs::Run run;
  run.id = "demo-1";
  run.state = runs::RunState::Succeeded;
  run.summary.step = 1650;
  run.summary.steps = 4000;
  run.summary.target = 0.7;
  const auto text = [&] { return state_text(run, kNow); };
  run.state = runs::RunState::Starting;  // the attempt's directory may be there already, or not
  EXPECT_EQ(text(), "its trainer is starting");
  run.state = runs::RunState::Succeeded;
  EXPECT_EQ(text(), "ended at an earlier target, step 1650 of 4000") << "the target was raised";
  run.summary.step = 4000;
  EXPECT_EQ(text(), "finished without reaching its target, step 4000 of 4000");
  run.summary.step = 6000;
  run.summary.steps = 3000;
  run.summary.target.reset();
  EXPECT_EQ(text(), "finished, step 6000; was to end at 3000");
  run.state = runs::RunState::Running;
  run.summary.step = 3092;
  EXPECT_EQ(text(),
            "training, step 3092; was to end at 3000, and this attempt goes on as it began");
  EXPECT_THAT(explain_json(run, {}, {}, std::nullopt, kNow)["next"].get<std::string>(),
              testing::HasSubstr("`regatta requeue demo-1` makes the run end at step 3000"));
  run.summary.step = 3000;
  EXPECT_EQ(text(), "training, step 3000 of 3000");
}

TEST(Answers, SayWhatAResumedRunGoesOnFrom) {
  runs::Run run;
  run.id = "demo-1";
  run.error = "sbatch: error: invalid partition";
  const auto next = [&](runs::RunState state) {
    run.state = state;
    return explain_json(run, {}, {}, std::nullopt, kNow)["next"].get<std::string>();
  };
  EXPECT_EQ(next(runs::RunState::Failed),
            "nothing; mend the cause, then `regatta resume demo-1` starts it again");
  EXPECT_EQ(next(runs::RunState::Stopped), "nothing; `regatta resume demo-1` starts it again");
  run.summary.checkpoint_step = 50;
  EXPECT_EQ(next(runs::RunState::Cancelled),
            "nothing; `regatta resume demo-1` lets it go on from its newest checkpoint");
}

TEST(Answers, SpeakOfACheckpointOnceThereIsOne) {
  runs::Run run;
  run.id = "demo-1";
  run.state = runs::RunState::Running;
  run.summary.steps = 9000;
  const auto next = [&] {
    return explain_json(run, {}, {}, std::nullopt, kNow)["next"].get<std::string>();
  };
  const auto ends_with = [](const std::string& text) { return testing::EndsWith(text); };
  EXPECT_EQ(next(),
            "it ends at its target or at step 9000; should an attempt end early, another begins "
            "again, as there is no checkpoint yet");
  run.summary.checkpoint_step = 0;
  EXPECT_THAT(next(), ends_with("another goes on from the newest checkpoint"));
  run.summary.last_record_utc = kNow - 3600;
  EXPECT_THAT(next(), testing::HasSubstr("` starts another attempt from the newest checkpoint; "));
  run.summary.checkpoint_step = -1;
  EXPECT_THAT(next(), testing::HasSubstr("` starts it again, as there is no checkpoint yet; "));
}

// A cancel that ended in SIGKILL looked like one that had saved.
TEST(Answers, SayWhatACancelLost) {
  runs::Run run;
  run.state = runs::RunState::Cancelled;
  run.error = "while stopping: killed by signal 9";
  run.summary.step = 5431;
  run.summary.steps = 9000;
  run.summary.checkpoint_step = 4320;
  const auto text = [&] { return state_text(run, kNow); };
  EXPECT_EQ(text(),
            "cancelled, step 5431 of 9000; its newest checkpoint is of step 4320; 1111 steps are "
            "lost");
  EXPECT_EQ(explain_json(run, {}, {}, std::nullopt, kNow)["summary"],
            "it was cancelled, while stopping: killed by signal 9; its newest checkpoint is of "
            "step 4320; 1111 steps are lost");
  run.state = runs::RunState::Stopped;
  run.summary.checkpoint_step = 5430;
  EXPECT_EQ(text(),
            "stopped, step 5431 of 9000; its newest checkpoint is of step 5430; 1 step is lost");
  run.summary.checkpoint_step = 5431;
  EXPECT_EQ(text(), "stopped, step 5431 of 9000");
  run.summary.checkpoint_step = -1;
  EXPECT_EQ(text(), "stopped, step 5431 of 9000; it has no checkpoint; 5431 steps are lost");
  run.forked_from = "demo-1";
  EXPECT_EQ(text(), "stopped, step 5431 of 9000") << "its parent's checkpoint counts";
  run.forked_checkpoint = "step-1";
  run.config = R"({"task": "regression", "from": {"path": "/p/step-1", "optimizer": false}})";
  EXPECT_EQ(text(), "stopped, step 5431 of 9000; it has no checkpoint; 5431 steps are lost")
      << "it began at step 0";
  const Json json = run_json(run, {}, kNow);
  EXPECT_EQ(json["task"], "regression");
  EXPECT_EQ(json["from"], Json({{"path", "/p/step-1"},
                                {"run", "demo-1"},
                                {"checkpoint", "step-1"},
                                {"optimizer", false}}));
}

// It was told to mend the cause and to resume it, which is refused.
TEST(Answers, SayThatARunWhoseDirectoryIsGoneDoesNotGoOn) {
  Known known = known_run();
  runs::Run& run = known.run;
  run.id = "demo-1";
  run.state = runs::RunState::Failed;
  run.wanted = runs::Wanted::Run;
  run.directory = "/runs/demo-1";
  run.error = "its directory /runs/demo-1 is gone";
  Json explained = explain_json(run, known.parts, {}, std::nullopt, kNow);
  EXPECT_EQ(explained["summary"], "it failed: its directory /runs/demo-1 is gone");
  EXPECT_EQ(explained["next"], "nothing; `regatta rm demo-1` forgets it");
  EXPECT_TRUE(run_json(run, known.parts, kNow)["checkpoint"].is_null());
  run.error = "out of memory";
  explained = explain_json(run, known.parts, {}, std::nullopt, kNow);
  EXPECT_THAT(explained["next"].get<std::string>(), testing::HasSubstr("regatta resume"));
  EXPECT_TRUE(run_json(run, known.parts, kNow)["checkpoint"].is_object());
}

TEST(Answers, ListNoCheckpointsAsWrittenOfARunWhoseDirectoryIsGone) {
  const tests::TemporaryDirectory folder;
  store::Store store(folder.path());
  runs::Run run = *store.run(store.add_run(new_run("a")));
  runs::Attempt attempt;
  attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
  trainer::contract::CheckpointRecord written;
  written.step = 10;
  written.name = "step-10";
  written.status = "written";
  store.append(run, attempt, {{1, 1, 1, written}});
  EXPECT_EQ(checkpoints_json(store, run)["checkpoints"][0]["status"], "written");
  run.state = runs::RunState::Failed;
  run.error = "its directory " + run.directory + " is gone";
  EXPECT_EQ(checkpoints_json(store, run)["checkpoints"][0]["status"], "removed");
}

TEST(Answers, SayWhichPlaceInTheLineARunHas) {
  const auto run = [](int number, double created, runs::RunState state, const char* reason) {
    runs::Run made;
    made.id = "r" + std::to_string(number);
    made.number = runs::RunNumber{number};
    made.created_utc = created;
    made.state = state;
    made.reason = reason;
    return made;
  };
  constexpr const char* kSlot = control::kNoFreeSlot;
  std::vector<runs::Run> open = {run(1, 10, runs::RunState::Running, ""),
                                 run(2, 10, runs::RunState::Queued, kSlot),
                                 run(3, 11, runs::RunState::Queued, "waits for r1"),
                                 run(4, 12, runs::RunState::Queued, kSlot),
                                 run(5, 12, runs::RunState::Queued, kSlot),
                                 run(6, 1, runs::RunState::Succeeded, "")};
  open.push_back(run(7, 1, runs::RunState::Running, ""));
  open.back().wanted = runs::Wanted::Observe;
  const std::string end =
      " in line for a free slot; in use by r1 (`regatta serve --parallel` says how many run at "
      "once)";
  EXPECT_EQ(place_in_line(open[1], open), "1st" + end);
  EXPECT_EQ(place_in_line(open[3], open), "2nd" + end);
  EXPECT_EQ(place_in_line(open[4], open), "3rd" + end) << "of one moment, the later number";
  open.erase(open.begin());
  for (int number = 10; number < 35; ++number) {
    const auto words = place_in_line(run(number, 20, runs::RunState::Queued, kSlot), open);
    const int place = number - 6;
    const bool regular = place > 13 && place % 10 > 0 && place % 10 < 4;
    const std::string expected = std::to_string(place) + (!regular          ? "th"
                                                          : place % 10 == 1 ? "st"
                                                          : place % 10 == 2 ? "nd"
                                                                            : "rd");
    EXPECT_EQ(words.substr(0, words.find(' ')), expected);
    open.push_back(run(number, 20, runs::RunState::Queued, kSlot));
  }
  for (int number = 40; number < 47; ++number) {
    open.push_back(run(number, 1, runs::RunState::Starting, ""));
  }
  EXPECT_THAT(place_in_line(open[0], open),
              testing::HasSubstr("in use by r40, r41, r42, r43, r44, 2 more ("));
}

// What its journal says, through the store.
TEST(Answers, OfSeries) {
  const tests::TemporaryDirectory folder;
  store::Store store(folder.path());
  runs::Run run = *store.run(store.add_run(new_run("a")));
  runs::Attempt attempt;
  attempt.row = store.add_attempt(run.number, 1, "0123456789abcdef");
  attempt.started = true;
  attempt.first_step_begin = 0.25;
  attempt.ranks = 4;
  std::vector<trainer::contract::JournalRecord> records(4);
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i].sequence = static_cast<std::int64_t>(i);
    records[i].seconds = 2.5 + static_cast<double>(i);
    records[i].utc_seconds = 1.7e9 + static_cast<double>(i);
  }
  trainer::contract::StartRecord start;
  start.bucket_bytes = {4096, 1024};
  records[0].body = start;
  records[1].body = tests::JournalAuthor::step_of_four_ranks(3);
  trainer::contract::EvalRecord evaluation;
  evaluation.step = 3;
  evaluation.mlm_accuracy = 0.25;
  evaluation.mlm_loss = 5;
  evaluation.metrics = {{"f1", 0.75}, {"loss", std::nan("")}};
  records[2].body = evaluation;
  trainer::contract::CheckpointRecord checkpoint;
  checkpoint.step = 3;
  checkpoint.name = "step-3";
  checkpoint.status = "written";
  checkpoint.bytes = 77;
  checkpoint.seconds = 1.5;
  checkpoint.stall_seconds = 2.5;
  checkpoint.copy_seconds = 3.5;
  checkpoint.write_seconds = 4.5;
  checkpoint.sync_seconds = 5.5;
  checkpoint.message = "slow";
  records[3].body = checkpoint;
  run.summary.crossing = 100;
  run.summary.crossing_low = 90;
  run.summary.crossing_high = 120;
  store.append(run, attempt, records);
  expect_agreed("metrics.json", metrics_json(store, run, 0, 100));
  expect_agreed("checkpoints.json", checkpoints_json(store, run));
}

// The files of a run directory, byte for byte.
// Without a body the error is of a file that was read for the answer.
TEST(Answers, OfErrorsNameTheKeyOfTheBody) {
  const base::Error error(base::Code::User, "run file:1: model.hidden: odd", "model.hidden");
  const Response response = error_response(error, "{}");
  EXPECT_EQ(response.status, 422);
  const Json json = Json::parse(response.body);
  EXPECT_EQ(json["detail"], "run file:1: model.hidden: odd");
  EXPECT_EQ(json["key"], "model.hidden");
  const base::Error missing(base::Code::NotFound, "run file: from.run: no run 'a'", "from.run");
  EXPECT_EQ(Json::parse(error_response(missing, "{}").body)["key"], "from.run");
  EXPECT_FALSE(Json::parse(error_response(error, "").body).contains("key"));
  for (const base::Error& other : {base::Error(base::Code::User, "no key"),
                                   base::Error(base::Code::Operator, "ours", "model.hidden")}) {
    EXPECT_FALSE(Json::parse(error_response(other, "{}").body).contains("key")) << other.what();
  }
}

TEST(Answers, OfCheckpointsHaveATagThatDoesNotAge) {
  const auto tag = [](double age, const char* condition) {
    Json row;
    row["name"] = "step-1";
    row["condition"] = condition;
    row["age_seconds"] = age;
    Json listed;
    listed["checkpoints"].push_back(row);
    const Response response = checkpoint_list(listed);
    EXPECT_EQ(Json::parse(response.body)["checkpoints"][0]["age_seconds"], age);
    return response.headers.at("ETag");
  };
  EXPECT_EQ(tag(1, "valid"), tag(2.5, "valid"));
  EXPECT_NE(tag(1, "valid"), tag(1, "removed"));
}

TEST(Answers, AndFilesOfARunDirectory) {
  const tests::TemporaryDirectory folder;
  base::FileSystem& files = base::posix_file_system();
  Json texts;
  const auto read = [&](const std::string& name) {
    return files.read(folder.path() / name, 1 << 16);
  };
  for (const int kind : {-1, 0, 1}) {
    const std::string which = kind < 0 ? "absent" : std::to_string(kind);
    const auto make = [&]<typename Record>(Record record) {
      return kind < 0 ? record : distinct<Record>(kind);
    };
    texts["submission " + which] = runs::submission_text(make(runs::SubmissionRecord{}));
    runs::write_state(files, folder.path(), make(runs::RecordedState{}));
    texts["state " + which] = read("state.json");
    runs::Launch launch = make(runs::Launch{});
    launch.number = 1;
    runs::write_launch(files, folder.path(), launch);
    texts["launch " + which] = read("launches/1.json");
  }
  expect_agreed("run_directory.json", texts);
}

}  // namespace
}  // namespace regatta::orchestrator::api
