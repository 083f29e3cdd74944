// The controller in many simulated worlds (world.h). A failure prints its seed;
// REGATTA_SEED=N repeats it, with its story.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "base/log.h"
#include "tests/orchestrator/simulation/world.h"

namespace regatta::tests::simulation {
namespace {

// The story's end, and what was violated; "" when nothing was.
std::string live(std::uint64_t seed, Tally* tally, std::size_t lines = 60) {
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
  const Tally& one = world.tally();
  tally->kills += one.kills;
  tally->power_losses += one.power_losses;
  tally->store_losses += one.store_losses;
  tally->submissions += one.submissions;
  tally->jobs += one.jobs;
  tally->steps += one.steps;
  return outcome;
}

TEST(Simulation, HoldsInManyWorlds) {
  base::start_log("simulation", base::LogLevel::Error);
  const char* const given = std::getenv("REGATTA_SEED");
  const char* const count = std::getenv("REGATTA_WORLDS");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t worlds = given != nullptr   ? 1
                               : count != nullptr ? std::strtoull(count, nullptr, 10)
                                                  : 200;
  const auto begin = std::chrono::steady_clock::now();
  Tally tally;
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) {
    const std::string outcome = live(seed, &tally, given != nullptr ? 1000000 : 60);
    ASSERT_TRUE(outcome.empty()) << outcome;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf(
      "%llu worlds in %.1f s: %d kills, %d power losses, %d lost stores, %d jobs, %lld "
      "steps\n",
      static_cast<unsigned long long>(worlds), seconds, tally.kills, tally.power_losses,
      tally.store_losses, tally.jobs, static_cast<long long>(tally.steps));
}

}  // namespace
}  // namespace regatta::tests::simulation
