// Advice for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "orchestrator/advise/advice.h"

namespace regatta::orchestrator::advise {

struct Report {
  std::string title;                    // model, metric, machines
  std::string target;                   // "mlm_accuracy 0.72", "the run's steps"
  std::string noise_from, target_from;  // what these rest on, parts of a sentence
  Objective objective = Objective::TimeToAccuracy;
  Advice advice;
  std::vector<std::string> notes;  // a sentence each
};

// Of each number of nodes and ranks the best batch, and all rows of the front; below it what is
// best, and with the ends of the noise scale.
[[nodiscard]] std::string advice_text(const Report& report);
[[nodiscard]] std::string advice_markdown(const Report& report);
// docs/advice.md. All rows.
[[nodiscard]] nlohmann::ordered_json advice_json(const Report& report);
[[nodiscard]] std::string advice_csv(const Report& report);
// A picture that stands alone, without scripts, fonts or styles from elsewhere: time against
// GPU-hours, both logarithmic; a line for each number of ranks through its batches, and the front.
[[nodiscard]] std::string advice_svg(const Report& report);

}  // namespace regatta::orchestrator::advise
