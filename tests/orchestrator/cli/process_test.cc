// The real `regatta` with a fake trainer: everything as a user sees it, through processes and exit
// codes.
#include "base/process.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "orchestrator/cli/client.h"
#include "tests/orchestrator/cli/regatta_process.h"
#include "trainer/contract/environment_file.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::eventually;
using tests::kRegatta, tests::kTrainer, tests::kDeadline;
using Json = nlohmann::ordered_json;

class ProcessTest : public tests::RegattaProcess {};

std::vector<std::int64_t> one_to(std::int64_t last) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 1; i <= last; ++i) out.push_back(i);
  return out;
}

TEST_F(ProcessTest, ShowsWhatAnAttemptRanOn) {
  script("pause_ms 1");
  serve();
  const std::string id = submit();
  ASSERT_TRUE(reaches(id, "succeeded"));
  const base::Path attempts = base::Path(show(id)["directory"].get<std::string>()) / "attempts";
  const base::Path path = attempts / base::posix_file_system().list(attempts).at(0) /
                          trainer::contract::kEnvironmentFile;
  Json sections;
  for (const std::string_view name : trainer::contract::kEnvironmentSections) {
    sections[std::string(name)] = {{"said", "\x1b]0;title\x07"}};
  }
  const Json whole = trainer::contract::sealed_environment(sections);
  tests::write_file(path, whole.dump(2));
  const base::Output text = regatta({"show", id, "--environment"});
  EXPECT_EQ(text.exit.code, 0) << text.errors;
  const std::string digest = whole["machine"]["digest"].get<std::string>().substr(0, 8);
  EXPECT_THAT(text.text, HasSubstr("machine  " + digest + "\n  said  "));
  const base::Output json = regatta({"show", id, "--environment", "--attempt", "1", "-o", "json"});
  EXPECT_EQ(Json::parse(json.text, nullptr, false), whole);
  const base::Output yaml = regatta({"show", id, "--environment", "-o", "yaml"});
  EXPECT_THAT(yaml.text, HasSubstr(whole["fingerprint"].get<std::string>()));
  for (const base::Output& output : {text, json, yaml}) {
    EXPECT_THAT(output.text, Not(HasSubstr("\x1b")));
  }

  // One line for what is wrong.
  const auto refused = [&](const std::vector<std::string>& more, const std::string& why) {
    std::vector<std::string> words{"show", id};
    words.insert(words.end(), more.begin(), more.end());
    const base::Output output = regatta(words);
    EXPECT_NE(output.exit.code, 0) << why;
    EXPECT_EQ(output.text, "");
    EXPECT_THAT(output.errors, HasSubstr(why));
    EXPECT_THAT(output.errors, Not(HasSubstr("\x1b")));
    EXPECT_LT(output.errors.size(), 600U);
  };
  refused({"--environment", "--attempt", "7"}, "no attempt 7");
  refused({"--environment", "--attempt", "0"}, "--attempt");
  refused({"--attempt", "1"}, "--attempt is for --environment");
  refused({"--environment", "--secrets"}, "--secrets is for a run");
  refused({"--environment", "-o", "name"}, "-o name is for a run");
  for (const std::string& bad :
       {std::string(10U << 20U, 'x'), std::string("{\"format\": 2, \"build\": \"\x1b[2J\"}"),
        std::string("\x1b[2J")}) {
    tests::write_file(path, bad);
    refused({"--environment"}, "is damaged");
  }
}

TEST_F(ProcessTest, TrainsToTheTarget) {
  script("pause_ms 1");
  serve();
  const base::Output output = regatta({"submit", run_yaml().string(), "--wait"});
  EXPECT_EQ(output.exit.code, 0) << output.errors;
  EXPECT_THAT(output.text, HasSubstr("succeeded"));
  EXPECT_THAT(output.text, HasSubstr("0.5000, reached"));
  EXPECT_THAT(output.text, HasSubstr("checkpoints/step-30"));
  EXPECT_THAT(output.text, HasSubstr("samples/s"));
  const std::string id = output.text.substr(0, output.text.find('\n'));
  const Json run = show(id);
  EXPECT_EQ(run["step"], 30) << "accuracy is step / 60";
  EXPECT_EQ(run["target_reached"], true);
  EXPECT_GT(run["time_to_accuracy_seconds"], 0.0);
  EXPECT_EQ(run["attempt"]["exit_code"], 0);
  EXPECT_EQ(steps(id), one_to(30));
  EXPECT_EQ(run["config"]["data"]["path"], data().lexically_normal().string())
      << "relative to the run file";
  EXPECT_THAT(regatta({"logs", id, "-f"}).text, HasSubstr("fake trainer starts"));
  EXPECT_EQ(regatta({"watch", id, "--exit-status"}).exit.code, 0);
  EXPECT_EQ(regatta({"ls", "--state", "failed"}).errors, "no run is failed; others: 1 succeeded\n");
}

