// Options of `regatta plan` and `regatta simulate`: what the model of a step is given.
#pragma once

#include <string>

#include "orchestrator/cli/command_options.h"
#include "orchestrator/plan/step_model.h"

namespace regatta::orchestrator::cli {

// --lengths, a table of sample lengths.
void add_lengths(OptionList& options, std::string* lengths);
// --vocabulary; 0: as the run file or its dataset says.
void add_vocabulary(OptionList& options, int* vocabulary);
// --efficiency, --overhead-seconds.
void add_given_figures(OptionList& options, plan::GivenFigures* given);

}  // namespace regatta::orchestrator::cli
