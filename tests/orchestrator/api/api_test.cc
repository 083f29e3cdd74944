#include "orchestrator/api/api.h"

#include <gmock/gmock.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "orchestrator/api/server.h"
#include "orchestrator/cli/client.h"
#include "orchestrator/runs/run_records.h"
#include "tests/orchestrator/api/raw_http.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator::api {
namespace {

using testing::HasSubstr, testing::Not;
using tests::JournalAuthor;
using tests::RawAnswer;
using tests::request_text;
using Json = nlohmann::ordered_json;

// The whole stack but the processes, on a real socket.
class ApiTest : public testing::Test {
 protected:
  ApiTest()
      : store_(folder_.path() / "state"),
        controller_(base::posix_file_system(), clock_, store_, scheduler_, options()),
        api_(controller_, base::posix_file_system(), clock_, {page()}),
        server_({"127.0.0.1", 0}, [this](const Request& request) { return api_.handle(request); }) {
    controller_.adopt();
    server_.start();
  }

  control::ControllerOptions options() const {
    control::ControllerOptions settings;
    settings.runs_directory = folder_.path() / "runs";
    return settings;
  }
  base::Path page() const {
    const base::Path path = folder_.path() / "page";
    std::filesystem::create_directories(path);
    tests::write_file(path / "index.html", "<!doctype html><p>page");
    tests::write_file(path / "app-0123456789ab.js", "let x;");
    tests::write_file(folder_.path() / "secret.txt", "secret");
    return path;
  }