TEST_F(ProcessTest, ShowsHowTheRanksDo) {
  script("pause_ms 1\nhold_at 12\nranks 4");
  serve();
  const std::string id = submit("ranks: 4\n");
  ASSERT_TRUE(reaches_step(id, 12));
  const base::Output while_running = regatta({"show", id});
  EXPECT_EQ(while_running.exit.code, 0) << while_running.errors;
  EXPECT_THAT(while_running.text,
              HasSubstr("4 on fake, MFU 40.0 %, utilisation 90.0 %, goodput 640 samples/s"));
  EXPECT_THAT(while_running.text,
              HasSubstr("640 samples (520 to 810), statistical efficiency 80.0 %"));
  EXPECT_THAT(while_running.text, HasSubstr("10.0 % of the step exposed"));
  EXPECT_THAT(while_running.text, HasSubstr("rank 1 in backward"));
  const Json metrics = cli::Client({socket()}, kDeadline).get("/runs/" + id + "/metrics");
  EXPECT_EQ(metrics["timeline"]["step"], 12);
  EXPECT_EQ(metrics["timeline"]["buckets"].size(), 2U);
  tests::write_file(data() / "go", "");
  const base::Output after = regatta({"watch", id});
  EXPECT_THAT(after.text, HasSubstr("4 on fake"));
  EXPECT_THAT(regatta({"show", id}).text, Not(HasSubstr("furthest behind")));
}

TEST_F(ProcessTest, AttemptOutlivesAKilledController) {
  script("hold_at 20");
  serve();
  const std::string id = submit();
  ASSERT_TRUE(reaches_step(id, 20));
  const Json before = show(id);
  stop_serving(SIGKILL);
  tests::write_file(data() / "go", "");  // the attempt goes on while no controller runs
  const base::Path journal = base::Path(before["directory"].get<std::string>()) / "attempts" /
                             ("1-" + before["attempt"]["execution"].get<std::string>()) /
                             "journal.jsonl";
  ASSERT_TRUE(eventually([&] { return read(journal).find("\"end\"") != std::string::npos; }));
  serve();
  ASSERT_TRUE(reaches(id, "succeeded"));
  const Json after = show(id);
  EXPECT_EQ(after["attempts"], 1) << "no second attempt";
  EXPECT_EQ(after["attempt"]["execution"], before["attempt"]["execution"]);
  EXPECT_EQ(steps(id), one_to(30)) << "each step once";
}

TEST_F(ProcessTest, RestartedControllerFindsARunningAttempt) {
  script("hold_at 20");
  serve();
  const std::string id = submit();
  ASSERT_TRUE(reaches_step(id, 20));
  stop_serving(SIGTERM);
  EXPECT_EQ(server_exit_.code, 0);
  serve();
  ASSERT_TRUE(reaches(id, "running"));
  EXPECT_EQ(regatta({"cancel", id}).exit.code, 0);
  ASSERT_TRUE(reaches(id, "cancelled")) << "it is found, and TERM reaches it";
  EXPECT_EQ(show(id)["attempts"], 1);
  EXPECT_EQ(steps(id), one_to(20));
}

TEST_F(ProcessTest, StartsAgainAfterKillMinusNine) {
  script("die_at 15");
  serve();
  const std::string id = submit();
  ASSERT_TRUE(reaches(id, "succeeded"));
  const Json run = show(id);
  EXPECT_EQ(run["attempts"], 2);
  std::vector<std::int64_t> expected = one_to(15);
  for (std::int64_t step = 11; step <= 30; ++step) expected.push_back(step);
  EXPECT_EQ(steps(id), expected) << "resumed from the checkpoint of step 10";
  const Json metrics = cli::Client({socket()}, kDeadline).get("/runs/" + id + "/metrics");
  double last = -1;
  for (const Json& row : metrics["steps"]) {
    EXPECT_GT(row[1].get<double>(), last) << "one time axis, down time included";
    last = row[1];
  }
  EXPECT_GT(run["time_to_accuracy_seconds"], 1.0) << "the second that it waited counts";
}

