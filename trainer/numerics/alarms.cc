#include "trainer/numerics/alarms.h"

#include <cmath>
#include <limits>
#include <optional>

#include "base/wording.h"

namespace regatta::trainer::numerics {
namespace {

std::string message_of(const contract::AlarmRecord& alarm) {
  const bool is_norm = alarm.kind == "gradient_norm";
  const std::string what = is_norm ? "The gradient's norm"
                                   : "The update of " + alarm.layer + ", relative to its weights,";
  return what + " was " + base::formatted("%.3g", alarm.value) + " at step " +
         std::to_string(alarm.step) + ", " + base::formatted("%.3g", alarm.value / alarm.usual) +
         " times the usual " + base::formatted("%.3g", alarm.usual) +
         ". Check the learning rate and the data of this step.";
}

}  // namespace

double LayerUpdate::ratio() const {
  return weight > 0 ? std::sqrt(change / weight) : std::numeric_limits<double>::quiet_NaN();
}

double update_ratio(const std::vector<LayerUpdate>& layers) {
  LayerUpdate all;
  for (const LayerUpdate& layer : layers) {
    all.change += layer.change;
    all.weight += layer.weight;
  }
  return all.ratio();
}

std::vector<contract::AlarmRecord> Alarms::observe(std::int64_t step, double gradient_norm,
                                                   const std::vector<LayerUpdate>& layers) {
  // Nothing: it goes on as it was, or is not unusual.
  const auto look = [&](Figure* figure, const char* kind, const std::string& layer,
                        double value) -> std::optional<contract::AlarmRecord> {
    const std::optional<UsualRange::Judged> judged = figure->range.judge(value);
    if (!judged) return std::nullopt;
    const bool begins = judged->unusual && !figure->outside;
    figure->outside = judged->unusual;
    if (!begins) return std::nullopt;
    contract::AlarmRecord alarm{step, kind, layer, value, judged->usual, judged->deviation, ""};
    alarm.message = message_of(alarm);
    return alarm;
  };
  std::vector<contract::AlarmRecord> alarms;
  if (auto norm = look(&norm_, "gradient_norm", "", gradient_norm)) alarms.push_back(*norm);
  std::optional<contract::AlarmRecord> furthest;
  for (const LayerUpdate& layer : layers) {
    auto alarm = look(&ratios_[layer.layer], "update_ratio", layer.layer, layer.ratio());
    if (alarm && (!furthest || alarm->deviation > furthest->deviation)) furthest = alarm;
  }
  if (furthest) alarms.push_back(*furthest);
  return alarms;
}

}  // namespace regatta::trainer::numerics
