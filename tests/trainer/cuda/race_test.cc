// The race check finds what it should, and nothing else; the table of cases beside it
// (race_devices.cc) then runs every operation under it.
#include <gtest/gtest.h>

#include "tests/trainer/cuda/emulation/block.h"
#include "tests/trainer/cuda/race_kernels.h"

namespace regatta::tests {
namespace {

TEST(RaceCheckDeathTest, FindsRacesInEveryOrder) {
  for (const RaceCase& race_case : race_cases()) {
    for (const char* order : {"forward", "reverse", "random:4"}) {
      emulation::set_order(emulation::parse_order(order));
      if (race_case.words.empty()) {
        run_race_case(race_case);
      } else {
        EXPECT_DEATH(run_race_case(race_case), "race: ") << race_case.name << ", " << order;
        EXPECT_DEATH(run_race_case(race_case), race_case.words) << race_case.name << ", " << order;
      }
    }
  }
}

}  // namespace
}  // namespace regatta::tests
