// What a job may leave in its run directory, deliberately or not, against a real `regatta serve`:
// named pipes, links, sockets, devices and directories where files belong.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "orchestrator/cli/client.h"
#include "orchestrator/site/data_directory.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using tests::eventually;
using Json = nlohmann::ordered_json;

const std::string kRegatta = REGATTA_BINARY_DIR "/orchestrator/regatta";
const std::string kTrainer = REGATTA_BINARY_DIR "/tests/orchestrator/fake_trainer";
constexpr const char* kSecret = "secret-of-another-place";
// A loaded machine is slow; what waits for a pipe waits for ever, or is told not to have answered.
constexpr double kAnswerSeconds = 60;
constexpr double kEndSeconds = 50;
constexpr double kClientSeconds = 90;

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Plant {
  std::string name;
  std::function<void(const base::Path&)> put;
};

void put_socket(const base::Path& path) {
  const base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Names of sockets are short, so it is made beside and moved.
  const std::string made = testing::TempDir() + "plant-" + std::to_string(::getpid());
  made.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  std::filesystem::rename(made, path);
}

std::vector<Plant> plants(const base::Path& elsewhere) {
  const auto link = [](const base::Path& target) {
    return [target](const base::Path& path) { std::filesystem::create_symlink(target, path); };
  };
  std::vector<Plant> all{
      {"pipe", [](const base::Path& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); }},
      {"link_to_file", link(elsewhere / "passwd")},
      {"link_to_directory", link(elsewhere)},
      {"link_to_pipe", link(elsewhere / "pipe")},
      {"link_to_itself",
       [](const base::Path& path) { std::filesystem::create_symlink(path.filename(), path); }},
      {"dangling", link(elsewhere / "nothing")},
      {"directory", [](const base::Path& path) { std::filesystem::create_directory(path); }},
      {"socket", put_socket},
  };
  if (::geteuid() != 0) return all;
  for (const unsigned minor_number : {3U, 5U}) {  // null, zero
    all.push_back({"device", [minor_number](const base::Path& path) {
                     ASSERT_EQ(::mknod(path.c_str(), S_IFCHR | 0600U, makedev(1, minor_number)), 0);
                   }});
  }
  return all;
}

// Where it is put, below the run's directory. ATTEMPT stands for the newest attempt's folder.
const std::vector<std::string> kPlaces{
    "attempts/ATTEMPT/journal.jsonl",
    "attempts/ATTEMPT",
    "attempts",
    "run.json",
    "submission.json",
    "state.json",
    "launches",
    "launches/1.json",
    "launches/1.log",
    "plan.json",
    "submit",
    "attempts/ATTEMPT/hang.json",
    "attempts/ATTEMPT/environment.json",
    "checkpoints",
    "checkpoints/removed.jsonl",
    "checkpoints/pins",
    "checkpoints/step-0000000001-0123456789abcdef/manifest.json",
    "exports",
};

class FileAttack : public testing::Test {
 protected:
  FileAttack() {
    std::filesystem::create_directories(folder_.path() / "data");
    std::filesystem::create_directories(elsewhere());
    tests::write_file(elsewhere() / "passwd", std::string(kSecret) + "\n");
    EXPECT_EQ(::mkfifo((elsewhere() / "pipe").c_str(), 0600), 0);
    tests::write_file(folder_.path() / "run.yaml",
                      "name: demo\nsteps: 20\ndata: {path: data}\nbatch: {size: 8}\n");
    script("pause_ms 1");
  }
  ~FileAttack() override {
    if (server_ != 0) {
      ::kill(server_, SIGKILL);
      (void)base::wait_exit(server_);
    }
  }

  base::Path elsewhere() const { return folder_.path() / "elsewhere"; }
  base::Path state() const { return folder_.path() / "state"; }
  std::string socket() const { return "unix:" + site::socket_path(state()).string(); }
  void script(const std::string& text) { tests::write_file(folder_.path() / "data/script", text); }
  std::string log() const {
    return base::posix_file_system().read(folder_.path() / "serve.log", 1 << 26);
  }

