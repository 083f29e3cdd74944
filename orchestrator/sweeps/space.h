// What a sweep may set in a run file: parameters by key, each with its range or its choices, and
// with conditions on others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace regatta::orchestrator::sweeps {

// As a run file's key takes it: true or false, a whole number, another finite number, a word.
using SweepValue = std::variant<bool, std::int64_t, double, std::string>;
// By key, of the active parameters.
using SweepValues = std::map<std::string, SweepValue>;

// true, false and finite numbers as such; all else is a word.
[[nodiscard]] SweepValue value_of(const std::string& text);
// As a run file would have it, without quotes; value_of() reads it back.
[[nodiscard]] std::string as_text(const SweepValue& value);
// Numbers by what they are, whole or not.
[[nodiscard]] bool same_value(const SweepValue& a, const SweepValue& b);
// Of a number; nothing of other values.
[[nodiscard]] std::optional<double> number_in(const SweepValue& value);

enum class ParameterKind { Uniform, LogUniform, Integer, Choice };
[[nodiscard]] const std::vector<std::string>& kind_names();  // as in run files, in this order

// The other parameter is active and has one of these values.
struct SweepCondition {
  std::string key;
  std::vector<SweepValue> values;
};

struct SweepParameter {
  std::string key;  // of the run file: "optimizer.learning_rate"
  ParameterKind kind = ParameterKind::Uniform;
  double low = 0, high = 0;          // not of Choice; both are values of it; whole for Integer
  bool logarithmic = false;          // LogUniform, and Integers that are spread by their logarithm
  std::vector<SweepValue> choices;   // of Choice
  int points = 0;                    // of a grid, not of Choice; 0: not said
  std::vector<SweepCondition> when;  // all must hold
};

// What contradicts itself in parameters: `field` of `parameter`, or its condition on `condition`.
struct SpaceFault {
  std::string parameter;
  std::string field;
  std::string condition;
  std::string message;  // what is wrong, and what to do
};
// The first fault by key; nothing where there is none. Not looked for: keys that no run file has.
[[nodiscard]] std::optional<SpaceFault> fault_of(const std::vector<SweepParameter>& parameters);

class Space {
 public:
  Space() = default;  // without parameters
  // Throws Code::User with the fault, if there is one.
  explicit Space(std::vector<SweepParameter> parameters);

  // Those that conditions name before those that have the conditions, else by key. A parameter's
  // place here is its number for draws.
  [[nodiscard]] const std::vector<SweepParameter>& parameters() const { return parameters_; }

 private:
  std::vector<SweepParameter> parameters_;
};

// Whether its conditions hold. `values` has those of all active parameters before it.
[[nodiscard]] bool is_active(const SweepParameter& parameter, const SweepValues& values);
// Whether the parameter can have this value when it is active.
[[nodiscard]] bool can_be(const SweepParameter& parameter, const SweepValue& value);

// Numbers as methods see them, in which the prior is even: the values themselves or their natural
// logarithms. Integers extend from low − ½ to high + ½. Not of Choice.
class NumberScale {
 public:
  explicit NumberScale(const SweepParameter& parameter);
  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }
  [[nodiscard]] double position(double value) const;
  // Rounded where the parameter is an integer; always within its range.
  [[nodiscard]] SweepValue value(double position) const;

 private:
  bool whole_, logarithmic_;
  double least_, most_;  // values
  double low_, high_;    // positions
};

}  // namespace regatta::orchestrator::sweeps
