#include "orchestrator/sweeps/space.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::sweeps {

SweepValue value_of(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto whole = base::parse_integer(text)) return *whole;
  const auto number = base::parse_number(text);
  if (number && std::isfinite(*number)) return *number;
  return text;
}

std::string as_text(const SweepValue& value) {
  return std::visit(
      [](const auto& each) -> std::string {
        using Each = std::decay_t<decltype(each)>;
        if constexpr (std::is_same_v<Each, std::string>) {
          return each;
        } else if constexpr (std::is_same_v<Each, bool>) {
          return each ? "true" : "false";
        } else {
          char text[32];
          const auto [end, error] = std::to_chars(text, text + sizeof text, each);
          base::check(error == std::errc{}, "32 characters hold every number");
          return {text, end};
        }
      },
      value);
}

std::optional<double> number_in(const SweepValue& value) {
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) {
    return static_cast<double>(*whole);
  }
  if (const auto* const number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

bool same_value(const SweepValue& a, const SweepValue& b) {
  if (a.index() == b.index()) return a == b;
  const auto of_a = number_in(a), of_b = number_in(b);
  return of_a && of_b && *of_a == *of_b;
}

Space::Space(std::vector<SweepParameter> parameters) {
  if (const auto fault = fault_of(parameters)) {
    std::string where = fault->parameter;
    for (const std::string& part : {fault->field, fault->condition}) {
      if (!part.empty()) where += "." + part;
    }
    throw base::Error(base::Code::User, base::printable(where) + ": " + fault->message, where);
  }
  std::sort(parameters.begin(), parameters.end(),
            [](const SweepParameter& a, const SweepParameter& b) { return a.key < b.key; });
  // The first by key whose conditions name only what is placed already, until all are.
  std::set<std::string> placed;
  while (!parameters.empty()) {
    const auto next = std::find_if(parameters.begin(), parameters.end(), [&](const auto& each) {
      return std::all_of(each.when.begin(), each.when.end(),
                         [&](const auto& condition) { return placed.count(condition.key) != 0; });
    });
    base::check(next != parameters.end(), "conditions without a fault have no circle");
    placed.insert(next->key);
    parameters_.push_back(std::move(*next));
    parameters.erase(next);
  }
}

bool is_active(const SweepParameter& parameter, const SweepValues& values) {
  return std::all_of(parameter.when.begin(), parameter.when.end(), [&](const auto& condition) {
    const auto other = values.find(condition.key);
    return other != values.end() &&
           std::any_of(condition.values.begin(), condition.values.end(),
                       [&](const SweepValue& each) { return same_value(each, other->second); });
  });
}

bool can_be(const SweepParameter& parameter, const SweepValue& value) {
  if (parameter.kind == ParameterKind::Choice) {
    return std::any_of(parameter.choices.begin(), parameter.choices.end(),
                       [&](const SweepValue& each) { return same_value(each, value); });
  }
  const auto number = number_in(value);
  return number && *number >= parameter.low && *number <= parameter.high &&
         (parameter.kind != ParameterKind::Integer || *number == std::floor(*number));
}

NumberScale::NumberScale(const SweepParameter& parameter)
    : whole_(parameter.kind == ParameterKind::Integer),
      logarithmic_(parameter.logarithmic),
      least_(parameter.low),
      most_(parameter.high) {
  base::check(parameter.kind != ParameterKind::Choice, "choices have no scale");
  const double beyond = whole_ ? 0.5 : 0;
  low_ = position(least_ - beyond);
  high_ = position(most_ + beyond);
}

double NumberScale::position(double value) const { return logarithmic_ ? std::log(value) : value; }

SweepValue NumberScale::value(double position) const {
  double value = logarithmic_ ? std::exp(position) : position;
  if (whole_) value = std::floor(value + 0.5);
  value = std::clamp(value, least_, most_);
  if (whole_) return static_cast<std::int64_t>(value);
  return value;
}

const std::vector<std::string>& kind_names() {
  static const std::vector<std::string> names{"uniform", "log_uniform", "integer", "choice"};
  return names;
}

}  // namespace regatta::orchestrator::sweeps
