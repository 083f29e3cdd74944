#include "orchestrator/compare/learning_text.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr double kFloat32 = 0x1p-24;

LearnedRun run_of(const char* name, const std::vector<double>& losses) {
  LearnedRun run{name, {}};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    run.curve.steps[static_cast<std::int64_t>(i) + 1] = {losses[i], 1};
  }
  return run;
}

Json learned(const std::vector<double>& a, const std::vector<double>& b,
             const std::vector<LearningCause>& causes = {}, bool are_known = true) {
  const LearnedRun one = run_of("adam-0a1b2c", a), other = run_of("adam-0a1b2d", b);
  return learning_json(one, other, difference_of(one.curve, other.curve, kFloat32), causes,
                       are_known);
}

TEST(LearningText, WhereTheyPartStandsAboveTheLikelyCause) {
  const LearningCause seed{
      "random numbers", "another seed", Reach::Anything, {{"randomness seed", "1", "2"}}};
  EXPECT_EQ(learning_text(learned({7, 6.5, 6}, {7, 6.25, 5.5, 5}, {seed})),
            "LEARNING           STEP  adam-0a1b2c  adam-0a1b2d  APART BY\n"
            "first common step  1     7            7            0\n"
            "other bits         2     6.5          6.25         3.8 %\n"
            "beyond rounding    2     6.5          6.25         3.8 %\n"
            "last common step   3     6            5.5          8.3 %\n"
            "3 steps in common, 1 only in B\n"
            "\n"
            "other bits from step 2 on, at once by more than rounding (3.6e-07)\n"
            "likely causes, by their environments alone:\n"
            "random numbers: another seed\n"
            "    randomness seed: 1 | 2\n"
            "`regatta compare adam-0a1b2c adam-0a1b2d --replay` takes step 2 again and shows which "
            "it is\n");
}

TEST(LearningText, EqualRunsAreSaidToBeEqual) {
  const std::string text = learning_text(learned({7, 6}, {7, 6}));
  EXPECT_THAT(text, EndsWith("\nequal in every bit of loss and gradient norm\n"));
  EXPECT_THAT(text, HasSubstr("other bits         none"));
}

TEST(LearningText, RoundingThatGrowsIsTold) {
  const double close = 7 * (1 + 0x1p-22);
  EXPECT_THAT(learning_text(learned({7, 6}, {close, 6})),
              HasSubstr("other bits from step 1 on, never apart by more than rounding (3.6e-07 at "
                        "the last common step)\n"));
  EXPECT_THAT(learning_text(learned({7, 6}, {close, 6.1})),
              HasSubstr("other bits from step 1 on, by more than rounding from step 2 on (3.6e-07 "
                        "there)\n"));
}

TEST(LearningText, WhatAReplayShowsStandsInPlaceOfWhatIsLikely) {
  const LearningCause seed{
      "random numbers", "another seed", Reach::Anything, {{"randomness seed", "1", "2"}}};
  const LearningCause clip{
      "optimizer", "another clipping", Reach::Later, {{"configuration clip norm", "1", "2"}}};
  Explanation shown;
  shown.step = 2;
  shown.parts = {{ProbePart::Samples, 0, "8 of 8 samples are others", 0}};
  shown.causes = {seed};
  shown.proofs = {"step 2 of B taken again with A's seed is A's, bit for bit"};
  shown.replays = {{"step 2 of A", "the loss of its journal, bit for bit"}};
  Json learning = learned({7, 6}, {7, 5}, {seed, clip});
  learning["replay"] = replay_json(shown);
  EXPECT_THAT(learning_text(learning),
              EndsWith("(3.6e-07)\n"
                       "\n"
                       "step 2, taken again, differs in\n"
                       "    samples: 8 of 8 samples are others\n"
                       "cause, shown by a replay:\n"
                       "random numbers: another seed\n"
                       "    randomness seed: 1 | 2\n"
                       "    step 2 of B taken again with A's seed is A's, bit for bit\n"));
  EXPECT_TRUE(learning["replay"]["unknown"].is_null());
  Explanation none;
  none.unknown = "step 2 of A could not be taken again: no data";
  learning["replay"] = replay_json(none);
  EXPECT_THAT(learning_text(learning), HasSubstr("likely causes, by their environments alone:\n"));
  EXPECT_THAT(learning_text(learning),
              EndsWith("not explained: step 2 of A could not be taken again: no data\n"));
}

