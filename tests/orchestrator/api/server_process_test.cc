// The attacks on the server, against the real `regatta serve`.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <set>
#include <thread>

#include "base/process.h"
#include "base/text.h"
#include "tests/orchestrator/api/raw_http.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using tests::request_text;

class ServedTest : public testing::Test {
 protected:
  ServedTest() {
    base::Command command;
    command.arguments = {REGATTA_BINARY_DIR "/orchestrator/regatta",
                         "serve",
                         "--port",
                         "0",
                         "--data",
                         state_.string(),
                         "--trainer",
                         REGATTA_BINARY_DIR "/tests/orchestrator/fake_trainer",
                         "--scheduler",
                         "local",
                         "--allow-privileged"};
    command.output_path = folder_.path() / "serve.log";
    process_ = base::spawn(command);
    tests::eventually([&] {
      for (const std::string& line : base::split(read(command.output_path), '\n')) {
        if (line.rfind("http://", 0) == 0) port_ = std::atoi(line.c_str() + line.rfind(':') + 1);
      }
      return port_ != 0;
    });
    authorization_ =
        "Authorization: Bearer " + base::split(read(state_ / "token"), '\n')[0] + "\r\n";
  }
  ~ServedTest() override {
    ::kill(process_, SIGKILL);
    (void)base::wait_exit(process_);
  }

  static std::string read(const base::Path& path) {
    try {
      return base::posix_file_system().read(path, 1 << 24);
    } catch (const base::Error&) {
      return "";
    }
  }
  base::UniqueFd over_tcp(const std::string& bytes) const {
    base::UniqueFd fd = tests::connect_tcp(port_);
    tests::send_bytes(fd, bytes);
    return fd;
  }
  base::UniqueFd over_unix(const std::string& bytes) const {
    base::UniqueFd fd = tests::connect_unix((state_ / "controller.sock").string());
    tests::send_bytes(fd, bytes);
    return fd;
  }
  // Seconds until the version comes over TCP and over the socket, the longer of both; 1000 without.
  double seconds_to_version() const {
    double longest = 0;
    for (const bool local : {false, true}) {
      const auto begin = std::chrono::steady_clock::now();
      const std::string request = request_text("GET", "/api/v1/version", authorization_);
      const std::string answer = tests::receive_all(local ? over_unix(request) : over_tcp(request));
      if (answer.rfind("HTTP/1.1 200 ", 0) != 0) return 1000;
      longest = std::max(
          longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return longest;
  }

  tests::TemporaryDirectory folder_;
  base::Path state_ = folder_.path() / "state";
  pid_t process_ = 0;
  int port_ = 0;
  std::string authorization_;
};

// `Range: bytes=0-99999` on an answer of 84 bytes gave 100,000 bytes of the controller's memory.
TEST_F(ServedTest, NoRouteSendsAByteThatIsNotItsAnswers) {
  ASSERT_NE(port_, 0);
  const std::string run = "name: demo\nsteps: 5\ndata: {path: /nowhere}\nbatch: {size: 8}\n";
  const std::string created =
      tests::receive_all(over_unix(request_text("POST", "/api/v1/runs", "", run)));
  ASSERT_THAT(created, HasSubstr("HTTP/1.1 201 "));
  const std::string key = "Location: ";
  const std::size_t at = created.find(key) + key.size();
  const std::string location = created.substr(at, created.find("\r\n", at) - at);
  std::vector<std::string> targets{"/",
                                   "/index.html",
                                   "/none",
                                   "/api/v1/version",
                                   "/api/v1/runs",
                                   "/api/v1/nodes",
                                   "/api/v1/none",
                                   "/api/v1/runs/none",
                                   "/api/v1/runs?limit=x",
                                   "/api/v1/session",
                                   "/api/v1/tickets",
                                   "/" + std::string(2000, 'a'),
                                   location};
  for (const char* view :
       {"/metrics", "/logs", "/logs/files", "/explain", "/plan", "/environment", "/speed?against=a",
        "/learning?against=a", "/checkpoints", "/checkpoints/latest", "/checkpoints/latest/export",
        "/checkpoints/latest/verify", "/checkpoints/latest/pin", "/checkpoints/latest/unpin",
        "/checkpoints/gc", "/cancel", "/resume", "/archive"}) {
    targets.push_back(location + view);
  }
  std::set<std::string> seen;  // what was answered, so that these are not all refusals
  for (const std::string range : {"", "Range: bytes=0-99999\r\n", "Range: bytes=-5\r\n",
                                  "Range: bytes=0-1,5-99999\r\nIf-Range: \"x\"\r\n"}) {
    for (const std::string& target : targets) {
      for (const std::string method : {"GET", "HEAD", "POST", "DELETE", "TRACE", "BREW"}) {
        if (method == "DELETE" && target == location) continue;  // at the end
        for (const std::string more : {"", "Origin: http://evil\r\n", "Content-Encoding: br\r\n"}) {
          const std::string request =
              request_text(method, target, authorization_ + range + more, "{");
          const std::string answer = tests::receive_all(over_tcp(request));
          ASSERT_EQ(tests::flaw_of(answer, method == "HEAD"), "") << request << answer;
          if (more.empty()) seen.insert(method + target + answer.substr(8, 4));
        }
        const std::string bare = request_text(method, target, range);
        EXPECT_EQ(tests::flaw_of(tests::receive_all(over_tcp(bare)), method == "HEAD"), "") << bare;
        EXPECT_EQ(tests::flaw_of(tests::receive_all(over_unix(bare)), method == "HEAD"), "")
            << bare;
      }
    }
    const std::string removal =
        request_text("DELETE", location + "?dry_run=true", authorization_ + range);
    EXPECT_EQ(tests::flaw_of(tests::receive_all(over_tcp(removal)), false), "") << removal;
  }
  for (const char* view : {"", "/metrics", "/logs", "/logs/files", "/explain", "/checkpoints"}) {
    EXPECT_EQ(seen.count("GET" + location + view + " 200"), 1U) << view;
  }
  // It may have been resumed just now.
  std::string removed;
  for (int tries = 0; tries < 200 && removed.rfind("HTTP/1.1 200 ", 0) != 0; ++tries) {
    (void)tests::receive_all(over_unix(request_text("POST", location + "/cancel", "")));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    removed = tests::receive_all(
        over_tcp(request_text("DELETE", location, authorization_ + "Range: bytes=0-99999\r\n")));
    ASSERT_EQ(tests::flaw_of(removed, false), "") << removed;
  }
  EXPECT_THAT(removed, testing::StartsWith("HTTP/1.1 200 "));
}

// Sixteen of them had the API silent for a minute.
TEST_F(ServedTest, SlowConnectionsSilenceNobody) {
  ASSERT_NE(port_, 0);
  for (const int count : {16, 200, 400}) {
    std::vector<base::UniqueFd> slow;
    for (int i = 0; i < count; ++i) slow.push_back(over_tcp("G"));
    double longest = 0;
    for (const char byte : std::string("ET / HTT")) {
      for (const base::UniqueFd& fd : slow) tests::send_bytes(fd, std::string(1, byte));
      longest = std::max(longest, seconds_to_version());
    }
    EXPECT_LT(longest, 40) << count;
    RecordProperty("milliseconds_among_" + std::to_string(count), static_cast<int>(longest * 1000));
    std::printf("%d slow connections: the version within %.1f ms\n", count, longest * 1000);
  }
}

}  // namespace
}  // namespace regatta::orchestrator