  void serve() {
    base::Command command;
    command.arguments = {kRegatta,
                         "serve",
                         "--port",
                         "0",
                         "--data",
                         state().string(),
                         "--trainer",
                         kTrainer,
                         "--parallel",
                         "8",
                         "--allow-privileged"};
    command.output_path = folder_.path() / "serve.log";
    server_ = base::spawn(command);
    ASSERT_TRUE(eventually([&] { return answers(); })) << log();
  }
  bool answers() const {
    try {
      (void)cli::Client({socket()}, kClientSeconds).get("/version");
      return true;
    } catch (const base::Error&) {
      return false;
    }
  }
  std::string submit() {
    base::Command command;
    command.arguments = {kRegatta, "submit", (folder_.path() / "run.yaml").string()};
    command.environment["REGATTA_SERVER"] = socket();
    command.directory = folder_.path();
    const base::Output output = base::run(command, 60);
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    return output.text.substr(0, output.text.find('\n'));
  }
  // A busy machine's files may not have answered once; what hangs never does.
  Json show(const std::string& id) {
    Json run;
    std::string why;
    EXPECT_TRUE(eventually([&] {
      try {
        run = cli::Client({socket()}, kClientSeconds).get("/runs/" + id);
        return true;
      } catch (const base::Error& error) {
        why = error.what();
        return false;
      }
    })) << why;
    return run;
  }
  bool succeeds(const std::string& id) {
    return eventually([&] { return show(id)["state"] == "succeeded"; });
  }

  // Once the controller has written down the end, and visits the run no more.
  static bool settles(const base::Path& run) {
    return eventually([&] {
      try {
        return is_settled(run);
      } catch (const base::Error&) {  // what was listed may have been moved meanwhile
        return false;
      }
    });
  }
  static bool is_settled(const base::Path& run) {
    base::FileSystem& files = base::posix_file_system();
    for (const base::Path& folder : {run, run / "launches"}) {
      for (const std::string& name : files.list(folder)) {
        if (name.find(".tmp-") != std::string::npos) return false;
      }
    }
    return files.exists(run / "state.json") && files.exists(run / "launches" / "1.json") &&
           files.read(run / "launches" / "1.json", 1 << 16).find("\"over\": true") !=
               std::string::npos;
  }
  // The controller may put a file there meanwhile.
  static bool copy_anew(const base::Path& from, const base::Path& to) {
    return eventually([&] {
      std::error_code error;
      std::filesystem::remove_all(to, error);
      if (!error) {
        std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
      }
      return !error;
    });
  }

  // Puts the plant where the place says, in place of whatever is there.
  void plant(const std::string& id, const std::string& place, const Plant& what) {
    const Json run = show(id);
    const base::Path directory = run["directory"].get<std::string>();
    std::string text = place;
    const std::size_t at = text.find("ATTEMPT");
    if (at != std::string::npos) {
      const std::vector<std::string> names = base::posix_file_system().list(directory / "attempts");
      ASSERT_FALSE(names.empty());
      text.replace(at, 7, names.back());
    }
    std::filesystem::create_directories((directory / text).parent_path());
    // Made aside and moved there, as the controller may write its own file anew at any moment.
    const base::Path aside = folder_.path() / "aside" / (directory / text).filename();
    std::filesystem::create_directories(aside.parent_path());
    what.put(aside);
    ASSERT_TRUE(eventually([&] {
      std::error_code error;
      std::filesystem::remove_all(directory / text, error);
      if (!error) std::filesystem::rename(aside, directory / text, error);
      return !error;
    }));
  }
  // Every view answers soon, with the run's own bytes or a sentence.
  void expect_views(const std::string& id) {
    for (const std::string& view :
         {std::string(), std::string("/logs"), std::string("/logs/files"),
          std::string("/logs/search?grep=."), std::string("/metrics"), std::string("/plan"),
          std::string("/environment"), "/speed?against=" + id, "/learning?against=" + id,
          std::string("/explain"), std::string("/checkpoints"), std::string("/checkpoints/latest"),
          std::string("/checkpoints/1/export")}) {
      std::string answer;
      const auto ask = [&] {
        try {
          answer = cli::Client({socket()}, kClientSeconds).get("/runs/" + id + view).dump();
        } catch (const base::Error& error) {
          answer = error.what();
        }
      };
      EXPECT_TRUE(eventually([&] {
        EXPECT_LT(seconds_of(ask), kAnswerSeconds) << view << ": " << answer.substr(0, 300);
        return answer.find("has not answered") == std::string::npos;
      })) << view
          << ": " << answer;
      EXPECT_EQ(answer.find(kSecret), std::string::npos) << view << ": " << answer.substr(0, 300);
      EXPECT_FALSE(answer.empty()) << view;
    }
  }
  void expect_ends() {
    const double took = seconds_of([&] {
      ::kill(server_, SIGTERM);
      std::optional<base::Exit> exit;
      ASSERT_TRUE(eventually([&] { return (exit = base::poll_exit(server_)).has_value(); }));
      EXPECT_EQ(exit->code, 0);
      server_ = 0;
    });
    EXPECT_LT(took, kEndSeconds);
    EXPECT_EQ(log().find(kSecret), std::string::npos);
    EXPECT_EQ(base::posix_file_system().read(elsewhere() / "passwd", 999),
              std::string(kSecret) + "\n");
    EXPECT_FALSE(std::filesystem::exists(elsewhere() / "nothing"));
    EXPECT_EQ(base::posix_file_system().list(elsewhere()),
              (std::vector<std::string>{"passwd", "pipe"}));
  }

