// Two real controllers on one runs directory.
#include <gmock/gmock.h>
#include <signal.h>

#include "base/process.h"
#include "orchestrator/files/runs_directory_lease.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tests::eventually;

const std::string kRegatta = REGATTA_BINARY_DIR "/orchestrator/regatta";
const std::string kTrainer = REGATTA_BINARY_DIR "/tests/orchestrator/fake_trainer";
constexpr double kDeadline = 100;
constexpr int kNotExecuted = 126;  // of a machine that could not execute it, never of regatta

class LeaseProcessTest : public testing::Test {
 protected:
  ~LeaseProcessTest() override {
    for (const pid_t server : servers_) {
      ::kill(server, SIGKILL);
      (void)base::wait_exit(server);
    }
  }
  base::Command command(const std::string& store) const {
    base::Command command;
    command.arguments = {kRegatta,
                         "serve",
                         "--port",
                         "0",
                         "--data",
                         (folder_.path() / store).string(),
                         "--runs",
                         runs().string(),
                         "--trainer",
                         kTrainer,
                         "--allow-privileged"};
    return command;
  }
  // Each with a store of its own, as on two login nodes.
  pid_t serve(const std::string& store) {
    base::Command start = command(store);
    start.output_path = log(store);
    servers_.push_back(base::spawn(start));
    return servers_.back();
  }
  // What a controller says that ends by itself.
  base::Output refusal(const std::string& store) const {
    base::Output output = base::run(command(store), kDeadline);
    for (int again = 0; output.exit.code == kNotExecuted && again < 3; ++again) {
      output = base::run(command(store), kDeadline);
    }
    return output;
  }
  bool says(const std::string& store, const std::string& text) const {
    return eventually([&] {
      try {
        return base::posix_file_system().read(log(store), 1 << 20).find(text) != std::string::npos;
      } catch (const base::Error&) {
        return false;
      }
    });
  }
  base::Path log(const std::string& store) const { return folder_.path() / (store + ".log"); }
  base::Path runs() const { return folder_.path() / "runs"; }
  base::Path lock() const { return runs() / ".controller.lock"; }
  base::Exit end_of(pid_t server) {
    servers_.erase(std::find(servers_.begin(), servers_.end(), server));
    return base::wait_exit(server);
  }

  tests::TemporaryDirectory folder_;
  std::vector<pid_t> servers_;
};

TEST_F(LeaseProcessTest, SecondControllerOfThisHostIsRefused) {
  const pid_t first = serve("one");
  ASSERT_TRUE(says("one", "listens on"));
  const base::Output second = refusal("two");
  EXPECT_EQ(second.exit.code, 5) << second.errors;
  EXPECT_THAT(second.errors,
              AllOf(HasSubstr("in use by another controller: process " + std::to_string(first)),
                    HasSubstr((folder_.path() / "one").string())));
  // After a kill -9 the next one starts at once, though nothing was given back.
  ::kill(first, SIGKILL);
  (void)end_of(first);
  const auto begin = std::chrono::steady_clock::now();
  serve("two");
  ASSERT_TRUE(says("two", "listens on"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(55));
}

TEST_F(LeaseProcessTest, ControllerOfAnotherHostIsRefusedWhileThatOneLives) {
  std::filesystem::create_directory(runs());
  files::LeaseOptions there;
  there.heartbeat_seconds = 0.2;
  there.host = {"login2", "another machine", "another boot", "pid:[1]"};
  // flock says nothing of another host on NFS without lockd.
  there.calls.flock = [](int, int) { return 0; };
  const files::RunsDirectoryLease lease(runs(), there);
  const base::Output refused = refusal("one");
  EXPECT_EQ(refused.exit.code, 5) << refused.errors;
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("on login2"), HasSubstr("its heartbeat goes on")));
  EXPECT_TRUE(lease.held());
}

TEST_F(LeaseProcessTest, ControllerThatWasTakenOverEndsItself) {
  const pid_t first = serve("one");
  ASSERT_TRUE(says("one", "listens on"));
  files::LeaseRecord other =
      files::own_record({"login2", "another machine", "another boot", "pid:[1]"}, "theirs");
  std::filesystem::remove(lock());
  tests::write_file(lock(), files::lease_text(other, 7));
  EXPECT_EQ(end_of(first).code, 1);
  EXPECT_TRUE(says("one", "was taken over by process"));
  EXPECT_EQ(files::parse_lease(base::posix_file_system().read(lock(), 1 << 20))->id, other.id);
}

TEST_F(LeaseProcessTest, WaitingForAnotherHostEndsWithTerm) {
  std::filesystem::create_directory(runs());
  files::LeaseRecord other =
      files::own_record({"login2", "another machine", "another boot", "pid:[1]"}, "theirs");
  tests::write_file(lock(), files::lease_text(other, 7));
  const pid_t first = serve("one");
  ASSERT_TRUE(says("one", "watching its heartbeat for 1 min 00 s"));
  ::kill(first, SIGTERM);
  EXPECT_EQ(end_of(first).code, 1);
  EXPECT_EQ(files::parse_lease(base::posix_file_system().read(lock(), 1 << 20))->id, other.id);
}

TEST_F(LeaseProcessTest, ControllerThatEndedGivesTheDirectoryBack) {
  const pid_t first = serve("one");
  ASSERT_TRUE(says("one", "listens on"));
  ::kill(first, SIGTERM);
  EXPECT_EQ(end_of(first).code, 0);
  EXPECT_TRUE(files::parse_lease(base::posix_file_system().read(lock(), 1 << 20))->released);
}

}  // namespace
}  // namespace regatta::orchestrator
