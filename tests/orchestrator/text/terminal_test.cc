#include "orchestrator/text/terminal.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "orchestrator/text/run_columns.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

Json running() {
  return Json{{"id", "demo-1"},
              {"name", "demo"},
              {"state", "running"},
              {"state_text", "training, step 25 of 100"},
              {"step", 25},
              {"steps", 100},
              {"metric", "mlm_accuracy"},
              {"value", 0.0831},
              {"target", 0.098},
              {"baseline", 0.049},
              {"target_reached", false},
              {"time_to_accuracy_seconds", nullptr},
              {"training_seconds", 41.5},
              {"since_submission_seconds", 50.0},
              {"predicted_seconds_to_target", 35.0},
              {"samples_per_second", 341.2},
              {"tokens_per_second", 40100.0},
              {"checkpoint", nullptr}};
}

TEST(ProgressLine, TellsTheState) {
  const std::string line = text::progress_line(running(), 200);
  EXPECT_EQ(line,
            "[#######-----------------------] step 25/100  mlm_accuracy 0.0831 of 0.0980  341 "
            "samples/s  target in about 35.0 s");
}

// Its steps and what they are worth are not one figure; the table has room for how far it is.
TEST(ProgressLine, TellsWhatStepsOfABatchThatGrowsAreWorth) {
  Json run = running();
  run["step"] = 9;
  run["progress"] = 25.7;
  EXPECT_THAT(text::progress_line(run, 200), HasSubstr("[#######---"));
  EXPECT_THAT(text::progress_line(run, 200), HasSubstr("] step 9, worth 25/100  mlm"));
  EXPECT_THAT(text::run_details(run), HasSubstr("9, worth 25 of 100\n"));
  EXPECT_THAT(text::run_table(Json::array({run}), 0), HasSubstr("25/100"));
  EXPECT_THAT(text::run_table(Json::array({run}), 0), testing::Not(HasSubstr("worth")));
}

TEST(ProgressLine, TellsASilence) {
  Json run = running();
  run["silent_seconds"] = 46.0;
  run["samples_per_second"] = run["predicted_seconds_to_target"] = nullptr;
  EXPECT_EQ(text::progress_line(run, 79),
            "[###------------] step 25/100  mlm_accuracy 0.0831 of 0.0980  silent for 46.0 s");
}

// 0.7000 of 0.7000 does not say why a target was missed.
TEST(Target, IsToldFromTheValueThatMissedIt) {
  Json run = running();
  run["value"] = 0.69996;
  run["target"] = 0.7;
  EXPECT_THAT(text::progress_line(run, 200), HasSubstr(" 0.69996 of 0.70000 "));
  EXPECT_THAT(text::run_table(Json::array({run}), 0), HasSubstr("0.69996  0.70000"));
  EXPECT_THAT(text::run_details(run), HasSubstr(" 0.70000, not reached; last 0.69996 "));
  EXPECT_EQ(text::decimals_apart(0.7, 0.7), 4);
  EXPECT_EQ(text::decimals_apart(0.71, 0.7), 4);
  EXPECT_EQ(text::decimals_apart(0.7, 0.7 - 1e-16), 4) << "no digits tell these apart";
}

// Of a run that was to end earlier than its attempt does.
TEST(RunTable, HasNoMoreStepsThanAll) {
  Json run = running();
  run["step"] = 6000;
  run["steps"] = 3000;
  EXPECT_THAT(text::run_table(Json::array({run}), 0), Not(HasSubstr("/3000")));
  EXPECT_THAT(text::run_table(Json::array({run}), 0), HasSubstr(" 6000 "));
  EXPECT_THAT(text::progress_line(run, 200), HasSubstr("] step 6000  mlm_accuracy"));
  EXPECT_THAT(text::run_details(run), Not(HasSubstr("of 3000")));
  run["steps"] = 6000;
  EXPECT_THAT(text::run_table(Json::array({run}), 0), HasSubstr("6000/6000"));
}

TEST(ProgressLine, FitsTheTerminal) {
  for (const int width : {20, 40, 80, 100, 120}) {
    EXPECT_LE(text::progress_line(running(), width).size(), static_cast<std::size_t>(width));
  }
}