TEST_F(ProcessTest, CancelStopsWithinSecondsAfterACheckpoint) {
  script("hold_at 12");
  serve();
  const std::string id = submit();
  ASSERT_TRUE(reaches_step(id, 12));
  const auto start = std::chrono::steady_clock::now();
  const base::Output output = regatta({"cancel", id});
  EXPECT_EQ(output.exit.code, 0);
  ASSERT_TRUE(reaches(id, "cancelled"));
  // Five seconds are promised; a busy machine gets more.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  const Json run = show(id);
  EXPECT_EQ(run["checkpoint"]["step"], 12);
  EXPECT_EQ(run["attempt"]["exit_code"], 24);
  EXPECT_TRUE(run["error"].is_null());
  EXPECT_EQ(regatta({"watch", id, "--exit-status"}).exit.code, 24);
  EXPECT_EQ(regatta({"watch", id}).exit.code, 0);
}

TEST_F(ProcessTest, CancelKillsWhatDoesNotStop) {
  script("hold_at 12\nignore_term 1");
  serve({"--stop-grace", "0.5"});
  const std::string id = submit();
  ASSERT_TRUE(reaches_step(id, 12));
  regatta({"cancel", id});
  ASSERT_TRUE(reaches(id, "cancelled"));
  const Json run = show(id);
  EXPECT_EQ(run["error"], "while stopping: killed by signal 9; last log line: fake trainer starts");
  EXPECT_EQ(regatta({"watch", id, "--exit-status"}).exit.code, 100) << "it has no exit code";
}

TEST_F(ProcessTest, ReportsTheTrainersOwnWords) {
  script("exit 20 the dataset has no \x1b[31mvocabulary");
  serve();
  const base::Output output = regatta({"submit", run_yaml().string(), "--wait"});
  EXPECT_EQ(output.exit.code, 20);
  EXPECT_THAT(output.text, HasSubstr("the dataset has no \\x1b[31mvocabulary"));
  EXPECT_THAT(output.text + output.errors, Not(HasSubstr("\x1b[31m")));
  script("silent 21");
  const std::string id = submit();
  ASSERT_TRUE(reaches(id, "failed"));
  EXPECT_EQ(show(id)["error"], "the last words of the log");
}

TEST_F(ProcessTest, RunsOneAfterTheOther) {
  script("hold_at 5");
  serve();
  const std::string first = submit();
  const std::string second = submit();
  ASSERT_TRUE(reaches_step(first, 5));
  EXPECT_EQ(show(second)["state"], "queued");
  // Until its first visit it has no reason.
  EXPECT_TRUE(eventually(
      [&] { return show(second)["state_text"] == "waits for a free slot (serve --parallel)"; }));
  EXPECT_EQ(show(second)["state"], "queued");
  EXPECT_THAT(regatta({"explain", second}).text,
              HasSubstr("queued: 1st in line for a free slot; in use by " + first + " ("));
  tests::write_file(data() / "go", "");
  ASSERT_TRUE(reaches(first, "succeeded"));
  ASSERT_TRUE(reaches(second, "succeeded"));
}

TEST_F(ProcessTest, CtrlCDetachesFromWatch) {
  script("hold_at 5");
  serve();
  const std::string id = submit();
  ASSERT_TRUE(reaches_step(id, 5));
  base::Command command;
  command.arguments = {kRegatta, "watch", id};
  command.environment["REGATTA_SERVER"] = socket();
  command.output_path = folder_.path() / "watch.log";
  const pid_t watcher = base::spawn(command);
  ASSERT_TRUE(
      eventually([&] { return read(command.output_path).find("step 5/60") != std::string::npos; }));
  ::kill(watcher, SIGINT);
  EXPECT_EQ(base::wait_exit(watcher).code, 130);
  EXPECT_THAT(read(command.output_path), HasSubstr("the run goes on"));
  EXPECT_EQ(show(id)["state"], "running");
}

