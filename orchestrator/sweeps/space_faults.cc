// What contradicts itself in the parameters of a sweep.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/text.h"
#include "orchestrator/sweeps/space.h"

namespace regatta::orchestrator::sweeps {
namespace {

constexpr double kMostWhole = 9007199254740992.0;  // 2^53: up to it doubles hold every integer
constexpr int kMostPoints = 100'000;

using Found = std::optional<SpaceFault>;
using ByKey = std::map<std::string, const SweepParameter*>;

std::string text_of_number(double number) { return as_text(SweepValue(number)); }

std::string list_of(const std::vector<SweepValue>& values) {
  std::vector<std::string> texts;
  for (const SweepValue& each : values) texts.push_back(base::printable(as_text(each)));
  return base::join(texts, ", ");
}

std::optional<SweepValue> repeated(const std::vector<SweepValue>& values) {
  for (auto each = values.begin(); each != values.end(); ++each) {
    const auto same = [&](const SweepValue& other) { return same_value(*each, other); };
    if (std::any_of(values.begin(), each, same)) return *each;
  }
  return std::nullopt;
}

Found fault_of_choices(const SweepParameter& of) {
  if (of.choices.empty()) {
    return SpaceFault{of.key, "values", "", "no values; list at least one"};
  }
  if (const auto twice = repeated(of.choices)) {
    return SpaceFault{of.key, "values", "",
                      "lists " + base::printable(as_text(*twice)) + " twice; remove one"};
  }
  return std::nullopt;
}

Found fault_of_points(const SweepParameter& of) {
  if (of.points == 0) return std::nullopt;
  if (of.points < 2 || of.points > kMostPoints) {
    return SpaceFault{
        of.key, "points", "",
        "is " + std::to_string(of.points) + "; use 2 to " + std::to_string(kMostPoints)};
  }
  const double integers = of.high - of.low + 1;
  if (of.kind == ParameterKind::Integer && of.points > integers) {
    return SpaceFault{of.key, "points", "",
                      "is " + std::to_string(of.points) + ", and the range has " +
                          text_of_number(integers) +
                          " integers; use at most as many, or leave it "
                          "out for all of them"};
  }
  return std::nullopt;
}

Found fault_of_range(const SweepParameter& of) {
  for (const auto& [field, end] : {std::pair("low", of.low), std::pair("high", of.high)}) {
    if (!std::isfinite(end)) return SpaceFault{of.key, field, "", "is not a number"};
    if (of.kind == ParameterKind::Integer &&
        (end != std::floor(end) || std::abs(end) > kMostWhole)) {
      return SpaceFault{
          of.key, field, "",
          "is " + text_of_number(end) + "; an integer lies between whole numbers of at most 2^53"};
    }
  }
  if (of.low >= of.high) {
    return SpaceFault{of.key, "high", "",
                      "is " + text_of_number(of.high) + ", and low is " + text_of_number(of.low) +
                          "; use a high above low"};
  }
  if (!std::isfinite(of.high - of.low)) {
    return SpaceFault{of.key, "high", "", "high - low overflows a double; narrow the range"};
  }
  if (of.logarithmic && of.low <= 0) {
    return SpaceFault{of.key, "low", "",
                      "is " + text_of_number(of.low) + ", which has no logarithm; use more than 0"};
  }
  return fault_of_points(of);
}

Found fault_of_condition(const SweepParameter& of, const SweepCondition& condition,
                         const ByKey& all) {
  const auto fault = [&](const std::string& message) {
    return SpaceFault{of.key, "when", condition.key, message};
  };
  const auto other = all.find(condition.key);
  if (other == all.end()) {
    std::vector<std::string> keys;
    for (const auto& [key, parameter] : all) keys.push_back(key);
    const auto meant = base::closest(condition.key, keys);
    return fault("is not a parameter of the sweep; " +
                 (meant ? "did you mean '" + *meant + "'?" : "name one, or remove the condition"));
  }
  const SweepParameter& parent = *other->second;
  if (condition.values.empty()) return fault("no values; list those that make it active");
  if (const auto twice = repeated(condition.values)) {
    return fault("lists " + base::printable(as_text(*twice)) + " twice; remove one");
  }
  if (parent.kind == ParameterKind::Uniform || parent.kind == ParameterKind::LogUniform) {
    return fault("has a continuous range; conditions need a choice or an integer");
  }
  for (const SweepValue& value : condition.values) {
    if (can_be(parent, value)) continue;
    return fault("is never " + base::printable(as_text(value)) + "; its values are " +
                 (parent.kind == ParameterKind::Choice
                      ? list_of(parent.choices)
                      : "integers from " + text_of_number(parent.low) + " to " +
                            text_of_number(parent.high)));
  }
  return std::nullopt;
}

// A way along conditions from `key` to `key` again; empty: there is none.
std::vector<std::string> circle_from(const std::string& key, const ByKey& all) {
  std::vector<std::pair<std::string, std::vector<std::string>>> open{{key, {key}}};
  std::set<std::string> seen;
  while (!open.empty()) {
    const auto [at, way] = open.back();
    open.pop_back();
    for (const SweepCondition& condition : all.at(at)->when) {
      std::vector<std::string> longer = way;
      longer.push_back(condition.key);
      if (condition.key == key) return longer;
      if (seen.insert(condition.key).second) open.emplace_back(condition.key, std::move(longer));
    }
  }
  return {};
}

// Whether what its conditions ask, and those of the parameters they name, cannot all be. Each of
// them must be active, so for every parameter the sets of values are intersected.
Found fault_of_all_conditions(const SweepParameter& of, const ByKey& all) {
  std::map<std::string, std::vector<SweepValue>> left;
  std::vector<const SweepParameter*> open{&of};
  std::set<std::string> seen;
  while (!open.empty()) {
    const SweepParameter& at = *open.back();
    open.pop_back();
    if (!seen.insert(at.key).second) continue;
    for (const SweepCondition& condition : at.when) {
      const auto [values, is_new] = left.emplace(condition.key, condition.values);
      if (!is_new) {
        std::erase_if(values->second, [&](const SweepValue& each) {
          return std::none_of(condition.values.begin(), condition.values.end(),
                              [&](const SweepValue& other) { return same_value(each, other); });
        });
      }
      if (values->second.empty()) {
        return SpaceFault{
            of.key, "when", "",
            "never active: the conditions here and on the parameters they name ask for "
            "different values of " +
                condition.key + "; change one"};
      }
      open.push_back(all.at(condition.key));
    }
  }
  return std::nullopt;
}

}  // namespace

Found fault_of(const std::vector<SweepParameter>& parameters) {
  ByKey all;
  for (const SweepParameter& each : parameters) {
    if (!all.emplace(each.key, &each).second) {
      return SpaceFault{each.key, "", "", "duplicate; remove one"};
    }
  }
  for (const auto& [key, each] : all) {
    const bool choice = each->kind == ParameterKind::Choice;
    if (auto fault = choice ? fault_of_choices(*each) : fault_of_range(*each)) return fault;
  }
  for (const auto& [key, each] : all) {
    std::set<std::string> named;
    for (const SweepCondition& condition : each->when) {
      if (auto fault = fault_of_condition(*each, condition, all)) return fault;
      if (!named.insert(condition.key).second) {
        return SpaceFault{key, "when", condition.key, "duplicate; remove one"};
      }
    }
  }
  for (const auto& [key, each] : all) {
    const std::vector<std::string> circle = circle_from(key, all);
    if (!circle.empty()) {
      return SpaceFault{
          key, "when", circle.at(1),
          "circular condition (" + base::join(circle, " needs ") + "); remove one of them"};
    }
  }
  for (const auto& [key, each] : all) {
    if (auto fault = fault_of_all_conditions(*each, all)) return fault;
  }
  return std::nullopt;
}

}  // namespace regatta::orchestrator::sweeps
