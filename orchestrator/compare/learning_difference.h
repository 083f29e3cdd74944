// From which step on two runs learn differently, from the journals of their attempts. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "trainer/contract/journal.h"

namespace regatta::orchestrator::compare {

struct LearnedStep {
  double loss = 0;
  double gradient_norm = 0;

  bool operator==(const LearnedStep&) const = default;
};

// Of each step what was last said of it: an attempt that resumes replaces what it takes again.
struct LearningCurve {
  std::map<std::int64_t, LearnedStep> steps;
  bool is_cut = false;       // only the beginning was read
  std::int64_t damaged = 0;  // lines of the journals that are no records
};

// Of the attempts one after the other, in the order of their numbers.
void add_attempt(const std::vector<trainer::contract::JournalRecord>& records,
                 LearningCurve* curve);

// By what a rounding of activations of that type ("float32", "tf32", "bfloat16", "float16", as
// environment.json names it) changes a loss, relative to it: the unit round-off of float32, in
// which losses are summed; of coarser types a 64th of theirs, since roundings of many tokens
// average out (measured: of float16 1/280, of bfloat16 1/103 of a unit at the first step).
[[nodiscard]] double loss_unit(std::string_view activations);

// How far, relative to the loss, the losses of two runs may be apart at the n-th step that both
// took (1: the first) if nothing but roundings differs: kRoundingsAtFirst units and one more with
// each step, up to kMostRounding. Measured on runs that differ in their instruction set or in a
// library's order of summation: 2 units at most within 300 steps (docs/why-different.md).
inline constexpr double kRoundingsAtFirst = 4, kMostRounding = 0.02;
[[nodiscard]] double rounding_after(std::int64_t steps, double unit);

// A step of both, with what each says of it, A first.
struct ComparedStep {
  std::int64_t step = 0;
  LearnedStep a, b;

  [[nodiscard]] double relative() const;  // |difference of the losses| over the larger one
};

struct LearningDifference {
  std::int64_t common = 0;                  // steps that both took
  std::int64_t only_a = 0, only_b = 0;      // and those that one took
  std::optional<ComparedStep> first, last;  // that both took; none: there is none
  std::optional<ComparedStep> other_bits;   // the first whose loss or gradient differs in any bit
  std::optional<ComparedStep> beyond_rounding;  // the first whose losses differ by more
  double rounding = 0;                          // allowed at that step, or else at the last
  double unit = 0;

  [[nodiscard]] bool is_equal() const { return common > 0 && !other_bits; }
  // Whether both began alike: the first common step has the same bits.
  [[nodiscard]] bool began_alike() const { return !other_bits || other_bits->step > first->step; }
  // All that differed at the first step with other bits is within rounding.
  [[nodiscard]] bool began_with_rounding() const;
};

// `unit`: of the finer one's activations.
[[nodiscard]] LearningDifference difference_of(const LearningCurve& a, const LearningCurve& b,
                                               double unit);

}  // namespace regatta::orchestrator::compare
