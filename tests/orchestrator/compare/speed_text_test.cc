#include "orchestrator/compare/speed_text.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/orchestrator/compare/made_journal.h"

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;

Json compared(const MadeSteps& b, const std::vector<LikelyCause>& causes = {}) {
  const ComparedAttempt one{"fast-0a1b2c", 1, account_of(made_journal({}), {})};
  const ComparedAttempt other{"slow-0a1b2d", 3, account_of(made_journal(b), {})};
  return speed_json(one, other, difference_of(one.account, other.account), causes);
}

TEST(SpeedText, PartsStandAboveTheirSumAndCausesBelow) {
  MadeSteps slow;
  slow.backward = 0.028;
  slow.data = 0.0004;
  const LikelyCause cause{Part::Compute,
                          0.001,
                          "another instruction set",
                          {{"numerics instruction_set", R"("avx512")", R"("avx2")"},
                           {"machine caches", "null", "[1,2]"}}};
  EXPECT_EQ(speed_text(compared(slow, {cause})),
            "SPEED        ATTEMPT  STEPS     SAMPLES/S\n"
            "fast-0a1b2c  1        13 to 60  235.3\n"
            "slow-0a1b2d  3        13 to 60  188.7\n"
            "\n"
            "MS OF A SAMPLE  A      B      B - A\n"
            "compute         3.750  4.750  +1.000\n"
            "optimizer       0.500  0.500  +0.000\n"
            "input           0.000  0.050  +0.050\n"
            "all             4.250  5.300  +1.050\n"
            "\n"
            "a sample takes B 24.7 % longer than A:\n"
            "+1.000 ms compute: another instruction set\n"
            "    numerics instruction_set: avx512 | avx2\n"
            "    machine caches: none | [1,2]\n");
}

TEST(SpeedText, EquallyFastIsSaid) {
  EXPECT_THAT(
      speed_text(compared({})),
      testing::EndsWith("\nequally fast: a difference of 0.0 % is within what steps differ by\n"));
}

TEST(SpeedText, FactsAreOneLineWithoutControlCharacters) {
  MadeSteps slow;
  slow.backward = 0.028;
  const LikelyCause cause{Part::Compute,
                          0.001,
                          "another build",
                          {{"build\x1b[2J", '"' + std::string(4000, 'x') + '"', R"("\nb")"}}};
  const std::string text = speed_text(compared(slow, {cause}));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("\x1b")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("\nb")));
  EXPECT_LT(text.size(), 600U);
}

}  // namespace
}  // namespace regatta::orchestrator::compare
