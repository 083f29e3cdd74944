#include "orchestrator/experiments/layout.h"

namespace regatta::orchestrator::experiments {

using trainer::contract::PipelineOrder;

bool is_same(const Layout& a, const Layout& b) {
  return a.data == b.data && a.pipeline == b.pipeline &&
         (a.pipeline == 1 || a.schedule == b.schedule);
}

std::string schedule_name(const Layout& layout) {
  return trainer::contract::pipeline_order_names().at(static_cast<std::size_t>(layout.schedule));
}

std::string default_name(const Layout& layout) {
  const std::string data = "data" + std::to_string(layout.data);
  if (layout.pipeline == 1) return data;
  std::string name = "stages" + std::to_string(layout.pipeline);
  if (layout.data > 1) name.insert(0, data + "-");
  if (layout.schedule != PipelineOrder::OneForwardOneBackward) name += "-" + schedule_name(layout);
  return name;
}

}  // namespace regatta::orchestrator::experiments
