#include "orchestrator/sweeps/grid.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"

namespace regatta::orchestrator::sweeps {
namespace {

// Goes through the combinations in order until `visit` returns false.
class GridWalk {
 public:
  GridWalk(const Space& space, std::size_t most, std::function<bool(const SweepValues&)> visit)
      : space_(space), visit_(std::move(visit)) {
    for (const SweepParameter& each : space.parameters()) {
      values_.push_back(grid_values(each, most));
    }
    (void)walk(0);
  }

 private:
  // Whether to go on.
  bool walk(std::size_t place) {
    if (place == values_.size()) return visit_(chosen_);
    const SweepParameter& parameter = space_.parameters()[place];
    if (!is_active(parameter, chosen_)) return walk(place + 1);
    for (const SweepValue& value : values_[place]) {
      chosen_[parameter.key] = value;
      if (!walk(place + 1)) return false;
    }
    chosen_.erase(parameter.key);
    return true;
  }

  const Space& space_;
  std::function<bool(const SweepValues&)> visit_;
  std::vector<std::vector<SweepValue>> values_;
  SweepValues chosen_;
};

}  // namespace

std::vector<SweepValue> grid_values(const SweepParameter& parameter, std::size_t most) {
  std::vector<SweepValue> values;
  if (parameter.kind == ParameterKind::Choice) {
    values = parameter.choices;
    values.resize(std::min(values.size(), most));
    return values;
  }
  if (parameter.points == 0) {
    base::check(parameter.kind == ParameterKind::Integer, "a grid has points of continuous ranges");
    for (double at = parameter.low; at <= parameter.high && values.size() < most; at += 1) {
      values.emplace_back(static_cast<std::int64_t>(at));
    }
    return values;
  }
  const NumberScale scale(parameter);
  const double low = scale.position(parameter.low), high = scale.position(parameter.high);
  for (int i = 0; i < parameter.points && values.size() < most; ++i) {
    // The ends are values of the file, and come out as they are there.
    const double share = static_cast<double>(i) / (parameter.points - 1);
    const SweepValue value = scale.value(low + share * (high - low));
    const bool is_end = i == 0 || i == parameter.points - 1;
    const double end = i == 0 ? parameter.low : parameter.high;
    const bool whole = parameter.kind == ParameterKind::Integer;
    const SweepValue point = is_end && !whole ? SweepValue(end) : value;
    if (values.empty() || !same_value(values.back(), point)) values.push_back(point);
  }
  return values;
}

std::size_t grid_size(const Space& space, std::size_t most) {
  std::size_t count = 0;
  const GridWalk walk(space, most, [&](const SweepValues&) { return ++count < most; });
  return count;
}

std::optional<SweepValues> grid_point(const Space& space, std::size_t place) {
  std::size_t at = 0;
  std::optional<SweepValues> found;
  const GridWalk walk(space, place + 1, [&](const SweepValues& values) {
    if (at++ == place) found = values;
    return !found;
  });
  return found;
}

}  // namespace regatta::orchestrator::sweeps