  RawAnswer raw(const std::string& bytes) { return tests::send_raw(server_.port(), bytes); }
  RawAnswer get(const std::string& target, const std::string& headers = "") {
    return raw(request_text("GET", target, headers));
  }
  RawAnswer post(const std::string& target, const std::string& body,
                 const std::string& headers = "") {
    return raw(request_text("POST", target, headers, body));
  }
  static Json json(const RawAnswer& answer) { return Json::parse(answer.body, nullptr, false); }
  std::string submit() { return json(post("/api/v1/runs", tests::run_file())).value("id", ""); }
  void ticks(int count = 3) {
    for (int i = 0; i < count; ++i) controller_.tick();
  }
  trainer::contract::RunDirectory directory(const std::string& id) {
    return trainer::contract::RunDirectory::open(base::posix_file_system(),
                                                 store_.run(id)->directory);
  }

  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  tests::ScriptedScheduler scheduler_;
  store::Store store_;
  control::Controller controller_;
  Api api_;
  HttpServer server_;
};

TEST_F(ApiTest, AnswersVersion) {
  const RawAnswer answer = get("/api/v1/version");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json(answer)["scheduler"], "scripted");
  EXPECT_EQ(json(answer)["runs_directory"], (folder_.path() / "runs").lexically_normal().string());
  EXPECT_THAT(answer.headers, HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_THAT(answer.headers, Not(HasSubstr("Access-Control")));
}

TEST_F(ApiTest, SubmitsShowsAndLists) {
  const RawAnswer created = post("/api/v1/runs", tests::run_file());
  ASSERT_EQ(created.status, 201);
  const std::string id = json(created)["id"];
  EXPECT_EQ(created.header("Location"), "/api/v1/runs/" + id);
  const Json run = json(get("/api/v1/runs/" + id));
  EXPECT_EQ(run["state"], "queued");
  EXPECT_EQ(run["config"]["data"]["path"], "/nowhere");
  EXPECT_EQ(run["steps"], 100);
  for (const char* key : {"started_at",
                          "ended_at",
                          "attempt",
                          "value",
                          "target",
                          "target_times_baseline",
                          "baseline",
                          "time_to_accuracy_seconds",
                          "predicted_seconds_to_target",
                          "samples_per_second",
                          "tokens_per_second",
                          "loss",
                          "checkpoint",
                          "error",
                          "ranks",
                          "ranks_per_node",
                          "device",
                          "peak_flops",
                          "mfu",
                          "utilisation",
                          "noise_scale",
                          "noise_scale_low",
                          "efficiency",
                          "goodput",
                          "exposed_share",
                          "imbalance",
                          "moved_bytes",
                          "slowest",
                          "slurm"}) {
    ASSERT_TRUE(run.contains(key)) << key;
    EXPECT_TRUE(run[key].is_null()) << key;
  }
  EXPECT_EQ(json(get("/api/v1/runs"))["runs"].size(), 1U);
  EXPECT_EQ(json(get("/api/v1/runs?state=running"))["runs"].size(), 0U);
  EXPECT_EQ(json(get("/api/v1/runs?state=queued&limit=1"))["runs"].size(), 1U);
}

TEST_F(ApiTest, AQueuedRunHasTheTargetOfItsFile) {
  const auto submitted = [&](const std::string& target) {
    return json(post("/api/v1/runs", tests::run_file() + target));
  };
  const Json by_value = submitted("target: {metric: mlm_loss, value: 6.5}\n");
  EXPECT_EQ(by_value["metric"], "mlm_loss");
  EXPECT_EQ(by_value["target"], 6.5);
  EXPECT_TRUE(by_value["target_times_baseline"].is_null());
  const Json by_guess = submitted("target: {times_baseline: 1.25}\n");
  EXPECT_EQ(by_guess["metric"], "mlm_accuracy");
  EXPECT_TRUE(by_guess["target"].is_null()) << "computed when training starts";
  EXPECT_EQ(by_guess["target_times_baseline"], 1.25);
  const Json rows = json(get("/api/v1/runs"))["runs"];
  EXPECT_EQ(rows[0]["target_times_baseline"], 1.25) << "in lists, too";
  EXPECT_EQ(rows[1]["target"], 6.5);
}

TEST_F(ApiTest, TellsARunAndItsSeries) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(1);
  for (int i = 1; i <= 30; ++i) {
    journal.step(1 + i, i, 1.0);
    if (i % 10 == 0) journal.evaluation(1.5 + i, i, 0.01 * i);
  }
  journal.checkpoint(32, 30);
  trainer::contract::WarningRecord warning;
  warning.message = "hot \x1b[31m<script>";
  journal.add(33, warning);
  ticks();
  const Json run = json(get("/api/v1/runs/" + id));
  EXPECT_EQ(run["state"], "running");
  EXPECT_EQ(run["state_text"], "training, step 30 of 100");
  EXPECT_EQ(run["attempt"]["number"], 1);
  EXPECT_EQ(run["attempt"]["state"], "running");
  EXPECT_EQ(run["attempt"]["process"], 1234);
  EXPECT_EQ(run["step"], 30);
  EXPECT_EQ(run["samples"], 240);
  EXPECT_EQ(run["value"], 0.3);
  EXPECT_EQ(run["target"], 0.5);
  EXPECT_EQ(run["target_reached"], false);
  EXPECT_EQ(run["checkpoint"]["name"], "step-30");
  EXPECT_EQ(run["checkpoint"]["path"],
            run["directory"].get<std::string>() + "/checkpoints/step-30");
  EXPECT_EQ(run["warnings"][0], "hot \x1b[31m<script>") << "JSON carries it; readers escape";
  EXPECT_THAT(get("/api/v1/runs/" + id).body, Not(HasSubstr("\x1b"))) << "but never raw";

  const Json metrics = json(get("/api/v1/runs/" + id + "/metrics"));
  ASSERT_EQ(metrics["steps"].size(), 30U);
  EXPECT_EQ(metrics["steps"][0],
            Json({1, 1.0, 1.0, 1.0, 8.0, 800.0, nullptr, nullptr, nullptr, false}))
      << "one rank has neither goodput nor noise scale";
  EXPECT_TRUE(metrics["timeline"].is_null());
  EXPECT_EQ(run["ranks"], 1);
  EXPECT_EQ(metrics["evaluations"][2], Json({30, 30.5, 0.3, 1.0, false, 0.3, Json::object()}));
  EXPECT_EQ(metrics["checkpoints"][0], Json({30, 31.0, "step-30", "written"}));
  ASSERT_TRUE(metrics["prediction"].is_object()) << "three rising evaluations";
  EXPECT_GT(metrics["prediction"]["seconds"], 30.5);

