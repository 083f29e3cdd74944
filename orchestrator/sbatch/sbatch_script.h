// A batch script that a user wrote: its #SBATCH lines as sbatch reads them, and what in it does not
// do what it looks like. Pure, but for sbatch_folder_findings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/sbatch/sbatch_options.h"

namespace regatta::orchestrator::sbatch {

struct SbatchFinding {
  int line = 0;      // from 1; 0: the command line
  std::string text;  // one line: what, and what to do
  std::string id;    // of the rule, which never changes: orchestrator/README.md has the table
};

struct ScriptCommand {
  int line = 0;      // where it begins
  std::string text;  // with the lines that a backslash joins
};

struct SbatchScript {
  std::vector<GivenOption> options;  // of the lines that sbatch reads
  std::vector<SbatchFinding> findings;
  std::vector<ScriptCommand> commands;  // every line that is neither blank nor a comment
  bool heterogeneous = false;           // "#SBATCH hetjob": only the first job's options are here
  bool has_others = false;  // "#PBS" or "#BSUB": sbatch reads these, too, unless told not to
  int trainer_line = 0;     // where `srun … regatta-train run` stands; 0: nowhere
};

// Lines are read up to the first one that is neither blank nor a comment. In a line that begins
// with "#SBATCH" quotes and backslashes are a shell's, '#' ends it, and nothing is expanded.
[[nodiscard]] SbatchScript read_sbatch_script(std::string_view text);

// A job whose output has no place ends at once and leaves no log (Slurm makes no folders); so does
// one whose input is not there, or whose output this user cannot write. options: the script's and
// then the command line's. directory: where sbatch is called, absolute.
[[nodiscard]] std::vector<SbatchFinding> sbatch_folder_findings(
    const std::vector<GivenOption>& options, const base::Path& directory);

}  // namespace regatta::orchestrator::sbatch
