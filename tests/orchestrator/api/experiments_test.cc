// Experiments as the API tells of them, against the table of figures that are computed here from
// the histories of their runs.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text.h"
#include "orchestrator/api/api.h"
#include "orchestrator/experiments/layout_table.h"
#include "orchestrator/experiments/table_text.h"
#include "tests/checkpoint/samples.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;
using experiments::ExperimentRun;
using experiments::Figure;
using experiments::RunTags;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kAtOnce = 32;

std::string layout_name(int layout) { return layout == 1 ? "data2" : "stages2"; }

// Of a row or part of an answer; null is none.
std::optional<double> told(const Json& json, const char* key) {
  const Json value = json.value(key, Json());
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

using Query = std::map<std::string, std::string>;

class Experiments : public ControllerFixture {
 protected:
  Experiments() : ControllerFixture(kAtOnce) {}

  Response answer(const std::string& method, const std::string& path, const std::string& body = "",
                  const Query& query = {}) {
    Request request;
    request.method = method;
    request.path = "/api/v1/" + path;
    request.query = query;
    request.body = body;
    return api_.handle(request);
  }
  Json asked(const std::string& path, const Query& query = {}) {
    const Response response = answer("GET", path, "", query);
    EXPECT_EQ(response.status, 200) << path << response.body;
    return Json::parse(response.body, nullptr, false);
  }
  // The id of a run that waits for its journal.
  std::string begin(const RunTags& tags, int seed) {
    const Json file{{"name", "tiny-" + layout_name(tags.layout) + "-s" + std::to_string(seed)},
                    {"steps", 100},
                    {"seed", seed},
                    {"batch", {{"size", 8}, {"micro", 2}}},
                    {"parallel", {{"data", 3 - tags.layout}, {"pipeline", tags.layout}}},
                    {"data", {{"path", "/nowhere"}}}};
    const Response response = answer("POST", "runs", file.dump(),
                                     {{"tags", base::join(experiments::tags_of(tags), ",")}});
    EXPECT_EQ(response.status, 201) << response.body;
    ticks();
    clock_.now += 100;
    return Json::parse(response.body)["id"];
  }
  tests::JournalAuthor journal_of(const std::string& run) {
    return {directory(run), clock_.utc_seconds()};
  }
  void end(const std::string& run, int code) {
    const auto launches = store_->launches(this->run(run).number);
    scheduler_.end(launches.back().handle, code);
    ticks();
  }
  // Ten steps whose figures depend on `rate`, and evaluations after five and ten.
  void train(const std::string& run, double rate, int code = 0) {
    tests::JournalAuthor journal = journal_of(run);
    journal.start_four_ranks(0);
    for (int step = 1; step <= 10; ++step) {
      auto record = tests::JournalAuthor::step_of_four_ranks(step);
      record.seconds = 8 / rate + 0.01 * step;
      record.mfu = 0.1 + 0.01 * step;
      if (step % 2 == 0) record.bubble = 0.05 * step;
      journal.add(step * 1.5, record);
      if (step % 5 == 0) journal.evaluation(step * 1.5 + 0.25, step, 0.1);
    }
    const tests::SampleCheckpoint sample(10);
    checkpoint::CheckpointStore(base::posix_file_system(), directory(run).checkpoints_path())
        .write(sample.contents, tests::always);
    journal.checkpoint(15.5, 10);
    journal.end(16, code);
    end(run, code);
  }
  // Two layouts with two seeds, of which one fails; and what their runs are called.
  std::vector<std::string> four(const std::string& id) {
    std::vector<std::string> runs;
    const struct {
      int layout, seed, code;
      double rate;
    } each[] = {{2, 1, 0, 40}, {1, 1, 0, 75}, {1, 2, 0, 78}, {2, 2, 1, 42}};
    int place = 0;
    for (const auto& [layout, seed, code, rate] : each) {
      runs.push_back(begin({id, layout, layout_name(layout), ++place, 4}, seed));
      train(runs.back(), rate, code);
    }
    return runs;
  }
  // Figures as docs/metrics.md defines them, of what the API answers of the run.
  ExperimentRun figures_of(const std::string& id) {
    ExperimentRun run = experiments::experiment_run(*store_->run(id), {});
    run.device = asked("runs/" + id).value("device", Json()).get<std::string>();
    if (!run.succeeded()) return run;
    double samples = 0, tokens = 0, seconds = 0;
    std::map<Figure, std::pair<double, double>> shares;
    const std::map<const char*, Figure> keys{
        {"utilisation", Figure::Utilisation}, {"mfu", Figure::Mfu}, {"bubble", Figure::Bubble}};
    const Json history = asked("runs/" + id + "/history", {{"limit", "10000"}});
    for (const Json& row : history["rows"]) {
      if (row.value("abandoned", false)) continue;
      if (row["type"] == "evaluation") run.losses[row["step"]] = row["mlm_loss"];
      if (row["type"] != "step") continue;
      const double step = row["step_seconds"];
      seconds += step;
      samples += row["samples"].get<double>();
      tokens += row["tokens"].get<double>();
      of(run.figures, Figure::RunSeconds) = row["at_seconds"].get<double>();
      of(run.figures, Figure::NoiseScale) = told(row, "noise_scale");
      of(run.figures, Figure::Efficiency) = told(row, "efficiency");
      run.noise_low = told(row, "noise_scale_low");
      run.noise_high = told(row, "noise_scale_high");
      for (const auto& [key, figure] : keys) {
        if (const auto share = told(row, key)) {
          // A bubble is of the time in which ranks computed.
          const double weight = figure == Figure::Bubble ? step / (1 + *share) : step;
          shares[figure].first += *share * weight;
          shares[figure].second += weight;
        }
      }
    }
    for (const auto& [figure, sums] : shares) of(run.figures, figure) = sums.first / sums.second;
    of(run.figures, Figure::SamplesPerSecond) = samples / seconds;
    of(run.figures, Figure::TokensPerSecond) = tokens / seconds;
    of(run.figures, Figure::Goodput) = samples / seconds * *of(run.figures, Figure::Efficiency);
    run.hosts = asked("runs/" + id + "/attempts")["attempts"].back()["hosts"];
    return run;
  }

  Api api_{*controller_, base::posix_file_system(), clock_, {}};
};

TEST_F(Experiments, AreTheTableOfTheSameRows) {
  const auto ids = four("e1");
  std::vector<ExperimentRun> runs;
  for (const std::string& id : ids) runs.push_back(figures_of(id));
  const Json table = asked("experiments/e1");
  EXPECT_EQ(table, experiments::layout_table("e1", runs)) << table.dump(1);
  EXPECT_EQ(table["layouts"][0]["figures"]["samples_per_second"]["runs"], 2);
  EXPECT_EQ(table["layouts"][1]["failed"], Json::array({ids[3]}));
  EXPECT_EQ(table["loss_samples"], 80);
  const Response text = answer("GET", "experiments/e1/table.md");
  EXPECT_EQ(text.body, experiments::table_markdown(table));
  EXPECT_EQ(text.content_type, "text/markdown; charset=utf-8");
}

// After a rollback.
TEST_F(Experiments, LeaveOutStepsThatWereTrainedAgain) {
  const std::string run = begin({"e1", 1, "data2", 1, 1}, 1);
  tests::JournalAuthor journal = journal_of(run);
  journal.start(0);
  for (const int step : {1, 2, 3}) journal.step(step, step, 0.5);
  journal.step(5, 3, 2);
  journal.step(7, 4, 2);
  journal.end(8, 0);
  end(run, 0);
  const Json figures = asked("experiments/e1")["runs"][0]["figures"];
  EXPECT_DOUBLE_EQ(figures["samples_per_second"], 4 * 8 / (0.5 + 0.5 + 2 + 2));
}

TEST_F(Experiments, AreReadAPartAtATime) {
  const auto ids = four("e1");
  ExperimentReader whole(clock_);
  const Json expected = experiments::layout_table("e1", whole.runs(*store_, "e1"));
  ExperimentReader::Limits limits;
  limits.seconds = 0;
  limits.rows = 4;
  ExperimentReader reader(clock_, limits);
  int refused = 0;
  std::vector<ExperimentRun> runs;
  while (runs.empty() && refused < 100) {
    try {
      runs = reader.runs(*store_, "e1");
    } catch (const base::Error& error) {
      ASSERT_EQ(error.code(), base::Code::Retry) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("are being read"));
      ++refused;
    }
  }
  // Three runs of three parts each (4, 4, and 2 steps with evaluations), the last without refusal.
  EXPECT_EQ(refused, 8);
  EXPECT_EQ(experiments::layout_table("e1", runs), expected);
  EXPECT_FALSE(reader.runs(*store_, "e1").empty()) << "what was read is kept";
}

