// The controller in many simulated worlds (world.h). A failure tells its seed, and what happened;
// REGATTA_SEED=N repeats it with its whole story, REGATTA_WORLDS=N lives in as many.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "base/log.h"
#include "tests/orchestrator/simulation/world.h"

namespace regatta::tests::simulation {
namespace {

constexpr std::size_t kToldLines = 60;

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// The story's end, and what was violated; "" when nothing was.
std::string live(std::uint64_t seed, Tally* tally, std::size_t lines) {
  World world(seed);
  std::string outcome;
  try {
    world.live();
  } catch (const std::exception& violation) {
    const std::vector<std::string>& story = world.story();
    const std::size_t first = story.size() > lines ? story.size() - lines : 0;
    for (std::size_t i = first; i < story.size(); ++i) outcome += story[i] + "\n";
    outcome += "REGATTA_SEED=" + std::to_string(seed) + ": " + violation.what();
  }
  tally->add(world.tally());
  return outcome;
}

void live_in(std::uint64_t worlds) {
  const bool repeats = std::getenv("REGATTA_SEED") != nullptr;
  base::start_log("simulation", repeats ? base::LogLevel::Info : base::LogLevel::Error,
                  repeats ? "" : "/dev/null");
  const std::uint64_t first = number_in("REGATTA_SEED", 1);
  const std::uint64_t count = repeats ? 1 : number_in("REGATTA_WORLDS", worlds);
  const auto begin = std::chrono::steady_clock::now();
  Tally tally;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string outcome = live(seed, &tally, repeats ? SIZE_MAX : kToldLines);
    ASSERT_TRUE(outcome.empty()) << outcome;
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  std::printf(
      "%llu worlds in %.1f s: %d kills, %d power losses, %d lost stores, %d jobs, "
      "%lld steps at which one may be killed\n",
      static_cast<unsigned long long>(count), time.count(), tally.kills, tally.power_losses,
      tally.store_losses, tally.jobs, static_cast<long long>(tally.steps));
  if (count < 20) return;
  EXPECT_GT(tally.kills, 5 * static_cast<int>(count)) << "the worlds are too friendly";
  EXPECT_GT(tally.power_losses, static_cast<int>(count));
  EXPECT_GT(tally.store_losses, static_cast<int>(count) / 2);
  EXPECT_GT(tally.jobs, 2 * static_cast<int>(count));
}

// REGATTA_REPETITIONS: percent of the worlds that all tests live in.
TEST(Simulation, HoldsInManyWorlds) {
  live_in(REGATTA_SLOW ? 14 * number_in("REGATTA_REPETITIONS", 10) : 30);
}

TEST(Simulation, TheSameSeedIsTheSameWorld) {
  for (const std::uint64_t seed : {7, 21}) {
    World one(seed), other(seed);
    one.live();
    other.live();
    EXPECT_EQ(one.told(), other.told());
    EXPECT_EQ(one.tally().steps, other.tally().steps);
    EXPECT_GT(one.story().size(), 20U);
  }
}

}  // namespace
}  // namespace regatta::tests::simulation
