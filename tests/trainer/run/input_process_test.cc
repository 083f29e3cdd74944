// The real regatta-train with samples made ahead by several threads: the same weights, also where
// ranks exchange samples, are killed and go on, and a run that is stopped ends at once.
#include "tests/trainer/run/run_process.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class InputProcess : public RunProcess {
 protected:
  static std::string input(int workers, int prefetch) {
    return "input: {workers: " + std::to_string(workers) +
           ", prefetch: " + std::to_string(prefetch) + "}\n";
  }
};

TEST_F(InputProcess, RanksThatExchangeSamplesAndShardsHaveTheSameWeights) {
  for (const std::string& kind :
       {std::string("balance: {strategy: exchange, exchange: move}\n"),
        std::string("balance: {strategy: stratified}\nranks_per_node: 2\n"),
        std::string("determinism: {level: elastic, shards: 4}\n")}) {
    std::string expected;
    for (const auto& [workers, prefetch] : {std::pair(1, 1), std::pair(3, 9), std::pair(0, 0)}) {
      const std::string name = "run" + std::to_string(kind.size()) + "-" + std::to_string(workers);
      const base::Path run = make_run(name, on_ranks(2, 30, kind + input(workers, prefetch)));
      ASSERT_EQ(run_to_end(run), 0) << log_of(run);
      if (expected.empty()) expected = final_weights(run);
      EXPECT_TRUE(final_weights(run) == expected) << kind << workers;
      const auto told = records_of<contract::InputRecord>(run);
      ASSERT_FALSE(told.empty()) << kind;
      if (kind.find("exchange") != std::string::npos) {
        EXPECT_EQ(told.back().prefetch, 1);
      }
    }
  }
}

TEST_F(InputProcess, AKilledRunGoesOnWithOtherThreadsAndAStoppedOneEnds) {
  const base::Path whole = make_run("whole", on_ranks(2, 400, input(1, 1)));
  ASSERT_EQ(run_to_end(whole), 0) << log_of(whole);
  const base::Path run = make_run("killed", on_ranks(2, 400, input(4, 20)));
  const pid_t killed = start(run);
  ASSERT_TRUE(wait_for_step(run, killed, 20)) << log_of(run);
  for (const pid_t rank : processes_of(run, 2)) {
    if (rank > 0) ::kill(rank, SIGKILL);
  }
  EXPECT_NE(finish(killed), 0);
  make_run("killed", on_ranks(2, 400, input(2, 3)));
  const pid_t stopped = start(run);
  ASSERT_TRUE(wait_for_step(run, stopped, 60)) << log_of(run);
  const auto begin = std::chrono::steady_clock::now();
  ::kill(stopped, SIGTERM);
  EXPECT_EQ(finish(stopped), static_cast<int>(contract::ExitCode::Stopped)) << log_of(run);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  EXPECT_TRUE(final_weights(run) == final_weights(whole));
}

}  // namespace
}  // namespace regatta::tests
