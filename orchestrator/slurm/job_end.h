// Why a job waits and how it ended, derived from Slurm's row and, where that says too little, from
// the end of the job's log. Pure. docs/slurm.md has what Slurm shows of each trouble.
#pragma once

#include <string>
#include <string_view>

#include "orchestrator/runs/scheduler.h"
#include "orchestrator/slurm/slurm_text.h"

namespace regatta::orchestrator::slurm {

// What a job wrote: of its script's output the part since its newest start (all of it where no
// start is told), and of the ranks' log as much as there is.
[[nodiscard]] std::string job_log(std::string_view script_output, std::string_view ranks_log);

// Whether the log says more than the row: of ends, and of jobs that Slurm keeps back.
[[nodiscard]] bool needs_log(const JobRow& job);

// For jobs of phase() Waiting, Running or Ending, and Ended (or ended in accounting). `log` may be
// empty; the texts are printable.
[[nodiscard]] runs::ProcessReport waiting_report(const JobRow& job, std::string_view log = {});
[[nodiscard]] runs::ProcessReport running_report(const JobRow& job);
// An exit code or a signal only where the batch script returned one and Slurm does not lay the end
// on something else: then the state is Gone, and the cause says why. Of whoever ends a job only a
// scancel leaves CANCELLED; who signals its ranks leaves no more than their exit code.
[[nodiscard]] runs::ProcessReport ended_report(const JobRow& job, std::string_view log = {});

}  // namespace regatta::orchestrator::slurm