  const std::string since = std::to_string(metrics["cursor"].get<std::int64_t>());
  journal.step(40, 31, 1.0);
  ticks();
  const Json more = json(get("/api/v1/runs/" + id + "/metrics?since=" + since));
  ASSERT_EQ(more["steps"].size(), 1U);
  EXPECT_EQ(more["steps"][0][0], 31);
  EXPECT_EQ(more["evaluations"].size(), 0U);
  EXPECT_GT(more["cursor"], metrics["cursor"]);
  const Json checkpoints = json(get("/api/v1/runs/" + id + "/checkpoints"));
  EXPECT_EQ(checkpoints["checkpoints"][0]["bytes"], 10);
}

TEST_F(ApiTest, TellsWhatACheckpointCostAndWhyOneFailed) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(1);
  journal.step(2, 10, 1.0);
  trainer::contract::CheckpointRecord saved;
  saved.step = 10;
  saved.name = "step-10";
  saved.status = "written";
  saved.bytes = 1'000'000;
  saved.seconds = 2.5;
  saved.stall_seconds = 0.0625;
  saved.copy_seconds = 0.03125;
  saved.write_seconds = 1.5;
  saved.sync_seconds = 0.5;
  journal.add(3, saved);
  journal.checkpoint(4, 20);  // as before the journal knew
  ticks();
  EXPECT_TRUE(json(get("/api/v1/runs/" + id))["warnings"].empty());

  trainer::contract::CheckpointRecord failed;
  failed.step = 30;
  failed.name = "step-30";
  failed.status = "failed";
  failed.message = "no room: 4096 bytes free, 1000000 needed";
  journal.add(5, failed);
  ticks();
  Json run = json(get("/api/v1/runs/" + id));
  EXPECT_EQ(run["warnings"],
            Json({"checkpoint of step 30: no room: 4096 bytes free, 1000000 needed"}));
  EXPECT_EQ(run["state"], "running") << "training goes on";
  EXPECT_EQ(run["checkpoint"]["name"], "step-20") << "the one before stays the newest";
  failed.name = "step-20";  // written, but then older ones could not be removed
  failed.step = 20;
  failed.message = "older ones stay: <b>\x1b[31m";
  journal.add(6, failed);
  journal.step(7, 31, 1.0);
  ticks();
  run = json(get("/api/v1/runs/" + id));
  EXPECT_EQ(run["warnings"], Json({"2 checkpoints failed; checkpoint of step 20: older ones stay: "
                                   "<b>\x1b[31m"}));
  EXPECT_EQ(run["step"], 31);

  const Json rows = json(get("/api/v1/runs/" + id + "/checkpoints"))["checkpoints"];
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0]["seconds"], 2.5);
  EXPECT_EQ(rows[0]["stall_seconds"], 0.0625);
  EXPECT_EQ(rows[0]["copy_seconds"], 0.03125);
  EXPECT_EQ(rows[0]["write_seconds"], 1.5);
  EXPECT_EQ(rows[0]["sync_seconds"], 0.5);
  EXPECT_EQ(rows[0]["message"], nullptr);
  EXPECT_EQ(rows[1]["status"], "written") << "a later failure does not hide it";
  EXPECT_EQ(rows[1]["stall_seconds"], nullptr);
  EXPECT_EQ(rows[1]["sync_seconds"], nullptr);
  EXPECT_EQ(rows[2]["status"], "failed");
  EXPECT_EQ(rows[2]["message"], "no room: 4096 bytes free, 1000000 needed");
  EXPECT_EQ(rows[3]["status"], "failed");
}

