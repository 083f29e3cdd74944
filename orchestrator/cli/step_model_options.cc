#include "orchestrator/cli/step_model_options.h"

namespace regatta::orchestrator::cli {

void add_lengths(OptionList& options, std::string* lengths) {
  options.add(
      "--lengths", ValueKind::File, lengths,
      "table of sample lengths in tokens, lines `low,high,fraction` (default: all as long as "
      "data.max_length)");
}

void add_vocabulary(OptionList& options, int* vocabulary) {
  options
      .add("--vocabulary", vocabulary,
           "vocabulary size, in place of the run file's and its dataset's")
      .range = {1, 1 << 24};
}

void add_given_figures(OptionList& options, plan::GivenFigures* given) {
  options
      .add("--efficiency", &given->efficiency,
           "fraction of the devices' peak that large matrix products reach")
      .range = {0.001, 1};
  options
      .add("--overhead-seconds", &given->overhead_seconds,
           "fixed overhead per step, seconds (default: 0.009 on several nodes)")
      .range = {0, 3600};
}

}  // namespace regatta::orchestrator::cli
