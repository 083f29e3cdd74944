// Ranks as processes, one of which is stopped or killed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "tests/trainer/ranks/tcp_ranks.h"
#include "trainer/watch/watchdog.h"

namespace regatta::tests {
namespace {

using trainer::watch::Phase;
using trainer::watch::Watchdog;

constexpr int kRanks = 3;

// Writes "+" when it is ready, and then why it tripped. Never returns.
[[noreturn]] void be_rank(Star& star, int rank, int output) {
  const auto say = [&](const std::string& text) {
    static_cast<void>(!::write(output, text.data(), text.size()));
  };
  try {
    trainer::watch::WatchdogOptions options;
    options.least_seconds = 1000;
    options.beat_seconds = 0.1;
    options.silence_seconds = 4;
    const std::unique_ptr<trainer::ranks::TcpHost> host = star.connect(rank);
    Watchdog dog(*host, base::system_clock(), options,
                 [&](const trainer::watch::Trip& trip) {
                   say(trip.why);
                   ::_exit(22);
                 },
                 {});
    host->barrier();
    dog.beat(1, Phase::Forward);
    say("+");
    std::this_thread::sleep_for(std::chrono::seconds(120));
    say("nothing happened");
  } catch (const base::Error& error) {
    say(error.what());
  }
  ::_exit(1);
}

class Processes : public testing::Test {
 protected:
  Processes() {
    for (int rank = 0; rank < kRanks; ++rank) {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) throw base::Error(base::Code::Operator, "no pipe");
      outputs_.emplace_back(ends[0]);
      const base::UniqueFd write(ends[1]);
      const pid_t child = ::fork();
      if (child == 0) be_rank(star_, rank, write.get());
      children_.push_back(child);
    }
    // Only the children listen and know one another from now on.
    star_.listener = base::Listener("127.0.0.1", 0);
    for (const base::UniqueFd& output : outputs_) EXPECT_EQ(read(output, 1), "+");
  }
  ~Processes() override {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }
  // Up to `count` bytes, or what comes until the writer ends.
  static std::string read(const base::UniqueFd& from, std::size_t count) {
    std::string text;
    const base::Deadline deadline = base::deadline_in(100);
    pollfd waiting{from.get(), POLLIN, 0};
    while (text.size() < count && base::poll_until({&waiting, 1}, deadline)) {
      char bytes[512];
      const ssize_t got = ::read(from.get(), bytes, std::min(sizeof bytes, count - text.size()));
      if (got <= 0) break;
      text.append(bytes, static_cast<std::size_t>(got));
    }
    return text;
  }
  void expect_others_trip(int victim, int signal, const std::string& words) {
    ::kill(children_[static_cast<std::size_t>(victim)], signal);
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const std::string text = read(outputs_[static_cast<std::size_t>(rank)], 4000);
      EXPECT_NE(text.find("rank " + std::to_string(victim) + words), std::string::npos)
          << "rank " << rank << ": " << text;
    }
  }

  Star star_{kRanks};
  std::vector<base::UniqueFd> outputs_;
  std::vector<pid_t> children_;
};

using WatchdogProcesses = Processes;
TEST_F(WatchdogProcesses, StoppedRank) { expect_others_trip(2, SIGSTOP, " has not been heard of"); }
TEST_F(WatchdogProcesses, StoppedRankZero) {
  expect_others_trip(0, SIGSTOP, " has not been heard of");
}
TEST_F(WatchdogProcesses, KilledRank) { expect_others_trip(1, SIGKILL, " is gone"); }
TEST_F(WatchdogProcesses, KilledRankZero) { expect_others_trip(0, SIGKILL, " is gone"); }

}  // namespace
}  // namespace regatta::tests
