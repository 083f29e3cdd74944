// What must not come out of the API as it went in: values of slurm.environment, and names that no
// terminal and no page should show.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "orchestrator/api/api.h"
#include "orchestrator/api/shown_config.h"
#include "tests/orchestrator/control/controller_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

const std::string kSecret = "s3cret-0f-w4ndb";

// What logs write to where no log was started is stdout.
class HostileTextTest : public ControllerFixture {
 protected:
  HostileTextTest() : ControllerFixture(1) { connect(); }
  void connect() {
    api_ = std::make_unique<api::Api>(*controller_, base::posix_file_system(), clock_,
                                      api::ApiOptions());
  }
  api::Response ask(const std::string& method, const std::string& path,
                    const std::string& body = "",
                    const std::map<std::string, std::string>& query = {},
                    const std::map<std::string, std::string>& headers = {}) {
    api::Request request;
    request.method = method;
    request.path = "/api/v1/" + path;
    for (const auto& [name, value] : query) request.query.emplace(name, value);
    for (const auto& [name, value] : headers) request.headers.emplace(name, value);
    request.body = body;
    return api_->handle(request);
  }
  static std::string with_secret() {
    return tests::run_file() + "slurm: {environment: {WANDB_API_KEY: " + kSecret +
           ", NCCL_DEBUG: WARN}}\n";
  }
  // A run directory as somebody makes it by hand, with a journal.
  void make_by_hand(const std::string& name) {
    const auto made = trainer::contract::RunDirectory::create(
        base::posix_file_system(), folder_.path() / "runs" / name, tests::run_file());
    tests::JournalAuthor journal(made, clock_.utc_seconds());
    journal.start(1);
    journal.step(2, 1);
  }

  std::unique_ptr<api::Api> api_;
};

TEST_F(HostileTextTest, ValuesOfTheEnvironmentAreInNoAnswerAndNoLog) {
  testing::internal::CaptureStdout();
  const api::Response created = ask("POST", "runs", with_secret(), {}, {{"idempotency-key", "k"}});
  ASSERT_EQ(created.status, 201) << created.body;
  const std::string id = Json::parse(created.body)["id"];
  ticks();
  std::vector<api::Response> answers{created};
  answers.push_back(ask("POST", "runs", with_secret(), {}, {{"idempotency-key", "k"}}));
  EXPECT_EQ(answers.back().status, 200);
  answers.push_back(
      ask("POST", "runs", with_secret() + "seed: 7\n", {}, {{"idempotency-key", "k"}}));
  EXPECT_EQ(answers.back().status, 409);
  // Run files that are wrong near the value, or in it.
  for (const std::string& wrong :
       {"{environment: {A: [" + kSecret + "]}}", "{environment: [A=" + kSecret + "]}",
        "{environment: {A=" + kSecret + "}}", "{environment: {'A=" + kSecret + "': 1}}",
        "{environment: A=" + kSecret + "}", "{environment: {LD_PRELOAD: " + kSecret + "}}",
        "{environment: {A: " + kSecret + ", A: " + kSecret + "}}",
        "{environment: {A: \"" + kSecret + "\\0\"}}", "{environment: {A: " + kSecret + "}, b: 1}",
        "{environment: {A: *" + kSecret + "}}"}) {
    answers.push_back(ask("POST", "runs", tests::run_file() + "slurm: " + wrong + "\n"));
    EXPECT_EQ(answers.back().status, 422) << wrong << answers.back().body;
  }
  for (const std::string view :
       {"", "/metrics", "/logs", "/checkpoints", "/explain", "/plan", "/nothing"}) {
    answers.push_back(ask("GET", "runs/" + id + view));
  }
  answers.push_back(ask("GET", "runs"));
  answers.push_back(ask("GET", "nodes"));
  answers.push_back(ask("GET", "version"));
  answers.push_back(ask("POST", "runs/" + id + "/cancel"));
  for (const api::Response& answer : answers) EXPECT_THAT(answer.body, Not(HasSubstr("s3cret")));
  EXPECT_THAT(testing::internal::GetCapturedStdout(), Not(HasSubstr("s3cret")));

  const Json config = Json::parse(ask("GET", "runs/" + id).body)["config"];
  EXPECT_EQ(config["slurm"]["environment"],
            Json({{"NCCL_DEBUG", nullptr}, {"WANDB_API_KEY", nullptr}}))
      << "the names stay";
  EXPECT_EQ(config["data"]["path"], "/nowhere");
  EXPECT_EQ(ask("GET", "runs/" + id, "", {{"secrets", "true"}}).status, 403) << "over TCP";
  EXPECT_EQ(ask("GET", "runs/" + id, "", {{"secrets", "yes"}}).status, 400);
  EXPECT_THAT(ask("GET", "runs/" + id, "", {{"secrets", "false"}}).body, Not(HasSubstr(kSecret)));
  api::Request owner{"GET", "/api/v1/runs/" + id, {{"secrets", "true"}}, {}, "", {}};
  owner.peer.local_socket = true;
  EXPECT_THAT(api_->handle(owner).body, HasSubstr(kSecret)) << "over the socket, when asked";
  owner.query.clear();
  EXPECT_THAT(api_->handle(owner).body, Not(HasSubstr(kSecret))) << "and only when asked";
  EXPECT_THAT(directory(id).run_json(), HasSubstr(kSecret)) << "the job needs it";
  EXPECT_EQ(ask("POST", "runs", config.dump()).status, 422) << "it is not a run file to submit";
}

