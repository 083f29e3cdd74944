#include "orchestrator/compare/learning_difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <variant>

namespace regatta::orchestrator::compare {
namespace {

namespace contract = trainer::contract;

void forget_after(std::int64_t step, LearningCurve* curve) {
  curve->steps.erase(curve->steps.upper_bound(step), curve->steps.end());
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_bits(const LearnedStep& a, const LearnedStep& b) {
  return same_bits(a.loss, b.loss) && same_bits(a.gradient_norm, b.gradient_norm);
}

}  // namespace

void add_attempt(const std::vector<contract::JournalRecord>& records, LearningCurve* curve) {
  for (const contract::JournalRecord& record : records) {
    if (const auto* start = std::get_if<contract::StartRecord>(&record.body)) {
      forget_after(start->first_step, curve);
    } else if (const auto* step = std::get_if<contract::StepRecord>(&record.body)) {
      curve->steps[step->step] = {step->loss, step->gradient_norm};
    } else if (const auto* bad = std::get_if<contract::DivergenceRecord>(&record.body)) {
      if (bad->action != "rollback") continue;
      forget_after(std::max<std::int64_t>(bad->checkpoint_step, 0), curve);
    }
  }
}

double loss_unit(std::string_view activations) {
  constexpr double kAveraged = 1.0 / 64;
  if (activations == "bfloat16") return 0x1p-8 * kAveraged;
  if (activations == "float16" || activations == "tf32") return 0x1p-11 * kAveraged;
  return 0x1p-24;
}

double rounding_after(std::int64_t steps, double unit) {
  return std::min(unit * (kRoundingsAtFirst + static_cast<double>(steps)), kMostRounding);
}

double ComparedStep::relative() const {
  const double larger = std::max(std::abs(a.loss), std::abs(b.loss));
  return larger == 0 ? 0 : std::abs(a.loss - b.loss) / larger;
}

bool LearningDifference::began_with_rounding() const {
  return other_bits && (!beyond_rounding || other_bits->step < beyond_rounding->step);
}

LearningDifference difference_of(const LearningCurve& a, const LearningCurve& b, double unit) {
  LearningDifference all;
  all.unit = unit;
  for (const auto& [step, of_a] : a.steps) {
    const auto found = b.steps.find(step);
    if (found == b.steps.end()) continue;
    const ComparedStep both{step, of_a, found->second};
    ++all.common;
    if (!all.first) all.first = both;
    all.last = both;
    if (!all.other_bits && !same_bits(both.a, both.b)) all.other_bits = both;
    if (all.beyond_rounding) continue;
    all.rounding = rounding_after(all.common, unit);
    const bool is_within = same_bits(of_a.loss, both.b.loss) || both.relative() <= all.rounding;
    if (!is_within) all.beyond_rounding = both;  // also where one of them is no number
  }
  all.only_a = static_cast<std::int64_t>(a.steps.size()) - all.common;
  all.only_b = static_cast<std::int64_t>(b.steps.size()) - all.common;
  return all;
}

}  // namespace regatta::orchestrator::compare
