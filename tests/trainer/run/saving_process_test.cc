// Runs that save every few steps, killed: one rank, all ranks, and while a checkpoint is being
// written. Whatever happens, the run ends with the bits of an undisturbed one.
#include <cstdio>
#include <random>

#include "checkpoint/store.h"
#include "tests/trainer/run/run_process.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using checkpoint::CheckpointStore;
using checkpoint::Status;

enum class Victims { One, All };

struct Layout {
  const char* name;
  int ranks;
  const char* more;
  int kills;  // full count; 50 in all layouts
};

class SavingProcess : public RunProcess, public testing::WithParamInterface<Layout> {
 protected:
  static constexpr int kSteps = 300;

  static std::string text() {
    std::string text = on_ranks(GetParam().ranks, kSteps, GetParam().more);
    text = with(text, "every: 7", "every: 3");
    // A state of some megabytes: a writer that does something worth interrupting.
    text = with(text, "hidden: 32", "hidden: 128");
    text = with(text, "feed_forward: 64", "feed_forward: 512");
    return text;
  }
  static bool is_being_written(const base::Path& run) {
    base::FileSystem& files = base::posix_file_system();
    for (const checkpoint::Entry& entry : CheckpointStore(files, run / "checkpoints").list()) {
      if (entry.status == Status::Unfinished) return true;
    }
    return false;
  }
  // Until a checkpoint is under way that was not there; false when the process ended before.
  static bool wait_for_writer(const base::Path& run, pid_t process) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(kDeadline);
    while (std::chrono::steady_clock::now() < deadline) {
      if (is_being_written(run)) return true;
      if (!base::process_start_ticks(process)) return false;
    }
    return false;
  }
  static std::vector<pid_t> victims_of(const base::Path& run, pid_t process) {
    if (GetParam().ranks == 1) return {process};
    std::vector<pid_t> ranks;
    for (const pid_t rank : processes_of(run, GetParam().ranks)) {
      if (rank > 0) ranks.push_back(rank);
    }
    return ranks;
  }
};

TEST_P(SavingProcess, KilledAtRandomMomentsEndsWithTheSameBits) {
  const base::Path undisturbed = make_run("undisturbed", text());
  ASSERT_EQ(run_to_end(undisturbed), 0) << log_of(undisturbed);
  const base::Path killed = make_run("killed", text());
  std::mt19937 random(static_cast<unsigned>(GetParam().kills));
  const int kills = repetitions(GetParam().kills);
  int done = 0, all = 0, in_the_writer = 0;
  for (int kill = 0; kill < kills; ++kill) {
    const bool everyone = kill % 2 == 1;
    const bool writing = kill % 3 != 0;
    const pid_t process = start(killed);
    const int step = 1 + kSteps * kill / kills + static_cast<int>(random() % 5U);
    bool reached = wait_for_step(killed, process, step);
    std::vector<pid_t> victims = victims_of(killed, process);  // takes a moment: before the wait
    if (!everyone && !victims.empty()) victims = {victims[random() % victims.size()]};
    if (writing) reached = reached && wait_for_writer(killed, process);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000U));
    for (const pid_t victim : victims) ::kill(victim, SIGKILL);
    const int code = finish(process);
    if (code == 0 || !reached || victims.empty()) continue;
    ++done;
    all += everyone ? 1 : 0;
    in_the_writer += is_being_written(killed) ? 1 : 0;
    if (GetParam().ranks > 1) {
      ASSERT_TRUE(all_gone(killed, GetParam().ranks)) << "a rank lives on";
    }
  }
  std::printf("%s: %d kills while training, %d of all ranks, %d left a checkpoint unfinished\n",
              GetParam().name, done, all, in_the_writer);
  EXPECT_GE(done, std::max(1, kills * 9 / 10)) << "too few were killed while training";
  EXPECT_GE(in_the_writer, kills / 5) << "too few were killed while writing";
  ASSERT_EQ(run_to_end(killed), 0) << log_of(killed);
  EXPECT_TRUE(final_weights(killed) == final_weights(undisturbed)) << "after " << done << " kills";
  int unfinished = 0;
  for (const checkpoint::Entry& entry :
       CheckpointStore(base::posix_file_system(), killed / "checkpoints").list()) {
    unfinished += entry.status == Status::Valid ? 0 : 1;
  }
  EXPECT_EQ(unfinished, 0) << "what kills left unfinished is removed by later retention";
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, SavingProcess,
    testing::Values(Layout{"one rank", 1, "", 16}, Layout{"two ranks", 2, "", 17},
                    Layout{"two ranks, sharded", 2, "sharding: {optimizer: true}\n", 17}),
    [](const auto& layout) { return "Layout" + std::to_string(layout.index); });

}  // namespace
}  // namespace regatta::tests
