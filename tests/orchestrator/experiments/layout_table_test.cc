// Figures of runs, and the table of them, against figures computed by hand.
#include "orchestrator/experiments/layout_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "orchestrator/experiments/table_text.h"

namespace regatta::orchestrator::experiments {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

runs::Run a_run(const std::string& id, const RunTags& tags, std::uint64_t seed, int stages) {
  Json config{{"name", id},
              {"batch", {{"size", 16}, {"micro", 4}}},
              {"seed", seed},
              {"ranks", 2},
              {"steps", 4}};
  if (stages > 1) {
    config["parallel"] = {{"data", 2 / stages}, {"pipeline", stages}, {"schedule", "1f1b"}};
  }
  runs::Run run;
  run.id = id;
  run.state = runs::RunState::Succeeded;
  run.tags = tags_of(tags);
  run.config = config.dump();
  return run;
}

store::StepRow step_row(int step, double seconds) {
  store::StepRow row;
  row.step = step;
  row.samples = 16;
  row.tokens = 100 * step;
  row.step_seconds = seconds;
  return row;
}
store::EvaluationRow evaluation_row(int step, double loss) {
  store::EvaluationRow row;
  row.step = step;
  row.mlm_loss = loss;
  return row;
}

// Its steps are no equal samples: nothing of it may stand beside the others.
TEST(ExperimentRun, OfABatchThatGrowsDoesNotCount) {
  runs::Run run = a_run("a", {"e", 1, "data2", 1, 4}, 1, 1);
  EXPECT_TRUE(experiment_run(run, {}).succeeded());
  Json config = Json::parse(run.config);
  config["batch"]["growth"] = "square_root";
  run.config = config.dump();
  const ExperimentRun grown = experiment_run(run, {});
  EXPECT_FALSE(grown.succeeded());
  EXPECT_TRUE(grown.is_over());
  EXPECT_THAT(grown.error, HasSubstr("its batch grows"));
}

TEST(RunFigures, AreThoseOfAllSteps) {
  ExperimentRun run = experiment_run(a_run("a", {"e", 2, "stages2", 1, 4}, 7, 2), {});
  EXPECT_EQ(run.state, "succeeded");
  EXPECT_EQ(run.seed, 7U);
  EXPECT_EQ(run.layout.data, 1);
  EXPECT_EQ(run.layout.pipeline, 2);
  EXPECT_EQ(run.layout.name, "stages2");
  EXPECT_EQ(run.batch_size, 16);
  store::StepRow first = step_row(1, 1), second = step_row(2, 3);
  first.utilisation = 0.5;
  first.mfu = 0.1;
  first.bubble = 0.25;
  first.noise_scale = 3;
  second.utilisation = 0.9;
  second.mfu = 0.3;
  second.bubble = 0.75;
  second.bubble_predicted = 0.5;
  second.noise_scale = 30;
  second.noise_scale_low = 20;
  second.noise_scale_high = 40;
  second.efficiency = 0.5;
  store::EvaluationRow task = evaluation_row(3, std::nan(""));
  task.metrics = {{"f1", 0.5}, {"loss", 1.25}};
  HistoryFigures figures;
  figures.add(first, 2);
  figures.add(second, 4);
  figures.add(evaluation_row(2, 2.5));
  figures.add(step_row(3, 4), 6);
  figures.add(task);
  figures.write_to(&run);
  EXPECT_EQ(of(run.figures, Figure::RunSeconds), 6);
  EXPECT_EQ(of(run.figures, Figure::SamplesPerSecond), 48.0 / 8);
  EXPECT_EQ(of(run.figures, Figure::TokensPerSecond), 600.0 / 8);
  EXPECT_DOUBLE_EQ(*of(run.figures, Figure::Utilisation), (0.5 * 1 + 0.9 * 3) / 4);
  EXPECT_DOUBLE_EQ(*of(run.figures, Figure::Mfu), (0.1 * 1 + 0.3 * 3) / 4);
  // Of 4 s of a step with a bubble of 1/3 ranks compute 3 and wait 1.
  EXPECT_DOUBLE_EQ(*of(run.figures, Figure::Bubble),
                   (1 * 0.2 + 3 * 0.75 / 1.75) / (1 * 0.8 + 3 / 1.75));
  EXPECT_DOUBLE_EQ(*of(run.figures, Figure::BubblePredicted), 0.5);
  EXPECT_EQ(of(run.figures, Figure::NoiseScale), 30);
  EXPECT_EQ(of(run.figures, Figure::Efficiency), 0.5);
  EXPECT_EQ(of(run.figures, Figure::Goodput), 3);
  EXPECT_EQ(run.noise_low, 20);
  EXPECT_EQ(run.noise_high, 40);
  EXPECT_EQ(run.losses, (std::map<std::int64_t, double>{{2, 2.5}, {3, 1.25}}));
}

// Seconds in which two ranks computed and waited, of which a step's time and ratio are made.
TEST(RunFigures, TheBubbleIsAllWaitingOverAllComputingHoweverLongAStepStalls) {
  const double computing[] = {0.8, 1.2, 0.8, 1.0}, waiting[] = {0.2, 0.3, 40.0, 0.1};
  double computed = 0, waited = 0;
  HistoryFigures figures, unmeasured;
  for (int step = 0; step < 4; ++step) {
    store::StepRow row = step_row(step + 1, computing[step] + waiting[step]);
    row.bubble = waiting[step] / computing[step];
    figures.add(row, step);
    std::swap(row.bubble, row.bubble_predicted);  // as GPUs tell it
    unmeasured.add(row, step);
    computed += computing[step];
    waited += waiting[step];
  }
  ExperimentRun run, other;
  figures.write_to(&run);
  unmeasured.write_to(&other);
  EXPECT_NEAR(*of(run.figures, Figure::Bubble), waited / computed, 1e-12);
  EXPECT_NEAR(*of(other.figures, Figure::BubblePredicted), waited / computed, 1e-12);
}

TEST(RunFigures, OfARunWithoutStepsAreNone) {
  ExperimentRun run = experiment_run(a_run("a", {"e", 1, "data2", 1, 4}, 1, 1), {});
  EXPECT_EQ(run.layout.data, 2) << "by its ranks, where its file has no section";
  HistoryFigures().write_to(&run);
  for (const auto& figure : run.figures) EXPECT_FALSE(figure.has_value());
}

TEST(RunFigures, KeepTheNewestLosses) {
  HistoryFigures figures;
  const int more = 5;
  for (int step = 1; step <= static_cast<int>(HistoryFigures::kMostLosses) + more; ++step) {
    figures.add(evaluation_row(step, 1.0 / step));
  }
  ExperimentRun run;
  figures.write_to(&run);
  ASSERT_EQ(run.losses.size(), HistoryFigures::kMostLosses);
  EXPECT_EQ(run.losses.begin()->first, more + 1);
}

TEST(RunFigures, NodesAreThoseOfTheNewestAttemptAndTheDeviceOfTheOneThatBegan) {
  const runs::Run run = a_run("a", {"e", 1, "data2", 1, 4}, 1, 1);
  std::vector<runs::Attempt> attempts(2);
  attempts[0].hosts = {"n1"};
  attempts[0].device = "cpu";
  attempts[0].started = true;
  attempts[1].hosts = {"n2", "n3"};
  EXPECT_THAT(experiment_run(run, attempts).hosts, ElementsAre("n2", "n3"));
  EXPECT_EQ(experiment_run(run, attempts).device, "cpu");
  attempts[1].hosts = {};
  attempts[1].host = "n4";
  EXPECT_THAT(experiment_run(run, attempts).hosts, ElementsAre("n4"));
}

struct Made {
  std::string id;
  int layout;  // 1: data2, 2: stages2
  std::uint64_t seed;
  double rate;
  double noise;
};

ExperimentRun made(const Made& given, int place) {
  const RunTags tags{"e", given.layout, given.layout == 1 ? "data2" : "stages2", place, 4};
  ExperimentRun run = experiment_run(a_run(given.id, tags, given.seed, given.layout), {});
  of(run.figures, Figure::SamplesPerSecond) = given.rate;
  of(run.figures, Figure::NoiseScale) = given.noise;
  run.noise_low = given.noise - 5;
  run.noise_high = given.noise + 5;
  run.losses = {{2, 3.0 + static_cast<double>(given.seed)}, {4, 2.0 + 0.01 * given.layout}};
  run.hosts = {"n1"};
  return run;
}

std::vector<ExperimentRun> four() {
  return {made({"a1", 1, 1, 10, 100}, 2), made({"b1", 2, 1, 4, 104}, 1),
          made({"a2", 1, 2, 13, 120}, 3), made({"b2", 2, 2, 4, 118}, 4)};
}

TEST(LayoutTable, HasMeansAndSampleDeviationsOfEachLayout) {
  const Json table = layout_table("e", four());
  EXPECT_EQ(table.at("runs_planned"), 4);
  ASSERT_EQ(table.at("layouts").size(), 2U);
  const Json& data = table["layouts"][0];
  EXPECT_EQ(data.at("name"), "data2") << "in the order of the file, not of the runs";
  EXPECT_EQ(data.at("succeeded"), 2);
  const Json& rate = data.at("figures").at("samples_per_second");
  EXPECT_EQ(rate.at("mean"), 11.5);
  EXPECT_DOUBLE_EQ(rate.at("deviation"), std::sqrt(2 * 1.5 * 1.5));
  EXPECT_EQ(rate.at("runs"), 2);
  EXPECT_EQ(table["layouts"][1]["figures"]["samples_per_second"]["deviation"], 0);
  EXPECT_TRUE(data.at("figures").at("mfu").is_null());
  EXPECT_EQ(table.at("loss_samples"), 64);
  EXPECT_EQ(data.at("figures").at("validation_loss").at("mean"), 2.01);
  EXPECT_EQ(table["runs"][0]["id"], "b1") << "in the order in which they ran";
  EXPECT_TRUE(table.at("notes").empty()) << table["notes"];
}

TEST(LayoutTable, ReadsLossesWhereAllRunsWereEvaluated) {
  auto runs = four();
  runs[2].losses.erase(4);
  runs[2].losses[3] = 9;
  Json table = layout_table("e", runs);
  EXPECT_EQ(table.at("loss_samples"), 32);
  EXPECT_EQ(table["layouts"][0]["figures"]["validation_loss"]["mean"], 4.5);
  runs[2].losses = {{7, 1.0}};
  table = layout_table("e", runs);
  EXPECT_TRUE(table.at("loss_samples").is_null());
  EXPECT_TRUE(table["layouts"][0]["figures"]["validation_loss"].is_null());
}

TEST(LayoutTable, LeavesOutRunsThatDidNotSucceedAndNamesThem) {
  auto runs = four();
  runs[0].state = "failed";
  runs[0].error = "the loss is not finite";
  runs[1].state = "running";
  const Json table = layout_table("e", runs);
  const Json& data = table["layouts"][0];
  EXPECT_EQ(data.at("succeeded"), 1);
  EXPECT_EQ(data.at("failed"), Json::array({"a1"}));
  EXPECT_EQ(data["figures"]["samples_per_second"]["mean"], 13);
  EXPECT_TRUE(data["figures"]["samples_per_second"]["deviation"].is_null());
  EXPECT_THAT(table["notes"].dump(),
              HasSubstr("Left out: a1 (data2, seed 1) failed: the loss is not finite."));
  EXPECT_THAT(table["notes"].dump(), HasSubstr("3 of 4 runs are over"));
  EXPECT_THAT(table_text(table), HasSubstr("1, 1 failed"));
}

// Two runs of the same layout and seed are two of one figure only if they have one name.
TEST(LayoutTable, HasAColumnForEachName) {
  auto runs = four();
  runs[2].layout.name = "foo";
  const Json table = layout_table("e", runs);
  ASSERT_EQ(table["layouts"].size(), 3U);
  for (const Json& layout : table["layouts"]) {
    const bool both = layout["name"] == "stages2";
    EXPECT_EQ(layout["figures"]["samples_per_second"]["runs"], both ? 2 : 1) << layout;
  }
}

TEST(LayoutTable, HasNodesAndDeviceOfRunsThatHaveSome) {
  auto runs = four();
  runs[0].device = runs[2].device = "CPU";
  runs[1].state = "cancelled";  // the first to run
  runs[1].hosts = {"n9"};
  runs[3].hosts = {"n2"};
  Json table = layout_table("e", runs);
  EXPECT_EQ(table["hosts"], Json::array({"n1", "n2"}));
  EXPECT_EQ(table["device"], "CPU");
  for (ExperimentRun& run : runs) run.state = "cancelled";
  runs[0].hosts = runs[2].hosts = runs[3].hosts = {};
  table = layout_table("e", runs);
  EXPECT_EQ(table["hosts"], Json::array({"n9"}));
  EXPECT_THAT(table["notes"].dump(), Not(HasSubstr("different nodes")));
}

TEST(LayoutTable, SaysWhetherTheNoiseOfTheGradientAgrees) {
  const auto agreement = [](const std::vector<ExperimentRun>& runs) {
    return layout_table("e", runs).at("agreement");
  };
  auto runs = four();
  EXPECT_EQ(agreement(runs).at("noise_scale"), true);
  EXPECT_NEAR(agreement(runs).at("loss_difference"), 0.01, 1e-12);
  EXPECT_THAT(agreement(runs)["sentences"].dump(), HasSubstr("agree between layouts"));
  runs[3].noise_low = 126;
  runs[3].noise_high = 130;
  EXPECT_EQ(agreement(runs).at("noise_scale"), false);
  EXPECT_THAT(agreement(runs)["sentences"].dump(),
              HasSubstr("DO NOT AGREE between layouts, though a layout changes no gradient. Their "
                        "95 % intervals, in samples, are apart: seed 2: data2 115 to 125, stages2 "
                        "126 to 130"));
  runs[2].noise_high.reset();  // it may be endless
  EXPECT_EQ(agreement(runs).at("noise_scale"), true);
  for (ExperimentRun& run : runs) run.noise_high.reset();
  EXPECT_EQ(agreement(runs).at("noise_scale"), true);
  for (ExperimentRun& run : runs) run.noise_low.reset();
  EXPECT_TRUE(agreement(runs).at("noise_scale").is_null());
  EXPECT_THAT(agreement(runs)["sentences"].dump(), HasSubstr("is not known"));
  // What differs between seeds is no disagreement of layouts.
  runs = four();
  runs.erase(runs.begin() + 1, runs.begin() + 3);  // data2 of seed 1, stages2 of seed 2
  runs[1].noise_low = 500;
  runs[1].noise_high = 600;
  EXPECT_TRUE(agreement(runs).at("noise_scale").is_null());
}

TEST(LayoutTable, SaysWhatElseIsNotEqual) {
  auto runs = four();
  runs[1].layout.data = runs[3].layout.data = 2;
  runs[2].hosts = {"n2"};
  runs[3].common = "other";
  runs[0].is_thinned = true;
  const std::string notes = layout_table("e", runs).at("notes").dump();
  EXPECT_THAT(notes, HasSubstr("different numbers of ranks (2, 4)"));
  EXPECT_THAT(notes, HasSubstr("Runs ran on different nodes"));
  EXPECT_THAT(notes, HasSubstr("The run file of b2 differs"));
  EXPECT_THAT(notes, HasSubstr("Of a1 only means"));
}

TEST(LayoutTable, HasThePublishedRowsAsTheyWere) {
  const Json rows = layout_table("e", {}).at("published").at("layouts");
  ASSERT_EQ(rows.size(), 3U);
  for (const Json& row : rows) {  // each goodput is the product of its row, as rounded there
    const Json& figures = row.at("figures");
    EXPECT_NEAR(figures["samples_per_second"].get<double>() * figures["efficiency"].get<double>(),
                figures["goodput"].get<double>(), 1.5e-4)
        << row;
  }
}

TEST(TableText, ShowsTwoDigitsOfTheDeviation) {
  struct Row {
    double mean, deviation;
    const char* text;
  };
  const Row rows[] = {{71.2345, 0.4123, "71.23 ± 0.41"},
                      {71.2345, 12.3, "71 ± 12"},
                      {7.07e-5, 1.2e-6, "0.0000707 ± 0.0000012"},
                      {1234567, 4321, "1234567 ± 4321"},
                      {2.5, 0, "2.500 ± 0.000"},
                      {0, 0, "0 ± 0"}};
  for (const Row& row : rows) EXPECT_EQ(mean_text(row.mean, &row.deviation), row.text);
  EXPECT_EQ(mean_text(37.98, nullptr), "37.98");
  EXPECT_EQ(mean_text(3688, nullptr), "3688");
  EXPECT_EQ(mean_text(0.0001116, nullptr), "0.0001116");
}

std::vector<std::string> words_of(std::string text) {
  for (char& c : text) {
    if (c == '|' || c == '\n') c = ' ';
  }
  std::vector<std::string> words;
  for (const std::string& word : base::split(text, ' ')) {
    if (!word.empty() && word.find("--") == std::string::npos && word != "-" && word != "#" &&
        word != "##") {
      words.push_back(word);
    }
  }
  return words;
}

TEST(TableText, AndMarkdownHoldTheSame) {
  const Json table = layout_table("e", four());
  const std::string text = table_text(table), markdown = table_markdown(table);
  EXPECT_THAT(text, HasSubstr("11.5 ± 2.1"));
  EXPECT_THAT(text, HasSubstr("validation loss after 64 samples"));
  EXPECT_THAT(text, HasSubstr("As published, not measured here: BERT-base"));
  for (const char* const published : {"37.98 ", "70.4 ", "116.27", "0.0000707 ", "0.0049 "}) {
    EXPECT_THAT(text, HasSubstr(published));
  }
  EXPECT_THAT(text, HasSubstr("94.96 %"));
  EXPECT_THAT(text, Not(HasSubstr("model FLOP"))) << "no layout has it";
  EXPECT_THAT(markdown, HasSubstr("| samples/s | 11.5 ± 2.1 | 4.000 ± 0.000 |"));
  EXPECT_THAT(markdown, HasSubstr("[docs/metrics.md](docs/metrics.md)"));
  auto plain = words_of(text), marked = words_of(markdown);
  ASSERT_FALSE(plain.empty());
  for (std::string& word : marked) {
    if (word.front() == '[') word = "docs/metrics.md";
  }
  EXPECT_EQ(plain, marked);
}

TEST(TableText, LetsNoForeignTextThrough) {
  auto runs = four();
  runs[0].state = "failed";
  runs[0].error = "\x1b[31mred | <b>";
  const Json table = layout_table("e", runs);
  EXPECT_THAT(table_text(table), Not(HasSubstr("\x1b")));
  EXPECT_THAT(table_markdown(table), HasSubstr("red \\| \\<b\\>"));
}

}  // namespace
}  // namespace regatta::orchestrator::experiments