// 80 columns used to end within "target in about".
TEST(ProgressLine, KeepsTheForecastIn80Columns) {
  Json run = running();
  EXPECT_EQ(text::progress_line(run, 79),
            "step 25/100  mlm_accuracy 0.0831 of 0.0980  341 samples/s  target in 35.0 s");
  run["step"] = 41200;
  run["steps"] = 400000;
  run["predicted_seconds_to_target"] = 9340.0;
  EXPECT_EQ(text::progress_line(run, 79),
            "step 41200/400000  mlm_accuracy 0.0831 of 0.0980  target in 2 h 35 min");
  EXPECT_EQ(text::progress_line(run, 59),
            "[#----------------] step 41200/400000  target in 2 h 35 min");
  EXPECT_EQ(text::progress_line(run, 40), "step 41200/400000  target in 2 h 35 min");
}

std::size_t widest(const std::string& text) {
  std::size_t widest = 0;
  for (const std::string& line : base::split(text, '\n')) widest = std::max(widest, line.size());
  return widest;
}

// A list of runs used to be 92 columns wide and more.
TEST(RunTable, FitsTheTerminal) {
  Json run = running();
  run["id"] = "perl-doc-77ab01";
  run["state"] = "succeeded";
  run["step"] = 4000;
  run["steps"] = 4000;
  run["time_to_accuracy_seconds"] = 725.0;
  run["created_at"] = "2026-11-23T14:05:03.000Z";
  const Json runs = Json::array({run});
  const std::string whole = text::run_table(runs);
  EXPECT_THAT(whole, HasSubstr("TIME TO ACCURACY"));
  EXPECT_GT(widest(whole), 80U);
  EXPECT_EQ(text::run_table(runs, 200), whole);
  const std::string usual = text::run_table(runs, 80);
  EXPECT_LE(widest(usual), 80U);
  EXPECT_THAT(usual, HasSubstr("0.0831  0.0980  12 min 05 s"));
  EXPECT_THAT(usual, HasSubstr("  11-23 "));
  const std::string narrow = text::run_table(runs, 60);
  EXPECT_LE(widest(narrow), 60U);
  EXPECT_THAT(narrow, HasSubstr("perl-doc-77ab01  succeeded  4000/4000"));
  EXPECT_THAT(narrow, HasSubstr("12 min 05 s"));
  EXPECT_THAT(text::run_table(runs, 10), HasSubstr("perl-doc-77ab01")) << "an id is never cut";
}

TEST(RunTable, CutsNotesToTheTerminal) {
  Json run = running();
  run["state"] = "queued";
  run["after"] = {"other-1"};
  run["state_text"] = "waits for other-1, which has failed: it will not begin unless it is resumed";
  const Json runs = Json::array({run});
  EXPECT_THAT(text::run_table(runs), HasSubstr("unless it is resumed\n"));
  const std::string cut = text::run_table(runs, 100);
  EXPECT_THAT(cut, HasSubstr("NOTE"));
  EXPECT_THAT(cut, HasSubstr("\u2026\n"));
  EXPECT_LE(widest(cut), 100U + 2) << "an ellipsis is three bytes";
}

TEST(ColumnTable, HasTheColumnsThatAreChosenAndKeepsToItsWidth) {
  const Json runs = {{{"id", "demo-4f2a91"},
                      {"created_at", nullptr},
                      {"training_seconds", 725.0},
                      {"value", 0.083125},
                      {"tags", {"good", "old"}},
                      {"note", "half the rate, twice the warm-up \x1b[2J"}},
                     {{"id", "x-1"}}};
  const std::vector<std::string> columns{"id", "training_seconds", "value", "tags", "note"};
  EXPECT_EQ(
      text::column_table(runs, columns),
      "ID           TRAINING     VALUE    TAGS      NOTE\n"
      "demo-4f2a91  12 min 05 s  0.08313  good old  half the rate, twice the warm-up \\x1b[2J\n"
      "x-1          -            -        -         -\n");
  for (const int width : {70, 60, 55}) {
    const std::string narrow = text::column_table(runs, columns, width);
    EXPECT_THAT(narrow, HasSubstr("demo-4f2a91"));
    EXPECT_THAT(narrow, HasSubstr("\u2026"));
    for (const std::string& line : base::split(narrow, '\n')) {
      EXPECT_LE(text::width_of(line), static_cast<std::size_t>(width));
    }
  }
  EXPECT_THAT(text::column_table(runs, columns, 5), HasSubstr("demo-4f2a91"))
      << "an id is never cut";
  EXPECT_EQ(text::chosen_columns(runs, {"note", "id"})[1].dump(), R"({"note":null,"id":"x-1"})");
}