TEST_F(ApiTest, TellsHowTheRanksDo) {
  const std::string id =
      json(post("/api/v1/runs", "ranks: 4\n" + tests::run_file())).value("id", "");
  ticks();
  EXPECT_EQ(scheduler_.launches.size(), 1U) << "one process, whatever the ranks";
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start_four_ranks(1);
  for (int i = 1; i <= 3; ++i) journal.add(1 + i, JournalAuthor::step_of_four_ranks(i));
  journal.add(4.5, trainer::contract::HeartbeatRecord{4, 2, "for\x1b[31mward", 0.25});
  ticks();
  clock_.now += 7;
  const Json run = json(get("/api/v1/runs/" + id));
  EXPECT_EQ(run["config"]["ranks"], 4);
  EXPECT_EQ(run["ranks"], 4);
  EXPECT_EQ(run["ranks_per_node"], 2);
  EXPECT_EQ(run["device"], "cpu: \x1b[1mfour cores");
  EXPECT_EQ(run["peak_flops"], 4e11);
  EXPECT_DOUBLE_EQ(run["mfu"], 0.25);
  EXPECT_DOUBLE_EQ(run["utilisation"], 0.875);
  EXPECT_DOUBLE_EQ(run["noise_scale"], 603);
  EXPECT_DOUBLE_EQ(run["noise_scale_low"], 503);
  EXPECT_DOUBLE_EQ(run["noise_scale_high"], 803);
  EXPECT_DOUBLE_EQ(run["efficiency"], 0.75);
  EXPECT_DOUBLE_EQ(run["goodput"], 12);
  EXPECT_DOUBLE_EQ(run["exposed_share"], 0.1);
  EXPECT_DOUBLE_EQ(run["imbalance"], 1.25);
  EXPECT_DOUBLE_EQ(run["moved_bytes"], 200);
  EXPECT_EQ(run["slowest"]["rank"], 2);
  EXPECT_EQ(run["slowest"]["step"], 4);
  EXPECT_EQ(run["slowest"]["phase"], "for\x1b[31mward");
  EXPECT_EQ(run["slowest"]["phase_seconds"], 0.25);
  EXPECT_NEAR(run["slowest"]["age_seconds"], 2.5, 1e-3);
  EXPECT_THAT(get("/api/v1/runs/" + id).body, Not(HasSubstr("\x1b")));

  const Json metrics = json(get("/api/v1/runs/" + id + "/metrics"));
  EXPECT_EQ(metrics["steps"][1], Json({2, 1.5, 1.0, 0.0, 16.0, 1600.0, 12.0, 602.0, 0.25, false}));
  const Json timeline = metrics["timeline"];
  EXPECT_EQ(timeline["step"], 3);
  EXPECT_EQ(timeline["step_seconds"], 0.5);
  EXPECT_EQ(timeline["backward_seconds"], 0.25);
  EXPECT_EQ(timeline["exposed_seconds"], 0.05);
  EXPECT_EQ(timeline["bucket_count"], 2);
  EXPECT_EQ(timeline["buckets"], Json::parse("[[0, 4096.0, 0.3, 0.35], [1, 1024.0, 0.4, 0.45]]"));
}

TEST_F(ApiTest, SendsAtMost512Buckets) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  trainer::contract::StartRecord start;
  start.ranks = 2;
  journal.start(1, 0, 1, start);
  trainer::contract::StepRecord step = JournalAuthor::step_of_four_ranks(1);
  step.bucket_launched.assign(8000, 0.1);
  step.bucket_finished.assign(8000, 0.2);
  journal.add(2, step);
  ticks();
  const Json timeline = json(get("/api/v1/runs/" + id + "/metrics"))["timeline"];
  EXPECT_EQ(timeline["bucket_count"], 8000);
  EXPECT_LE(timeline["buckets"].size(), 512U);
  EXPECT_GT(timeline["buckets"].size(), 256U);
  EXPECT_EQ(timeline["buckets"].back(), Json::parse("[7999, null, 0.1, 0.2]")) << "the last one";
}

