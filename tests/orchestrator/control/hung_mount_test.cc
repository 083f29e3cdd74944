// A file server that answers nobody, below one run of a real `regatta serve`: a FUSE file system
// whose server never reads its questions.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/process.h"
#include "base/unique_fd.h"
#include "orchestrator/cli/client.h"
#include "orchestrator/site/data_directory.h"
#include "tests/orchestrator/support.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator {
namespace {

using tests::eventually;
using Json = nlohmann::ordered_json;

// Waits of a second or two are what a hanging directory is given; of a minute nothing is.
constexpr double kSoon = 40;
constexpr double kClient = 100;

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class HungMount : public testing::Test {
 protected:
  void SetUp() override {
    device_ = base::UniqueFd(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!device_.valid()) {
      const std::string why = "cannot open /dev/fuse: " + std::string(std::strerror(errno));
      GTEST_SKIP() << "SKIPPED, a mount that hangs is not tested: " << why;
    }
    std::filesystem::create_directories(folder_.path() / "data");
    tests::write_file(folder_.path() / "run.yaml",
                      "name: demo\nsteps: 20\ndata: {path: data}\nbatch: {size: 8}\n");
    serve();
  }
  void TearDown() override {
    device_ = base::UniqueFd();  // who waits for an answer gets an error
    if (!mounted_.empty()) ::umount2(mounted_.c_str(), MNT_DETACH);
    if (server_ == 0) return;
    ::kill(server_, SIGKILL);
    (void)base::wait_exit(server_);
  }

  void script(const std::string& text) { tests::write_file(folder_.path() / "data/script", text); }
  std::string socket() const {
    return "unix:" + site::socket_path(folder_.path() / "state").string();
  }
  void serve() {
    base::Command command;
    command.arguments = {REGATTA_BINARY_DIR "/orchestrator/regatta",
                         "serve",
                         "--port",
                         "0",
                         "--data",
                         (folder_.path() / "state").string(),
                         "--trainer",
                         REGATTA_BINARY_DIR "/tests/orchestrator/fake_trainer",
                         "--scheduler",
                         "local",
                         "--parallel",
                         "8",
                         "--stop-grace",
                         "1",
                         "--allow-privileged"};
    command.output_path = folder_.path() / "serve.log";
    server_ = base::spawn(command);
    ASSERT_TRUE(eventually([this] {
      try {
        (void)get("/version");
        return true;
      } catch (const base::Error&) {
        return false;
      }
    }));
  }
  Json get(const std::string& path) { return cli::Client({socket()}, kClient).get(path); }
  std::string submit() {
    base::Command command;
    command.arguments = {REGATTA_BINARY_DIR "/orchestrator/regatta", "submit",
                         (folder_.path() / "run.yaml").string()};
    command.environment["REGATTA_SERVER"] = socket();
    command.directory = folder_.path();
    const base::Output output = base::run(command, 60);
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    return output.text.substr(0, output.text.find('\n'));
  }
  bool becomes(const std::string& id, const std::string& state) {
    return eventually([&] { return get("/runs/" + id)["state"] == state; });
  }
  // From now on everybody who looks into it waits.
  void hang(const base::Path& directory) {
    const std::string options =
        "fd=" + std::to_string(device_.get()) + ",rootmode=40000,user_id=0,group_id=0";
    if (::mount("regatta-test", directory.c_str(), "fuse", 0, options.c_str()) != 0) {
      const std::string why = "cannot mount: " + std::string(std::strerror(errno));
      GTEST_SKIP() << "SKIPPED, a mount that hangs is not tested: " << why;
    }
    mounted_ = directory;
  }

  tests::TemporaryDirectory folder_;
  base::UniqueFd device_;
  base::Path mounted_;
  pid_t server_ = 0;
};

TEST_F(HungMount, CostsTheRunOnItAndNothingElse) {
  if (IsSkipped()) return;
  script("pause_ms 500");
  const std::string dead = submit();
  ASSERT_TRUE(becomes(dead, "running"));
  const base::Path directory = get("/runs/" + dead)["directory"].get<std::string>();
  const Json launch = Json::parse(tests::file_text(directory / "launches" / "1.json"));
  const std::string handle = launch.at("handle");
  const auto trainer = static_cast<pid_t>(std::stol(handle));
  script("pause_ms 1");
  hang(directory / "attempts");
  if (IsSkipped()) return;

  for (int i = 0; i < 3; ++i) {
    std::string live;
    EXPECT_LT(seconds_of([&] { live = submit(); }), kSoon);
    EXPECT_TRUE(becomes(live, "succeeded")) << i;
    EXPECT_LT(seconds_of([&] { (void)get("/version"); }), kSoon);
    EXPECT_LT(seconds_of([&] { (void)get("/runs"); }), kSoon);
    EXPECT_LT(seconds_of([&] { (void)get("/runs/" + live + "/logs"); }), kSoon);
  }
  EXPECT_FALSE(get("/runs/" + dead)["ended_at"].is_string()) << "nobody knows";
  for (const char* view :
       {"/logs/files", "/logs?attempt=1", "/logs/search?grep=a&file=x", "/environment"}) {
    EXPECT_LT(seconds_of([&] { EXPECT_THROW((void)get("/runs/" + dead + view), base::Error); }),
              kSoon + 4)
        << view;
  }
  EXPECT_LT(seconds_of([&] { (void)get("/runs/" + dead + "/explain"); }), kSoon + 1);

  EXPECT_LT(seconds_of([&] {
              (void)cli::Client({socket()}, kClient).post("/runs/" + dead + "/cancel", "", {});
            }),
            kSoon);
  EXPECT_TRUE(eventually([&] { return ::kill(trainer, 0) != 0; })) << "it is ended all the same";
  const std::string last = submit();
  EXPECT_TRUE(becomes(last, "succeeded"));

  EXPECT_LT(seconds_of([this] {
              ::kill(server_, SIGTERM);
              (void)base::wait_exit(server_);
              server_ = 0;
            }),
            kSoon);
}

}  // namespace
}  // namespace regatta::orchestrator
