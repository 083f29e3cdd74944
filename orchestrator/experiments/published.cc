#include "orchestrator/experiments/published.h"

#include <nlohmann/json.hpp>

namespace regatta::orchestrator::experiments {

nlohmann::ordered_json published_json() {
  using Json = nlohmann::ordered_json;
  Json layouts = Json::array();
  layouts.push_back({{"name", "data parallel"},
                     {"figures",
                      {{"run_seconds", 3688},
                       {"samples_per_second", 37.98},
                       {"validation_loss", 0.6027},
                       {"utilisation", 0.9496},
                       {"efficiency", 0.01627},
                       {"goodput", 0.6179}}}});
  layouts.push_back(
      {{"name", "2 stages"},
       {"figures",
        {{"samples_per_second", 70.40}, {"efficiency", 0.0000707}, {"goodput", 0.0049}}}});
  layouts.push_back(
      {{"name", "4 stages"},
       {"figures",
        {{"samples_per_second", 116.27}, {"efficiency", 0.0001116}, {"goodput", 0.0129}}}});
  return {
      {"what", "BERT-base, fine-tuned on SQuAD v2"},
      {"hardware", "4 A100 of 40 GB"},
      {"layouts", std::move(layouts)},
      {"note",
       "Its columns cannot be compared with each other, nor with those above: samples/s seems to "
       "be of one process of four in the first and of the job in the others, and statistical "
       "efficiency, which a layout cannot change and which is 1 at the first batch, to be a "
       "ratio without its normalisation."},
      {"link", "docs/metrics.md"}};
}

}  // namespace regatta::orchestrator::experiments
