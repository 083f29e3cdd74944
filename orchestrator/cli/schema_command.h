// `regatta schema`, which `regatta config schema` is, too.
#pragma once

#include <string>
#include <utility>

#include "orchestrator/cli/command.h"

namespace regatta::orchestrator::cli {

// The schema of run files, or of those with a section that makes many runs, to stdout or a file.
// `text` has its name and group.
class PrintSchema final : public Command {
 public:
  explicit PrintSchema(CommandText text) : Command(std::move(text)) {}
  void add_options(OptionList& options) override;
  [[nodiscard]] int run() override;

 private:
  enum class Of { Run, Sweep, Experiment };
  Of of_ = Of::Run;
  std::string output_ = "-";  // "-": stdout
};

}  // namespace regatta::orchestrator::cli