TEST_F(ApiTest, SendsAtMostTwoThousandStepRows) {
  const std::string id = submit();
  ticks();
  JournalAuthor journal(directory(id), clock_.utc_seconds());
  journal.start(0);
  std::string lines;
  for (int i = 1; i <= 5000; ++i) {
    trainer::contract::StepRecord step;
    step.step = i;
    lines += journal.line(i, step);
  }
  journal.append(lines);
  ticks();
  const Json metrics = json(get("/api/v1/runs/" + id + "/metrics"));
  EXPECT_LE(metrics["steps"].size(), 2000U);
  EXPECT_GT(metrics["steps"].size(), 1000U);
  EXPECT_EQ(metrics["steps"].back()[0], 5000);
}

TEST_F(ApiTest, CancelsOnce) {
  const std::string id = submit();
  EXPECT_EQ(post("/api/v1/runs/" + id + "/cancel", "").status, 202);
  ticks();
  EXPECT_EQ(json(get("/api/v1/runs/" + id))["state"], "cancelled");
  EXPECT_EQ(post("/api/v1/runs/" + id + "/cancel", "").status, 200);
  const auto resumed = post("/api/v1/runs/" + id + "/resume", "");
  EXPECT_EQ(resumed.status, 202);
  EXPECT_EQ(json(resumed)["state"], "queued");
  EXPECT_EQ(json(resumed)["ended_at"], nullptr);
}

TEST_F(ApiTest, SendsLogsByOffsetInWholeCharacters) {
  const std::string id = submit();
  EXPECT_EQ(json(get("/api/v1/runs/" + id + "/logs"))["text"], "");
  ticks();
  const base::Path log = runs::launch_log_path(store_.run(id)->directory, 1);
  tests::write_file(log, "one\ntwo \xC3");  // cut within a character
  const Json first = json(get("/api/v1/runs/" + id + "/logs"));
  EXPECT_EQ(first["text"], "one\ntwo ");
  EXPECT_EQ(first["next"], 8);
  tests::write_file(log, "one\ntwo \xC3\xA9\xFF!\n");
  const Json second = json(get("/api/v1/runs/" + id + "/logs?offset=8"));
  EXPECT_EQ(second["text"], "\xC3\xA9\xEF\xBF\xBD!\n") << "what is not UTF-8 is replaced";
  EXPECT_EQ(second["next"], 13) << "in bytes of the file";
  tests::write_file(log, std::string(300 * 1024, 'x'));
  EXPECT_EQ(json(get("/api/v1/runs/" + id + "/logs"))["text"].get<std::string>().size(),
            256U * 1024);
}

TEST_F(ApiTest, IdempotencyKeyMakesOneRun) {
  const std::string key = "Idempotency-Key: abc\r\n";
  const RawAnswer first = post("/api/v1/runs", tests::run_file(), key);
  const RawAnswer second = post("/api/v1/runs", tests::run_file(), key);
  EXPECT_EQ(first.status, 201);
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(json(first)["id"], json(second)["id"]);
  EXPECT_EQ(post("/api/v1/runs", tests::run_file("/other"), key).status, 409);
  EXPECT_EQ(store_.ids().size(), 1U);
}

