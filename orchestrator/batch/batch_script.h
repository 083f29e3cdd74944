// What sbatch is given for a run: the script and the options. Pure functions; README.md beside this
// file says what the script does and what it returns.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "trainer/contract/slurm_resources.h"

namespace regatta::orchestrator::batch {

struct SlurmJob {
  std::string token;           // of the submission: 16 hexadecimal digits
  std::string run_name;        // for people, the job's name: control characters as \xNN
  base::Path run_directory;    // absolute, as every node sees it
  base::Path trainer;          // regatta-train, likewise
  base::Path slurm_directory;  // where srun, squeue, scontrol and sbatch lie; empty: in PATH
  trainer::contract::SlurmResources resources;
  // The planner's and the controller's part.
  std::map<std::string, std::string> plan_environment;  // NCCL_… and CUDA_…; the run's own win
  std::string switches;                                 // replaces the run's; empty: none
  int segment = 0;                   // nodes of a block that stay together; 0: none
  std::vector<std::string> exclude;  // nodes, beside the run's
  int signal_seconds = 0;  // before the end of the time limit the trainer gets USR2; 0: never
  // Between two requests to a slurmctld that does not answer.
  int pause_seconds = 15;
  // For srun to see that ranks have ended which have said their last word.
  int farewell_seconds = 60;
};

// By which a job is found (token_of in job_book.h).
[[nodiscard]] std::string slurm_job_comment(const std::string& token);
// Where the script is kept: <run directory>/submit/<token>.sh.
[[nodiscard]] base::Path script_path(const SlurmJob& job);

// Throws Code::User where no job could have its runs in that directory, or run that trainer.
void check_places(const base::Path& runs_directory, const base::Path& trainer);

// The text of the script, printable ASCII. No byte from outside begins a line of it, and all
// options go by sbatch_arguments(). Throws Code::User for what cannot be handed to Slurm or bash:
// a NUL, a relative path, control characters or a backslash in the run directory's path, a name
// that no variable can have, a variable over 128 KiB, a script over 4 MB.
[[nodiscard]] std::string batch_script(const SlurmJob& job);

// sbatch's arguments, the script's path last; each option is one argument. Throws Code::User as
// batch_script() does, and for more than 1 MB.
[[nodiscard]] std::vector<std::string> sbatch_arguments(const SlurmJob& job);

// Whether a variable of the submitting process may go into the job (with its value, through
// --export=ALL): sbatch should be started with these alone.
[[nodiscard]] bool may_reach_job(std::string_view variable);

// The part of the script that is the same for every job.
[[nodiscard]] std::string_view batch_script_head();
[[nodiscard]] std::string_view batch_script_body();

}  // namespace regatta::orchestrator::batch