TEST_F(ProcessTest, WatchSurvivesARestartOfTheController) {
  script("hold_at 5");
  serve();
  const std::string id = submit();
  ASSERT_TRUE(reaches_step(id, 5));
  base::Command command;
  command.arguments = {kRegatta, "watch", id, "--exit-status"};
  command.environment["REGATTA_SERVER"] = socket();
  command.output_path = folder_.path() / "watch.log";
  const pid_t watcher = base::spawn(command);
  ASSERT_TRUE(
      eventually([&] { return read(command.output_path).find("step 5/60") != std::string::npos; }));
  stop_serving(SIGTERM);
  serve();
  tests::write_file(data() / "go", "");
  EXPECT_EQ(base::wait_exit(watcher).code, 0);
  EXPECT_THAT(read(command.output_path), HasSubstr("succeeded"));
}

TEST_F(ProcessTest, OutputIsJsonWhenAsked) {
  script("pause_ms 1");
  serve();
  const base::Output made = regatta({"submit", run_yaml().string(), "-o", "json"});
  const std::string id = Json::parse(made.text).at("id");
  const std::string doubt = "no dataset in " + (folder_.path() / "data").string();
  EXPECT_THAT(Json::parse(made.text)["warnings"].dump(), HasSubstr(doubt));
  EXPECT_THAT(made.errors, HasSubstr("regatta: warning: " + doubt));
  ASSERT_TRUE(reaches(id, "succeeded"));
  EXPECT_EQ(Json::parse(regatta({"ls", "-o", "json"}).text)["runs"][0]["id"], id);
  EXPECT_EQ(Json::parse(regatta({"show", id, "-o", "json"}).text)["state"], "succeeded");
  EXPECT_EQ(Json::parse(regatta({"watch", id, "-o", "json"}).text)["state"], "succeeded");
  EXPECT_EQ(Json::parse(regatta({"version", "-o", "json"}).text)["controller"]["scheduler"],
            "local");
  EXPECT_THAT(regatta({"logs", id, "-o", "json"}).text, HasSubstr("\"launch\""));
  EXPECT_THAT(regatta({"ls"}).text, HasSubstr(id));
  EXPECT_THAT(regatta({"show", "demo"}).text, HasSubstr("reached its target"));
}

TEST_F(ProcessTest, IdempotencyKeyMakesOneRun) {
  script("pause_ms 1");
  serve();
  const std::string file = run_yaml().string();
  const base::Output first = regatta({"submit", file, "--idempotency-key", "k"});
  const base::Output second = regatta({"submit", file, "--idempotency-key", "k"});
  EXPECT_EQ(first.exit.code, 0);
  EXPECT_EQ(first.text, second.text);
  const base::Output other =
      regatta({"submit", run_yaml("seed: 9\n").string(), "--idempotency-key", "k"});
  EXPECT_EQ(other.exit.code, 5);
  EXPECT_THAT(other.errors, HasSubstr("idempotency key"));
}