TEST(ProgressLine, SaysWhyItWaits) {
  Json run = running();
  run["state"] = "queued";
  run["state_text"] = "waits for a free slot (serve --parallel)";
  EXPECT_EQ(text::progress_line(run, 80), "demo-1: waits for a free slot (serve --parallel)");
}

TEST(RunSummary, SaysWhatTheRunCameTo) {
  Json run = running();
  run["state"] = "succeeded";
  run["target_reached"] = true;
  run["value"] = 0.1012;
  run["time_to_accuracy_seconds"] = 92.4;
  run["checkpoint"] = {{"step", 400}, {"name", "step-400"}, {"path", "/r/checkpoints/step-400"}};
  EXPECT_EQ(text::run_summary(run),
            "run               demo-1 succeeded\n"
            "target            mlm_accuracy 0.0980, reached; last 0.1012 (the best constant guess: "
            "0.0490)\n"
            "time to accuracy  1 min 32 s\n"
            "training          41.5 s (50.0 s since submission)\n"
            "throughput        341 samples/s, 40100 tokens/s\n"
            "checkpoint        /r/checkpoints/step-400\n");
}

Json on_four_ranks() {
  Json run = running();
  run["ranks"] = 4;
  run["ranks_per_node"] = 2;
  run["device"] = "cpu";
  run["mfu"] = 0.3125;
  run["utilisation"] = 0.94;
  run["goodput"] = 297.4;
  run["noise_scale"] = 1240.0;
  run["efficiency"] = 0.871;
  run["exposed_share"] = 0.042;
  run["imbalance"] = 1.0123;
  run["slowest"] = {{"rank", 3},
                    {"step", 26},
                    {"phase", "backward"},
                    {"phase_seconds", 1.2},
                    {"age_seconds", 0.4}};
  return run;
}

TEST(RunSummary, TellsRanksInOneLine) {
  EXPECT_THAT(text::run_summary(on_four_ranks()),
              HasSubstr("ranks             4 (2 per node) on cpu, MFU 31.2 %, utilisation 94.0 %, "
                        "goodput 297 samples/s\n"));
}

TEST(RunDetails, TellHowTheRanksDo) {
  const std::string text = text::run_details(on_four_ranks());
  EXPECT_THAT(text, HasSubstr("4 (2 per node) on cpu, MFU 31.2 %"));
  EXPECT_THAT(text, HasSubstr("1240 samples, statistical efficiency 87.1 %"));
  Json run = on_four_ranks();
  run["noise_scale_low"] = 1010.0;
  EXPECT_THAT(text::run_details(run), HasSubstr("1240 samples (above 1010), statistical"));
  run["noise_scale_high"] = 1590.0;
  EXPECT_THAT(text::run_details(run), HasSubstr("1240 samples (1010 to 1590), statistical"));
  run["noise_scale"] = nullptr;
  run["noise_scale_high"] = nullptr;
  EXPECT_THAT(text::run_details(run),
              HasSubstr("above 1010 samples, statistical efficiency 87.1 %"));
  EXPECT_THAT(text, HasSubstr("4.2 % of the step exposed, largest rank 1.0123 of the mean"));
  EXPECT_THAT(text, HasSubstr("rank 3 in backward for 1.2 s, 0.4 s ago"));
}

TEST(RunDetails, ShowTheAccuracyOfARunWithoutATarget) {
  Json run = running();
  run["target"] = nullptr;
  EXPECT_THAT(
      text::run_details(run),
      HasSubstr("target              none; last mlm_accuracy 0.0831 (the best constant guess: "
                "0.0490)\n"));
  EXPECT_THAT(text::run_summary(run), HasSubstr("none; last mlm_accuracy 0.0831"));
}

// A multiple of what the trainer computes when it starts.
TEST(RunDetails, NameTheTargetOfAQueuedRun) {
  Json run{{"id", "demo-1"}, {"state", "queued"}, {"metric", "mlm_accuracy"}, {"target", nullptr}};
  EXPECT_THAT(text::run_details(run), HasSubstr("target            none\n"));
  run["target_times_baseline"] = 2;
  EXPECT_THAT(text::run_details(run),
              HasSubstr("mlm_accuracy of 2 times the best constant guess, which "
                        "is computed when training starts\n"));
  EXPECT_THAT(text::run_table(Json::array({run})), HasSubstr("  2 x base"));
  run["target"] = 0.0981;
  EXPECT_THAT(text::run_details(run),
              HasSubstr("target            mlm_accuracy 0.0981, not reached\n"));
  EXPECT_THAT(text::run_table(Json::array({run})), HasSubstr("  0.0981"));
}