TEST(LearningText, WhatIsNotKnownIsSaid) {
  EXPECT_THAT(learning_text(learned({7}, {6})),
              HasSubstr("\ncause not known: nothing that their environments tell\n"));
  EXPECT_THAT(learning_text(learned({7}, {6}, {}, false)),
              HasSubstr("\ncause not known: not both have a fingerprint of what they ran on\n"));
  EXPECT_EQ(learning_text(learned({7}, {})), "no step in common: nothing to compare\n");
}

TEST(LearningText, ALossThatIsNoNumberIsNullInJson) {
  const Json learning = learned({7}, {std::numeric_limits<double>::quiet_NaN()});
  EXPECT_TRUE(learning["last"]["loss"][1].is_null());
  EXPECT_THAT(learning_text(learning), HasSubstr("not finite"));
}

TEST(LearningText, TheBeginningOfALongJournalIsSaidToBeOne) {
  LearnedRun a = run_of("a", {7, 6}), b = run_of("b", {7, 6});
  b.curve.is_cut = true;
  const Json learning = learning_json(a, b, difference_of(a.curve, b.curve, kFloat32), {}, true);
  EXPECT_THAT(learning_text(learning),
              HasSubstr("2 steps in common; of b only the beginning of its journal was read\n"));
}

TEST(LearningText, WhatCannotBeReadIsSaid) {
  LearnedRun a = run_of("a", {7, 6}), b = run_of("b", {7, 5});
  b.curve.damaged = 3;
  b.environment_fault = "/runs/b/environment.json is damaged: \x1b[31m";
  const Json learning = learning_json(a, b, difference_of(a.curve, b.curve, kFloat32), {}, false);
  const std::string text = learning_text(learning);
  EXPECT_THAT(text, HasSubstr("2 steps in common\nthe journal of b has 3 damaged lines, which"));
  EXPECT_THAT(text, HasSubstr("not both have a fingerprint of what they ran on\n"
                              "    /runs/b/environment.json is damaged: \\x1b[31m\n"));
}

// Of several ranks one process sums here, and a journal may have been changed.
TEST(LearningText, AReplayThatIsNotItsJournalsIsSaid) {
  Json learning = learned({7, 6}, {7, 6.5});
  Explanation found;
  found.step = 2;
  found.replays = {{"step 1 of A", "loss 1, in its journal 2"},  // another step
                   {"step 2 of A", "the loss of its journal, bit for bit"},
                   {"step 2 of B", "loss 6.25, in its journal 6.5"},
                   {"B with A's seed", "loss 3, in its journal 4"}};
  found.unknown = "x";
  learning["replay"] = replay_json(found);
  EXPECT_THAT(learning_text(learning),
              EndsWith("\nstep 2 of B, taken again, has loss 6.25, in its journal 6.5\n"
                       "not explained: x\n"));
}

TEST(LearningText, HostileNamesAreOneLineWithoutControlCharacters) {
  const LearningCause cause{"kernels",
                            "another processor",
                            Reach::Rounding,
                            {{"machine\x1b[2J", R"("a\nb")", '"' + std::string(4000, 'x') + '"'}}};
  const std::string text = learning_text(learned({7}, {6}, {cause}));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("a\nb")));
  EXPECT_LT(text.size(), 1000U);
}

}  // namespace
}  // namespace regatta::orchestrator::compare