TEST_F(ProcessTest, ExitCodesSayWhoMustAct) {
  script("pause_ms 1");
  const base::Output unreachable = regatta({"ls"});
  EXPECT_EQ(unreachable.exit.code, 6);
  EXPECT_THAT(unreachable.errors, HasSubstr("regatta: cannot reach the controller"));
  EXPECT_EQ(regatta({"version"}).exit.code, 0) << "needs no controller";
  EXPECT_EQ(regatta({"--version"}).exit.code, 0);
  EXPECT_EQ(regatta({"--help"}).exit.code, 0);
  serve();
  struct Case {
    std::vector<std::string> arguments;
    int code;
    const char* message;
  };
  const base::Path bad = folder_.path() / "bad.yaml";
  tests::write_file(bad, "name: x\nmodel: {hiden: 3}\ndata: {path: d}\n");
  const base::Path huge = folder_.path() / "huge.yaml";
  tests::write_file(huge, std::string((1 << 20) + 1, 'x'));
  for (const Case& each :
       std::vector<Case>{{{}, 2, "needs a command"},
                         {{"dance"}, 2, "'dance' is not a command"},
                         {{"wach"}, 2, "did you mean 'watch'?"},
                         {{"show"}, 2, "run"},
                         {{"ls", "--limit", "none"}, 2, "--limit is 'none'; use 1 to 1000000"},
                         {{"ls", "-o", "xml"}, 2, "xml"},
                         {{"serve", "--port", "99999"}, 2, "99999"},
                         {{"show", "nothing"}, 3, "no run 'nothing'"},
                         {{"cancel", "nothing"}, 3, "no run"},
                         {{"logs", "nothing"}, 3, "no run"},
                         {{"watch", "nothing"}, 3, "no run"},
                         {{"show", ""}, 2, "empty"},
                         {{"show", "\x1b[31m"}, 3, "\\x1b"},
                         {{"submit", "absent.yaml"}, 3, "absent.yaml"},
                         {{"submit", bad.string()}, 7, "bad.yaml:2: model.hiden"},
                         {{"submit", huge.string()}, 7, "larger than"},
                         {{"submit", "-"}, 7, "stdin"},
                         {{"ls", "--server", "gopher://x"}, 2, "not an address; use unix:PATH of"},
                         {{"ls", "--server", "localhost:8420"}, 2, "; use http://localhost:8420\n"},
                         {{"ls", "--server", "127.0.0.1"}, 2, "; use http://127.0.0.1\n"},
                         {{"ls", "--server", "[::1]:8420"}, 2, "; use http://[::1]:8420\n"},
                         {{"ls", "--server", "/x/c.sock"}, 2, "; use unix:/x/c.sock\n"},
                         {{"ls", "--server", "unix:"}, 2, "use unix:PATH of its socket"},
                         {{"ls", "--server", "a b"}, 2, "use unix:PATH of its socket"},
                         {{"ls", "--server", "https://127.0.0.1:9"}, 7, "use http://127.0.0.1:9\n"},
                         {{"ls", "--server", "unix:/nowhere/c.sock"}, 6, "no such socket"},
                         {{"ls", "--state", "busy"}, 2, "busy"},
                         {{"events", "--kind", "busy"}, 7, "busy"}}) {
    const base::Output output = regatta(each.arguments);
    EXPECT_EQ(output.exit.code, each.code) << base::join(each.arguments, " ") << output.errors;
    EXPECT_THAT(output.errors, HasSubstr(each.message));
    EXPECT_EQ(output.errors.rfind("regatta: ", 0), 0U) << output.errors;
    EXPECT_EQ(output.errors.find('\n'), output.errors.size() - 1) << "one line: " << output.errors;
    EXPECT_EQ(output.text, "");
    EXPECT_THAT(output.errors, Not(HasSubstr("\x1b")));
  }
}

TEST_F(ProcessTest, VersionTellsTheCommit) {
  const base::Output version = regatta({"version"});
  EXPECT_EQ(version.exit.code, 0) << version.errors;
  EXPECT_EQ(version.text, regatta({"--version"}).text);
  const Json json = Json::parse(regatta({"version", "-o", "json"}).text);
  EXPECT_EQ(version.text, json["commit"].is_null() ? "regatta " REGATTA_VERSION "\n"
                                                   : "regatta " REGATTA_VERSION " (commit " +
                                                         json["commit"].get<std::string>() + ")\n");
  const base::Output git =
      base::run({{"sh", "-c", "git -C \"$1\" rev-parse --git-dir", "sh", REGATTA_SOURCE_DIR},
                 {},
                 {},
                 {},
                 false},
                kDeadline);
  const bool checkout = std::filesystem::exists(REGATTA_SOURCE_DIR "/.git") && git.exit.code == 0;
  EXPECT_EQ(json["commit"].is_null(), !checkout) << "known in a checkout, not needed elsewhere";
}

// Help showed the numbers behind the words, for `plan` as bytes that are no text.
TEST_F(ProcessTest, TellsThatItsOutputIsLost) {
  for (const std::string to : {">/dev/full", ">&-"}) {
    const base::Output output =
        base::run({{"/bin/sh", "-c", kRegatta + " version " + to}, {}, {}, {}, false}, kDeadline);
    EXPECT_EQ(output.exit.code, base::meaning(base::Code::Operator).exit_code) << to;
    EXPECT_THAT(output.errors, HasSubstr("did not all get to standard output"));
  }
}