struct Bad {
  const char* name;
  std::string request;
  int status;
  const char* message;
  friend void PrintTo(const Bad& each, std::ostream* out) { *out << each.name; }
};
class BadRequests : public ApiTest, public testing::WithParamInterface<Bad> {};
TEST_P(BadRequests, AreRefusedInJson) {
  const RawAnswer answer = raw(GetParam().request);
  EXPECT_EQ(answer.status, GetParam().status) << answer.headers << answer.body;
  const Json error = json(answer);
  ASSERT_TRUE(error.is_object() && error.contains("code")) << answer.body;
  EXPECT_THAT(error.value("detail", ""), HasSubstr(GetParam().message));
  EXPECT_TRUE(store_.ids().empty());
  EXPECT_EQ(get("/api/v1/version").status, 200) << "and the server goes on";
}
const std::string kRuns = "POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\n";
INSTANTIATE_TEST_SUITE_P(
    Table, BadRequests,
    testing::Values(
        Bad{"bad_json", request_text("POST", "/api/v1/runs", "", "{\"a\": "), 422, "run file"},
        Bad{"empty_body", request_text("POST", "/api/v1/runs", "", ""), 422, "run file"},
        Bad{"binary_body", request_text("POST", "/api/v1/runs", "", std::string(64, '\0')), 422,
            "run file"},
        Bad{"unknown_key", request_text("POST", "/api/v1/runs", "", "data: {path: /d}\nstep: 3\n"),
            422, "run file:2: step: unknown key; did you mean 'steps'?"},
        Bad{"hostile_key",
            request_text("POST", "/api/v1/runs", "", "data: {path: /d}\n\"\\e[31m<b>\": 1\n"), 422,
            "\\x1b"},
        Bad{"deep_nesting", request_text("POST", "/api/v1/runs", "", std::string(100000, '[')), 422,
            "run file"},
        Bad{"unknown_run", request_text("GET", "/api/v1/runs/none"), 404, "no run 'none'"},
        Bad{"hostile_run", request_text("GET", "/api/v1/runs/%1b%5b31m%00%0d%0a"), 404, "\\x1b"},
        Bad{"dots", request_text("GET", "/api/v1/runs/..%2f..%2fetc/logs"), 404, "no"},
        Bad{"cancel_unknown", request_text("POST", "/api/v1/runs/none/cancel"), 404, "no run"},
        Bad{"unknown_route", request_text("GET", "/api/v1/nothing"), 404, "no such address"},
        Bad{"unknown_view", request_text("GET", "/api/v1/runs/x/secrets"), 404, "no such address"},
        Bad{"other_version", request_text("GET", "/api/v9/runs"), 404, "/api/v1"},
        Bad{"wrong_method", request_text("DELETE", "/api/v1/runs"), 405, "GET, HEAD, POST"},
        Bad{"resume_unknown", request_text("POST", "/api/v1/runs/none/resume"), 404, "no run"},
        Bad{"resume_by_get", request_text("GET", "/api/v1/runs/x/resume"), 405, "POST"},
        Bad{"cancel_by_get", request_text("GET", "/api/v1/runs/x/cancel"), 405, "POST"},
        Bad{"post_to_version", request_text("POST", "/api/v1/version"), 405, "GET"},
        Bad{"post_to_the_page", request_text("POST", "/"), 405, "GET"},
        Bad{"bad_limit", request_text("GET", "/api/v1/runs?limit=0"), 400, "limit is '0'"},
        Bad{"limit_text", request_text("GET", "/api/v1/runs?limit=%1bx"), 400, "\\x1b"},
        Bad{"bad_state", request_text("GET", "/api/v1/runs?state=busy"), 400, "queued"},
        Bad{"unknown_parameter", request_text("GET", "/api/v1/runs?status=failed"), 400,
            "unknown query parameter 'status'; use state, archived, name, text"},
        Bad{"repeated_parameter", request_text("GET", "/api/v1/runs?limit=1&limit=2"), 400,
            "query parameter 'limit' is repeated"},
        Bad{"submission_with_parameter",
            request_text("POST", "/api/v1/runs?dry=true", "", tests::run_file()), 400,
            "unknown query parameter 'dry'"},
        Bad{"no_length", kRuns + "\r\n", 411, "Content-Length"},
        Bad{"chunked", kRuns + "Transfer-Encoding: chunked\r\n\r\n", 411, "Content-Length"},
        Bad{"length_text", kRuns + "Content-Length: many\r\n\r\n", 400, "not a number"},
        Bad{"length_negative", kRuns + "Content-Length: -1\r\n\r\n", 400, "not a number"},
        Bad{"two_lengths", kRuns + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n", 400, "number"},
        Bad{"compressed", kRuns + "Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", 415,
            "uncompressed"},
        Bad{"too_large", request_text("POST", "/api/v1/runs", "", std::string((1 << 20) + 1, 'x')),
            413, "1 MiB"},
        Bad{"long_path", request_text("GET", "/api/v1/" + std::string(2000, 'a')), 414, "1024"},
        Bad{"foreign_host", "GET /api/v1/runs HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "Host"},
        Bad{"foreign_host_with_port", "GET / HTTP/1.1\r\nHost: evil.example:8420\r\n\r\n", 403,
            "Host"},
        Bad{"no_host", "GET /api/v1/runs HTTP/1.1\r\n\r\n", 400, "Host"},
        Bad{"foreign_origin",
            request_text("POST", "/api/v1/runs", "Origin: http://evil.example\r\n",
                         tests::run_file()),
            403, "other sites"},
        Bad{"null_origin",
            request_text("POST", "/api/v1/runs", "Origin: null\r\n", tests::run_file()), 403,
            "other sites"},
        Bad{"header_line_break",
            request_text("POST", "/api/v1/runs",
                         "Idempotency-Key: a\x01"
                         "b\r\n",
                         tests::run_file()),
            400, "control"},
        Bad{"empty_key",
            request_text("POST", "/api/v1/runs", "Idempotency-Key: a b\r\n", tests::run_file()),
            422, "idempotency"}),
    [](const auto& each) { return each.param.name; });

TEST_F(ApiTest, TakesBothNamesOfLoopbackAndItsOwnOrigin) {
  const auto status = [&](const std::string& headers) {
    return raw("GET /api/v1/version HTTP/1.1\r\n" + headers + "\r\n").status;
  };
  EXPECT_EQ(status("Host: 127.0.0.1:8420\r\n"), 200);
  EXPECT_EQ(status("Host: [::1]:8420\r\n"), 200);
  EXPECT_EQ(status("Host: LOCALHOST\r\n"), 200);
  EXPECT_EQ(status("Host: localhost:8420\r\nOrigin: http://localhost:8420\r\n"), 200);
  EXPECT_EQ(status("Host: localhost:8420\r\nOrigin: http://localhost:9999\r\n"), 403);
}

TEST_F(ApiTest, ReadsOneRequestPerConnection) {
  // What follows a refused body must not be taken for a request.
  const std::string smuggled = request_text("POST", "/api/v1/runs", "", tests::run_file());
  const RawAnswer answer = raw(kRuns + "Transfer-Encoding: chunked\r\n\r\n" + smuggled);
  EXPECT_EQ(answer.status == 411 || answer.status == 0, true);
  ticks();
  EXPECT_TRUE(store_.ids().empty());
}

TEST_F(ApiTest, SurvivesRubbish) {
  for (const std::string& bytes : std::vector<std::string>{
           "", "\r\n\r\n", "GET\r\n\r\n", std::string(20000, 'A'), std::string(512, '\0'),
           "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20000, 'y') + "\r\n\r\n",
           "POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n{"}) {
    (void)tests::send_raw(server_.port(), bytes, tests::Afterwards::HangUp);
  }
  EXPECT_EQ(get("/api/v1/version").status, 200);
}

TEST_F(ApiTest, ServesThePage) {
  const RawAnswer index = get("/");
  EXPECT_EQ(index.status, 200);
  EXPECT_EQ(index.body, "<!doctype html><p>page");
  EXPECT_EQ(index.header("Cache-Control"), "no-cache");
  EXPECT_THAT(index.header("Content-Security-Policy"), HasSubstr("default-src 'self'"));
  const std::string tag = index.header("ETag");
  EXPECT_EQ(get("/", "If-None-Match: " + tag + "\r\n").status, 304);
  EXPECT_EQ(get("/", "If-None-Match: \"other\"\r\n").status, 200);
  const RawAnswer script = get("/app-0123456789ab.js");
  EXPECT_THAT(script.header("Cache-Control"), HasSubstr("immutable"));
  EXPECT_THAT(script.header("Content-Type"), HasSubstr("text/javascript"));
  EXPECT_EQ(get("/runs/demo", "Accept: text/html\r\n").body, index.body)
      << "the page routes itself";
  EXPECT_EQ(get("/runs/demo").status, 404);
  EXPECT_EQ(raw(request_text("HEAD", "/")).body, "");
  EXPECT_EQ(get("/", "Accept-Encoding: br, gzip\r\n").body, index.body) << "too small for gzip";
}

TEST_F(ApiTest, PageNeverLeavesItsFolder) {
  for (const std::string path : {"/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt",
                                 "//etc/passwd", "/.hidden", "/a/../../secret.txt"}) {
    const RawAnswer answer = get(path);
    EXPECT_THAT(answer.body, Not(HasSubstr("secret"))) << path;
    EXPECT_EQ(answer.status, 404) << path;
  }
}

TEST_F(ApiTest, ClientSpeaksIt) {
  const cli::Client client({server_.url() + "/"}, 10);
  EXPECT_EQ(client.get("/version")["scheduler"], "scripted");
  const Json run = client.post("/runs", tests::run_file(), {{"Idempotency-Key", "k"}});
  EXPECT_EQ(client.get("/runs/" + cli::path_part(run["id"]))["name"], "demo");
  try {
    (void)client.get("/runs/" + cli::path_part("a%b?c#d&e"));
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::NotFound);
    EXPECT_THAT(error.what(), HasSubstr("a%b?c#d&e"));
  }
}

TEST(HttpServer, SaysWhichPortIsInUse) {
  const auto handler = [](const Request&) { return Response{}; };
  const HttpServer first({"127.0.0.1", 0}, handler);
  try {
    const HttpServer second({"127.0.0.1", first.port()}, handler);
    FAIL() << "two servers on one port";
  } catch (const base::Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "port " + std::to_string(first.port()) + " is in use; choose another with --port");
  }
}