TEST_F(Experiments, ReadAnewWhatHasGoneOn) {
  const std::string run = begin({"e1", 1, "data2", 1, 1}, 1);
  train(run, 50);
  const Json before = asked("experiments/e1");
  EXPECT_EQ(asked("experiments/e1"), before);
  ASSERT_EQ(answer("POST", "runs/" + run + "/extend", R"({"steps": 200})").status, 202);
  ticks();
  EXPECT_EQ(asked("experiments/e1")["layouts"][0]["succeeded"], 0);
  tests::JournalAuthor journal = journal_of(run);
  journal.start(0, 10);
  journal.step(100, 11, 100);
  journal.end(101, 0);
  end(run, 0);
  const Json after = asked("experiments/e1");
  ASSERT_EQ(after["layouts"][0]["succeeded"], 1) << after.dump(1);
  EXPECT_LT(after["runs"][0]["figures"]["samples_per_second"].get<double>(), 1);
}

TEST_F(Experiments, AreListedNewestFirstAPageAtATime) {
  EXPECT_EQ(asked("experiments"),
            (Json{{"experiments", Json::array()}, {"total", 0}, {"next", nullptr}}));
  four("e1");
  // Older than any run of e2, and none of it.
  const std::string older = Json::parse(
      answer("POST", "runs", tests::run_file(), {{"tags", "experiment-e2,layout-0-x"}}).body)["id"];
  const std::string running = begin({"e2", 1, "data2", 1, 6}, 1);
  journal_of(running).start(0);
  ticks();
  const std::string own = Json::parse(
      answer("POST", "runs", tests::run_file(), {{"tags", "experiment-e3"}}).body)["id"];
  const Json list = asked("experiments");
  ASSERT_EQ(list["total"], 2) << "a tag of somebody else makes no experiment: " << list;
  EXPECT_EQ(list["experiments"][0]["id"], "e2");
  EXPECT_EQ(list["experiments"][0]["states"], (Json{{"running", 1}}));
  EXPECT_EQ(list["experiments"][0]["runs"], 1) << older << " has its tag alone";
  EXPECT_EQ(list["experiments"][0]["finished"], 0);
  EXPECT_EQ(list["experiments"][0]["planned"], 6);
  const Json& first = list["experiments"][1];
  EXPECT_EQ(first["id"], "e1");
  EXPECT_EQ(first["name"], "tiny");
  EXPECT_EQ(first["planned"], 4);
  EXPECT_EQ(first["runs"], 4);
  EXPECT_EQ(first["finished"], 4);
  EXPECT_EQ(first["states"], (Json{{"succeeded", 3}, {"failed", 1}}));
  EXPECT_EQ(first["layouts"], (Json{"data2", "stages2"}));
  EXPECT_LT(first["begun"].get<std::string>(), first["changed"].get<std::string>());
  Json page = asked("experiments", {{"limit", "1"}});
  EXPECT_EQ(page["next"], "e2");
  page = asked("experiments", {{"limit", "1"}, {"after", "e2"}});
  EXPECT_EQ(page["experiments"][0], first);
  EXPECT_TRUE(page["next"].is_null());
  EXPECT_EQ(answer("GET", "experiments/e3").status, 404) << own << " has its tag alone";
  EXPECT_EQ(answer("GET", "experiments", "", {{"after", "e3"}}).status, 404);
}

// [a, b], and then [a, c, b]: what b was called second, c is now.
TEST_F(Experiments, ListLayoutsThatHaveOnePlace) {
  begin({"e1", 1, "data2", 1, 2}, 1);
  begin({"e1", 2, "stages2", 2, 2}, 1);
  begin({"e1", 2, "between", 2, 6}, 1);
  begin({"e1", 1, "data2", 4, 6}, 2);
  const Json listed = asked("experiments")["experiments"][0];
  EXPECT_THAT(listed["layouts"], testing::UnorderedElementsAre("data2", "stages2", "between"));
  EXPECT_EQ(listed["layouts"][0], "data2");
}

TEST_F(Experiments, ThatNobodyBeganAreNotFound) {
  for (const char* const id : {"e1", "a b", "\x1b[31m", "..", "' OR 1=1"}) {
    for (const char* const rest : {"", "/table.md"}) {
      const Response response = answer("GET", "experiments/" + std::string(id) + rest);
      EXPECT_EQ(response.status, 404) << id << response.body;
      EXPECT_EQ(response.body.find('\x1b'), std::string::npos);
      EXPECT_EQ(Json::parse(response.body)["code"], "not_found");
    }
  }
}

}  // namespace
}  // namespace regatta::orchestrator::api