TEST_F(HostileTextTest, ConfigurationThatIsNotUnderstoodIsNotShown) {
  EXPECT_EQ(api::shown_config("{\"slurm\": {\"environment\": {\"A\": \"" + kSecret).dump(), "null");
  EXPECT_EQ(api::shown_config("[\"" + kSecret + "\"]").dump(), "null");
  EXPECT_EQ(api::shown_config(R"({"slurm":{"environment":["A=x"]}})").dump(),
            R"({"slurm":{"environment":null}})");
  EXPECT_EQ(api::shown_config(R"({"slurm":{"environment":{"A":{"B":"x"}},"qos":"q"}})").dump(),
            R"({"slurm":{"environment":{"A":null},"qos":"q"}})");
  EXPECT_EQ(api::shown_config(R"({"slurm":null,"seed":1})").dump(), R"({"slurm":null,"seed":1})");
  EXPECT_EQ(
      api::whole_config(R"({"slurm":{"environment":{"A":"x"}}})")["slurm"]["environment"]["A"],
      "x");
}

TEST_F(HostileTextTest, DirectoriesWithNamesThatDeceiveAreLeftOut) {
  const std::vector<std::string> names{
      "latin-\xe9",        "cut-\xe2\x82",          "escape-\x1b[2J", "rtl-\u202Egpj",
      "zero-\u200Bwide",   "line\nbreak",           "tab\tulator",    "c1-\xc2\x9b",
      "overlong-\xc0\xae", "surrogate-\xed\xa0\x80"};
  close();
  for (const std::string& name : names) make_by_hand(name);
  make_by_hand("plain");
  make_by_hand("d\u00E9j\u00E0-vu");  // letters of any language are names
  testing::internal::CaptureStdout();
  open();
  connect();
  for (int i = 0; i < 100; ++i) ticks(1);
  const std::string log = testing::internal::GetCapturedStdout();
  const api::Response list = ask("GET", "runs");
  ASSERT_EQ(list.status, 200);
  std::set<std::string> ids;
  const Json answer = Json::parse(list.body);
  for (const Json& run : answer["runs"]) ids.insert(run["id"]);
  EXPECT_EQ(ids, (std::set<std::string>{"plain", "d\u00E9j\u00E0-vu"}));
  EXPECT_EQ(ask("GET", "runs/d\u00E9j\u00E0-vu").status, 200);
  int told = 0;  // the first few: a thousand such names are no thousand lines
  for (const std::string& name : names) {
    EXPECT_EQ(ask("GET", "runs/" + name).status, 404);
    const std::string line = "cannot adopt " + base::printable(name) + ": its name has bytes";
    const std::size_t first = log.find(line);
    if (first == std::string::npos) continue;
    ++told;
    EXPECT_EQ(log.find(line, first + 1), std::string::npos) << "once";
  }
  EXPECT_GE(told, 3) << log;
  for (const std::string& line : base::split(log, '\n')) EXPECT_EQ(base::printable(line), line);
}

// Names of hosts, devices and checkpoints come from journals, which anything can write.
TEST_F(HostileTextTest, AnswersAreJsonWhateverAJournalSays) {
  const std::string id = submit();
  ticks();
  tests::JournalAuthor journal(directory(id), clock_.utc_seconds());
  const std::string bad = "\xff\xed\xa0\x80\u202E\x1b[2J\xc2";
  trainer::contract::StartRecord start;
  start.device = bad;
  start.host = bad;
  start.hosts = {bad, "node2"};
  journal.start(1, 0, 1234, start);
  journal.step(2, 1);
  trainer::contract::CheckpointRecord saved;
  saved.step = 1;
  saved.name = bad;
  saved.status = "written";
  saved.message = bad;
  journal.add(3, saved);
  trainer::contract::WarningRecord warning;
  warning.message = bad;
  journal.add(4, warning);
  journal.append("{\"type\":\"warning\",\"message\":\"" + bad + "\"}\n");
  ticks();
  std::filesystem::create_directories(directory(id).path() / "checkpoints" / bad);
  for (const std::string view : {"", "/metrics", "/logs", "/checkpoints", "/explain"}) {
    const api::Response answer = ask("GET", "runs/" + id + view);
    EXPECT_EQ(answer.status, 200) << view << answer.body;
    EXPECT_TRUE(Json::accept(answer.body)) << view;
    EXPECT_THAT(answer.body, Not(HasSubstr("\x1b"))) << view;
  }
  const api::Response list = ask("GET", "runs");
  EXPECT_TRUE(Json::accept(list.body));
  EXPECT_TRUE(Json::accept(ask("GET", "nodes").body));
}

}  // namespace
}  // namespace regatta::orchestrator
