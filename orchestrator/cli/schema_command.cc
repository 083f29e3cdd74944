#include "orchestrator/cli/schema_command.h"

#include <memory>

#include "base/file_system.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/output.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/experiments/experiment_schema.h"
#include "orchestrator/sweeps/sweep_schema.h"
#include "trainer/contract/run_schema.h"

namespace regatta::orchestrator::cli {

void PrintSchema::add_options(OptionList& options) {
  options.choose(
      "of", &of_,
      Choices<Of>{{"run", Of::Run}, {"sweep", Of::Sweep}, {"experiment", Of::Experiment}},
      "a run file, or one with a section `sweep` or `experiment`");
  options.add("-o,--output", ValueKind::File, &output_, "the file; - for stdout");
}

int PrintSchema::run() {
  if (output_.empty()) throw UsageError("--output is ''; name a file, or - for stdout");
  const std::string schema = of_ == Of::Sweep        ? sweeps::sweep_file_schema()
                             : of_ == Of::Experiment ? experiments::experiment_file_schema()
                                                     : trainer::contract::run_file_schema();
  if (output_ == "-") {
    print(schema);
  } else {
    base::replace_file(base::posix_file_system(), output_, schema);
  }
  return 0;
}

std::unique_ptr<Command> schema_command(const Program& /*program*/) {
  return std::make_unique<PrintSchema>(
      CommandText{"schema",
                  Group::Runs,
                  "print what a run file may say, as a JSON Schema for editors",
                  {"schema", "schema --output run.schema.json", "schema sweep"}});
}

}  // namespace regatta::orchestrator::cli
