// Alarms: a step whose gradient norm, or whose change of a layer's weights, is far above what the
// attempt's steps before it had. A jump of the learning rate, a bad batch or a fault does this.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/contract/journal.h"
#include "trainer/numerics/usual_range.h"

namespace regatta::trainer::numerics {

// ‖Δw‖/‖w‖ of one part of the model (contract::layer_of), and its squares, for sums.
struct LayerUpdate {
  std::string layer;
  double change = 0, weight = 0;  // Σ Δw², Σ w²

  [[nodiscard]] double ratio() const;  // not a number where there is no weight
};
// Of all of them.
[[nodiscard]] double update_ratio(const std::vector<LayerUpdate>& layers);

class Alarms {
 public:
  // In the order of steps: what of this one is to be told. An excursion is told once, where it
  // begins; the next one can begin when a step was usual again. `layers` is empty where the step
  // did not look at them.
  [[nodiscard]] std::vector<contract::AlarmRecord> observe(std::int64_t step, double gradient_norm,
                                                           const std::vector<LayerUpdate>& layers);

 private:
  struct Figure {
    UsualRange range;
    bool outside = false;  // at its last value
  };
  Figure norm_;
  std::map<std::string, Figure> ratios_;  // by layer
};

}  // namespace regatta::trainer::numerics