TEST_F(ProcessTest, HelpAndErrorsNameTheWordsOfAnOption) {
  const auto help = [&](const std::string& command) {
    const base::Output output = regatta({command, "--help"});
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    EXPECT_THAT(output.text, Not(HasSubstr("->")));
    EXPECT_THAT(output.text, Not(HasSubstr("{")));
    for (const char c : output.text) {
      EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << output.text;
    }
    return output.text;
  };
  EXPECT_THAT(help("ls"), HasSubstr("--output text|json|yaml|csv|name"));
  EXPECT_THAT(help("plan"), HasSubstr("--output text|explain|json|env|csv|xml|run"));
  EXPECT_THAT(help("topo"), HasSubstr("text|json|nccl-xml|slurm|slurm-block|slurm-yaml"));
  EXPECT_THAT(help("simulate"), HasSubstr("--gantt text|svg"));
  EXPECT_THAT(help("serve"), HasSubstr("--scheduler auto|local|slurm_cli"));
  struct Case {
    std::vector<std::string> arguments;
    const char* message;
  };
  for (const Case& each : std::vector<Case>{
           {{"show", "x", "-o", "csv"}, "--output is 'csv'; use text, json, yaml or name"},
           {{"ls", "--output", "1"}, "--output is '1'; use text, json, yaml, csv or name"},
           {{"plan", "f", "-o", "yaml"}, "use text, explain, json, env, csv, xml or run"},
           {{"serve", "--scheduler", "pbs"}, "--scheduler is 'pbs'; use auto, local or slurm_cli"},
           {{"simulate", "--study", "x"}, "--study is 'x'; use mlperf;"}}) {
    const base::Output output = regatta(each.arguments);
    EXPECT_EQ(output.exit.code, 2);
    EXPECT_THAT(output.errors, HasSubstr(each.message));
  }
}

TEST_F(ProcessTest, HelpOfAnUnknownCommandIsAnError) {
  struct Case {
    std::vector<std::string> arguments;
    const char* message;
  };
  for (const Case& each : std::vector<Case>{
           {{"bogus", "--help"}, "regatta: 'bogus' is not a command; 'regatta --help' lists"},
           {{"--help", "bogus"}, "'bogus' is not a command"},
           {{"bogus", "--version"}, "'bogus' is not a command"},
           {{"wach", "--help"}, "did you mean 'watch'?"},
           {{"ckpt", "verfy", "--help"}, "did you mean 'verify'? 'regatta ckpt --help' lists"}}) {
    const base::Output output = regatta(each.arguments);
    EXPECT_EQ(output.exit.code, 2) << base::join(each.arguments, " ");
    EXPECT_THAT(output.errors, HasSubstr(each.message));
    EXPECT_EQ(output.text, "");
  }
  EXPECT_EQ(regatta({"ckpt", "--help"}).exit.code, 0);
  EXPECT_EQ(regatta({"ckpt", "verify", "--help"}).exit.code, 0);
  EXPECT_EQ(regatta({"--version"}).exit.code, 0);
}

TEST_F(ProcessTest, ServeRefusesPlainly) {
  serve();
  const std::string port = url_.substr(url_.rfind(':') + 1);
  const std::string other = (folder_.path() / "other").string();
  struct Case {
    std::vector<std::string> arguments;
    int code;
    const char* message;
  };
  const base::Path text = folder_.path() / "text";
  tests::write_file(text, "no program");
  for (const Case& each : std::vector<Case>{
           {{"--port", port, "--data", other, "--trainer", kTrainer},
            1,
            "is in use; choose another with --port"},
           {{"--port", "0", "--data", state(), "--trainer", kTrainer},
            5,
            "in use by another controller"},
           {{"--port", "0", "--data", other, "--trainer", kTrainer, "--address", "0.0.0.0"},
            1,
            "only loopback"},
           {{"--port", "0", "--data", other, "--trainer", text.string()}, 1, "--trainer"},
           {{"--port", "0", "--data", text.string(), "--trainer", kTrainer}, 1, "text"}}) {
    std::vector<std::string> arguments{"serve", "--allow-privileged"};
    arguments.insert(arguments.end(), each.arguments.begin(), each.arguments.end());
    const base::Output output = regatta(arguments);
    EXPECT_EQ(output.exit.code, each.code) << output.errors;
    EXPECT_THAT(output.errors, HasSubstr(each.message));
    EXPECT_EQ(output.text, "");
  }
  EXPECT_FALSE(std::filesystem::exists(other)) << "nothing half-made is left";
}

TEST_F(ProcessTest, RootNeedsPermission) {
  const base::Output output =
      regatta({"serve", "--port", "0", "--data", "/proc/nowhere/regatta", "--trainer", kTrainer});
  if (::geteuid() == 0) {
    EXPECT_EQ(output.exit.code, 4);
    EXPECT_THAT(output.errors, HasSubstr("--allow-privileged"));
  } else {
    EXPECT_NE(output.exit.code, 0) << "it cannot start there either";
  }
}

}  // namespace
}  // namespace regatta::orchestrator