TEST(HttpServer, RefusesAddressesThatAreNotLoopback) {
  const auto handler = [](const Request&) { return Response{}; };
  for (const std::string address : {"0.0.0.0", "::", "192.0.2.1", "example.org", ""}) {
    try {
      const HttpServer server({address, 0}, handler);
      FAIL() << address;
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("only loopback")) << address;
    }
  }
}

TEST(HttpServer, HidesWhatAHandlerThrows) {
  HttpServer server({"127.0.0.1", 0}, [](const Request&) -> Response {
    throw std::runtime_error("a detail for the log");
  });
  server.start();
  const RawAnswer answer = tests::send_raw(server.port(), request_text("GET", "/"));
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, Not(HasSubstr("a detail")));
}

TEST(ClientErrors, ArePlain) {
  const auto error_of = [](const std::string& url) -> std::string {
    try {
      (void)cli::Client({url}, 60).get("/version");
    } catch (const base::Error& error) {
      return std::string(base::meaning(error.code()).name) + ": " + error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of("http://127.0.0.1:1"), HasSubstr("retry: cannot reach the controller"));
  EXPECT_THAT(error_of("ftp://x"), HasSubstr("user: "));
  EXPECT_THAT(error_of("file:///etc/passwd"), HasSubstr("user: "));
  HttpServer other({"127.0.0.1", 0}, [](const Request&) {
    return Response{200, "text/plain", "hello", {}};
  });
  other.start();
  EXPECT_THAT(error_of(other.url()), HasSubstr("not as a controller does"));
}

}  // namespace
}  // namespace regatta::orchestrator::api