TEST(RunDetails, SayNothingOfARunOnOneRank) {
  Json run = running();
  run["ranks"] = 1;
  for (const char* key : {"mfu", "goodput", "noise_scale", "exposed_share", "slowest", "device"}) {
    run[key] = nullptr;
  }
  EXPECT_THAT(text::run_details(run), Not(HasSubstr("rank")));
  EXPECT_THAT(text::run_details(run), Not(HasSubstr("noise")));
  EXPECT_EQ(text::run_summary(run), text::run_summary(running()));
  run["mfu"] = 0.5;
  EXPECT_THAT(text::run_summary(run), HasSubstr("1, MFU 50.0 %"));
}

TEST(Terminal, EscapesHostileText) {
  Json run = running();
  run["id"] = "x\x1b]0;owned\x07\n";
  run["error"] = "\x1b[2J\xC2\x9B";
  run["warnings"] = {"a\rb"};
  run["ranks"] = 2;
  run["device"] = "\x1b[31mgpu";
  run["slowest"] = {{"rank", 1}, {"phase", "\x1b[2J"}};
  for (const std::string& text : {text::run_table(Json::array({run})), text::run_details(run),
                                  text::run_summary(run), text::progress_line(run, 200)}) {
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("\r")));
    EXPECT_THAT(text, Not(HasSubstr("\x07")));
    EXPECT_THAT(text, Not(HasSubstr("\xC2\x9B")));
  }
}

TEST(Terminal, TakesAnswersOfAnotherShape) {
  for (const Json& strange :
       {Json::object(), Json{{"id", 5}, {"state", nullptr}, {"step", "x"}, {"checkpoint", 3}},
        Json{{"state", "running"}, {"steps", -1}, {"warnings", "w"}},
        Json{{"ranks", "four"}, {"mfu", true}, {"slowest", 3}, {"noise_scale", "big"}},
        Json{{"ranks", -1e300}, {"ranks_per_node", 0}, {"slowest", Json::object()}}}) {
    EXPECT_NO_THROW((void)text::run_details(strange));
    EXPECT_NO_THROW((void)text::run_summary(strange));
    EXPECT_NO_THROW((void)text::progress_line(strange, 80));
    EXPECT_NO_THROW((void)text::run_table(Json::array({strange})));
    EXPECT_FALSE(text::is_over(strange));
  }
}

TEST(Terminal, GetsJsonWithoutWhatItWouldObey) {
  const Json run{{"error", "\u009B2J\u202Egpj \x7f \u00E9 \xff"}};
  const std::string shown = text::json_text(run, 2, text::Audience::Terminal);
  for (const char c : shown) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F)) << shown;
  const std::string piped = text::json_text(run, -1, text::Audience::Program);
  EXPECT_EQ(Json::parse(shown), Json::parse(piped)) << "the same to whoever parses it";
  EXPECT_NE(piped.find("\u00E9"), std::string::npos);
}

TEST(Table, PadsByCharacters) {
  EXPECT_EQ(text::table({{"a", "b"}, {"\xC3\xA9\xC3\xA9", "c"}}), "a   b\n\xC3\xA9\xC3\xA9  c\n");
}

TEST(LocalTime, IsThatOfTheProgramsPlace) {
  ::setenv("TZ", "EST5", 1);
  ::tzset();
  EXPECT_EQ(text::local_time("2026-11-21T11:48:02.125Z"), "06:48:02");
  EXPECT_EQ(text::silence_text("2026-11-21T11:48:02.125Z", 185, "no \x1b answer"),
            "Slurm has not answered since 06:48:02 (3 min 05 s): no \\x1b answer");
  ::unsetenv("TZ");
  ::tzset();
  EXPECT_EQ(text::local_time(nullptr), "");
  EXPECT_EQ(text::local_time("yesterday"), "");
  EXPECT_EQ(text::silence_text(nullptr, 0, ""), "Slurm has not answered yet");
}

}  // namespace
}  // namespace regatta::orchestrator