  tests::TemporaryDirectory folder_;
  pid_t server_ = 0;
};

// In runs that have ended: the next controller, which reads all of it anew, comes on too.
TEST_F(FileAttack, NothingInAnEndedRunStopsAView) {
  serve();
  const std::string id = submit();
  ASSERT_TRUE(succeeds(id));
  const base::Path directory = show(id)["directory"].get<std::string>();
  const base::Path whole = folder_.path() / "whole";
  ASSERT_TRUE(settles(directory));
  ASSERT_TRUE(copy_anew(directory, whole));
  for (const Plant& what : plants(elsewhere())) {
    for (const std::string& place : kPlaces) {
      SCOPED_TRACE(what.name + " as " + place);
      plant(id, place, what);
      expect_views(id);
      ASSERT_TRUE(copy_anew(whole, directory));
      if (HasFailure()) return;
    }
  }
  expect_ends();
}

// In runs that go on: the others go on, too, and so does the controller.
TEST_F(FileAttack, NothingInARunningRunStopsTheOthers) {
  serve();
  script("hold_at 5");
  const std::vector<Plant> all = plants(elsewhere());
  std::vector<std::string> attacked;
  for (std::size_t i = 0; i < 6; ++i) {
    attacked.push_back(submit());
    ASSERT_TRUE(eventually([&] { return show(attacked.back())["step"] >= 5; }));
  }
  const char* const places[] = {"attempts/ATTEMPT/journal.jsonl",
                                "submission.json",
                                "launches/1.log",
                                "launches",
                                "state.json",
                                "attempts"};
  script("pause_ms 1");
  for (const Plant& what : all) {
    for (std::size_t i = 0; i < attacked.size(); ++i) {
      SCOPED_TRACE(what.name + " as " + places[i]);
      plant(attacked[i], places[i], what);
      expect_views(attacked[i]);
    }
    if (HasFailure()) break;
    EXPECT_TRUE(succeeds(submit())) << what.name;
  }
  tests::write_file(folder_.path() / "data/go", "");
  expect_ends();
}

// Before the first launch: its log and its records.
TEST_F(FileAttack, NoLaunchWritesThroughALink) {
  serve();
  script("hold_at 5");
  for (int i = 0; i < 8; ++i) (void)submit();  // every place is taken
  const std::string waiting = submit();
  const base::Path launches =
      base::Path(show(waiting)["directory"].get<std::string>()) / "launches";
  std::filesystem::create_directory(launches);
  for (const char* name : {"1.log", "2.log", "3.log"}) {
    std::filesystem::create_symlink(elsewhere() / "passwd", launches / name);
  }
  const std::string piped = submit();
  const base::Path pipes = base::Path(show(piped)["directory"].get<std::string>()) / "launches";
  std::filesystem::create_directory(pipes);
  ASSERT_EQ(::mkfifo((pipes / "1.log").c_str(), 0600), 0);
  script("pause_ms 1");
  tests::write_file(folder_.path() / "data/go", "");
  for (const std::string& id : {waiting, piped}) {
    EXPECT_TRUE(eventually([&] { return show(id)["state"] == "failed"; })) << show(id).dump();
  }
  EXPECT_TRUE(succeeds(submit()));
  expect_ends();
}

// A controller that has lost its store reads every run anew.
TEST_F(FileAttack, TheNextControllerStartsWithAllOfIt) {
  serve();
  const std::vector<Plant> all = plants(elsewhere());
  for (std::size_t i = 0; i < kPlaces.size(); ++i) {
    const std::string id = submit();
    ASSERT_TRUE(succeeds(id));
    ASSERT_TRUE(settles(show(id)["directory"].get<std::string>()));
    plant(id, kPlaces[i], all[i % all.size()]);
  }
  const std::string good = submit();
  ASSERT_TRUE(succeeds(good));
  expect_ends();
  for (const char* name : {"store.sqlite", "store.sqlite-wal", "store.sqlite-shm"}) {
    std::filesystem::remove(state() / name);
  }
  serve();
  EXPECT_TRUE(eventually([&] {
    try {
      return show(good)["state"] == "succeeded";
    } catch (const base::Error&) {
      return false;
    }
  }));
  for (const Json& run : cli::Client({socket()}, kClientSeconds).get("/runs")["runs"]) {
    expect_views(run["id"].get<std::string>());
  }
  expect_ends();
}

}  // namespace
}  // namespace regatta::orchestrator
