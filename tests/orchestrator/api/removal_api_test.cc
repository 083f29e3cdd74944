// DELETE /runs/{id}, POST /runs/{id}/archive, POST /runs?after= and the commands for them.
#include <nlohmann/json.hpp>

#include "checkpoint/pins.h"
#include "tests/orchestrator/checkpoints/ckpt_fixture.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using tests::RawAnswer;
using tests::request_text;

class RemovalTest : public CkptTest {
 protected:
  RemovalTest() {
    controller_.adopt();
    write(10);
    controller_.cancel(id_);
    ticks();
    EXPECT_EQ(store_.run(id_)->state, runs::RunState::Cancelled);
  }
  void ticks() {
    for (int i = 0; i < 4; ++i) controller_.tick();
  }
  RawAnswer send(const std::string& method, const std::string& target,
                 const std::string& headers = "") {
    return tests::send_raw(server_.port(), request_text(method, target, headers));
  }
  std::string run_address() const { return "/api/v1/runs/" + id_; }
  static std::string message(const RawAnswer& answer) {
    return Json::parse(answer.body, nullptr, false)["detail"];
  }
  base::Output regatta(std::vector<std::string> arguments) {
    base::Command command;
    command.arguments = {REGATTA_BINARY_DIR "/orchestrator/regatta"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.environment["REGATTA_SERVER"] = server_.url();
    command.directory = folder_.path();
    return base::run(command, 120);
  }
};

TEST_F(RemovalTest, DeletesOnce) {
  const RawAnswer dry = send("DELETE", run_address() + "?dry_run=true");
  ASSERT_EQ(dry.status, 200) << dry.body;
  const Json said = Json::parse(dry.body);
  EXPECT_EQ(said["dry_run"], true);
  EXPECT_GT(said["freed"]["checkpoints"], 0);
  EXPECT_TRUE(std::filesystem::exists(run_ / "run.json"));
  const RawAnswer gone = send("DELETE", run_address());
  EXPECT_EQ(gone.status, 200);
  EXPECT_EQ(Json::parse(gone.body)["bytes"], said["bytes"]);
  EXPECT_EQ(Json::parse(gone.body)["left"], nullptr);
  EXPECT_FALSE(std::filesystem::exists(run_));
  EXPECT_EQ(send("DELETE", run_address()).status, 404);
  EXPECT_EQ(get(run_address()).status, 404);
  ticks();
  EXPECT_EQ(Json::parse(get("/api/v1/runs?archived=all").body)["runs"].size(), 0U);
}

TEST_F(RemovalTest, RefusesOverHttp) {
  checkpoint::pin(base::posix_file_system(), checkpoints(), write(20), {"", 1});
  const std::string open = Json::parse(post("/api/v1/runs", tests::run_file()).body)["id"];
  struct Bad {
    std::string method, target;
    int status;
    std::string words;
  };
  for (const Bad& each : {
           Bad{"DELETE", run_address(), 409, "has pinned checkpoints: step-0000000020"},
           Bad{"DELETE", run_address() + "?dry_run=true", 409, "--pinned-too"},
           Bad{"DELETE", run_address() + "?dry_run=perhaps", 400, "use true or false"},
           Bad{"DELETE", run_address() + "?pinned_too=2", 400, "use true or false"},
           Bad{"DELETE", run_address() + "?force=true", 400, "use dry_run, pinned_too"},
           Bad{"DELETE", "/api/v1/runs/" + open, 409, "`regatta cancel " + open + "`"},
           Bad{"DELETE", "/api/v1/runs/nobody", 404, "no run 'nobody'"},
           Bad{"DELETE", "/api/v1/runs", 405, "GET, HEAD, POST"},
           Bad{"DELETE", run_address() + "/cancel", 405, "POST"},
           Bad{"GET", run_address() + "/archive", 405, "POST"},
           Bad{"PUT", run_address(), 405, "GET, HEAD, DELETE"},
           Bad{"POST", "/api/v1/runs/" + open + "/archive", 409, "is not over"},
           Bad{"POST", "/api/v1/runs/nobody/archive", 404, "no run"},
           Bad{"POST", run_address() + "/archive?keep=all", 400, "use dry_run"},
           Bad{"POST", run_address() + "/archive?dry_run=x", 400, "use true or false"},
           Bad{"GET", "/api/v1/runs?archived=some", 400, "one of false, true, all"},
       }) {
    const RawAnswer answer = send(each.method, each.target);
    EXPECT_EQ(answer.status, each.status) << each.method << " " << each.target << answer.body;
    EXPECT_THAT(message(answer), HasSubstr(each.words)) << each.target;
  }
  EXPECT_EQ(send("DELETE", run_address() + "?pinned_too=true", "Origin: http://evil\r\n").status,
            403);
  EXPECT_TRUE(std::filesystem::exists(run_ / "run.json"));
  EXPECT_EQ(send("DELETE", run_address() + "?pinned_too=true").status, 200);
}

TEST_F(RemovalTest, SubmitsAfterOthers) {
  const std::string open = Json::parse(post("/api/v1/runs", tests::run_file()).body)["id"];
  const RawAnswer made = post("/api/v1/runs?after=" + id_ + "," + open, tests::run_file());
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(Json::parse(made.body)["after"], Json::array({id_, open}));
  const std::string last = Json::parse(made.body)["id"];
  ticks();
  const Json shown = Json::parse(get("/api/v1/runs/" + last).body);
  EXPECT_EQ(shown["state"], "queued");
  EXPECT_THAT(shown["state_text"].get<std::string>(),
              StartsWith("waits for " + id_ + ", which was cancelled"));
  const Json explained = Json::parse(get("/api/v1/runs/" + last + "/explain").body);
  EXPECT_EQ(explained["waiting"]["category"], "dependency");
  EXPECT_THAT(explained["waiting"]["action"].get<std::string>(),
              HasSubstr("regatta resume " + id_));
  EXPECT_EQ(message(send("DELETE", run_address())), "run " + id_ + " is waited for by " + last +
                                                        "; `regatta cancel " + last +
                                                        "` first, or let it begin");
  EXPECT_EQ(post("/api/v1/runs?after=nobody", tests::run_file()).status, 404);
  EXPECT_EQ(post("/api/v1/runs?after=" + id_ + ",", tests::run_file()).status, 400);
  EXPECT_EQ(post("/api/v1/runs?after=", tests::run_file()).status, 400);
  EXPECT_EQ(Json::parse(get("/api/v1/runs").body)["runs"].size(), 3U);

  tests::write_file(folder_.path() / "run.yaml", tests::run_file());
  const base::Output output =
      regatta({"submit", "run.yaml", "--after", open, "--after", last, "-o", "json"});
  EXPECT_EQ(output.exit.code, 0) << output.errors;
  EXPECT_EQ(Json::parse(output.text)["after"], Json::array({open, last}));
  ticks();
  EXPECT_THAT(regatta({"ls"}).text, HasSubstr("waits for " + open + ", which is starting"));
  EXPECT_THAT(regatta({"explain", last}).text, HasSubstr("now     it waits for " + id_));
  EXPECT_EQ(regatta({"submit", "run.yaml", "--after", "nobody"}).exit.code, 3);
}

TEST_F(RemovalTest, RmAsksOrIsToldSo) {
  const base::Output silent = regatta({"rm", id_});
  EXPECT_EQ(silent.exit.code, 2);
  EXPECT_THAT(silent.errors, HasSubstr("add --yes"));
  const base::Output dry = regatta({"rm", id_, "--dry-run"});
  EXPECT_EQ(dry.exit.code, 0) << dry.errors;
  EXPECT_THAT(dry.text, StartsWith(id_ + ": would free "));
  EXPECT_THAT(dry.text, HasSubstr("checkpoints "));
  // Of several nothing goes where one is refused.
  const std::string open = Json::parse(post("/api/v1/runs", tests::run_file()).body)["id"];
  const base::Output both = regatta({"rm", id_, open, "--yes"});
  EXPECT_EQ(both.exit.code, 5);
  EXPECT_THAT(both.errors, HasSubstr("is not over"));
  EXPECT_TRUE(std::filesystem::exists(run_));
  checkpoint::pin(base::posix_file_system(), checkpoints(), write(20), {"", 1});
  const base::Output pinned = regatta({"rm", id_, "-y"});
  EXPECT_EQ(pinned.exit.code, 5);
  EXPECT_THAT(pinned.errors, HasSubstr("has pinned checkpoints"));
  EXPECT_TRUE(std::filesystem::exists(run_));
  const base::Output done = regatta({"rm", id_, "-y", "--pinned-too"});
  EXPECT_EQ(done.exit.code, 0) << done.errors;
  EXPECT_THAT(done.text, StartsWith(id_ + ": freed "));
  EXPECT_FALSE(std::filesystem::exists(run_));
  EXPECT_EQ(regatta({"rm", id_, "-y"}).exit.code, 3);
}

TEST_F(RemovalTest, ArchivesAndListsOnDemand) {
  write(20, 0.9);
  write(30);
  const base::Output dry = regatta({"archive", id_, "--dry-run"});
  EXPECT_EQ(dry.exit.code, 0) << dry.errors;
  EXPECT_THAT(dry.text, HasSubstr("(1 checkpoint, "));
  const Json done = Json::parse(post(run_address() + "/archive", "").body);
  EXPECT_EQ(done["archived"], true);
  EXPECT_EQ(done["kept"].size(), 2U);
  ASSERT_EQ(done["removed"].size(), 1U);
  EXPECT_EQ(done["removed"][0]["step"], 10);
  EXPECT_EQ(done["bytes"], done["removed"][0]["bytes"]);
  EXPECT_EQ(Json::parse(get(run_address()).body)["archived"], true);
  EXPECT_EQ(Json::parse(get("/api/v1/runs").body)["runs"].size(), 0U);
  EXPECT_EQ(Json::parse(get("/api/v1/runs?archived=true").body)["runs"].size(), 1U);
  EXPECT_EQ(regatta({"ls"}).text, "");
  EXPECT_THAT(regatta({"ls", "--archived"}).text, HasSubstr("archived"));
  EXPECT_THAT(regatta({"ls", "--all", "--state", "cancelled"}).text, HasSubstr(id_));
  const std::string open = Json::parse(post("/api/v1/runs", tests::run_file()).body)["id"];
  const auto listed = [&](const std::string& option, const std::string& run) {
    return regatta({"ls", option}).text.find(run) != std::string::npos;
  };
  EXPECT_TRUE(listed("--archived", id_) && !listed("--archived", open));
  EXPECT_TRUE(listed("--all", id_) && listed("--all", open));
}

}  // namespace
}  // namespace regatta::orchestrator
