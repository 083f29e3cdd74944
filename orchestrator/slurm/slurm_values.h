// The small notations inside Slurm's answers: times, durations, exit codes, versions; those that
// topology reads too, from topology/slurm_text. All pure; what cannot be read is absent, never an
// exception. Notations after the manual pages of squeue, sacct and sbatch (--time).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "topology/slurm_text/values.h"

namespace regatta::orchestrator::slurm {

using topology::slurm_text::Gpus;
using topology::slurm_text::parse_gres;
using topology::slurm_text::parse_tres;
using topology::slurm_text::says_nothing;
using topology::slurm_text::Tres;

// "2026-11-21T10:00:00" in seconds since 1970. Slurm's clients print local time without a zone, so
// SlurmCommands asks with TZ=UTC, and this reads it as UTC.
[[nodiscard]] std::optional<double> parse_slurm_time(std::string_view text);

// Seconds of "D-HH:MM:SS", "D-HH:MM", "D-HH", "HH:MM:SS", "MM:SS" or "MM", seconds with an optional
// fraction. UNLIMITED and INFINITE are infinity; "INVALID", "NOT_SET", "Partition_Limit" and other
// text are absent.
[[nodiscard]] std::optional<double> parse_slurm_duration(std::string_view text);

struct ExitStatus {
  int code = 0;
  int signal = 0;
};

// "3:0", "0:9".
[[nodiscard]] std::optional<ExitStatus> parse_exit_status(std::string_view text);

struct SlurmVersion {
  int major = 0;
  int minor = 0;
  int micro = 0;
  [[nodiscard]] bool at_least(int wanted_major, int wanted_minor) const {
    return major != wanted_major ? major > wanted_major : minor >= wanted_minor;
  }
};

// Of `sbatch --version`: "slurm-wlm 22.05.8", "slurm 24.11.5-1", and of the bare number.
[[nodiscard]] std::optional<SlurmVersion> parse_slurm_version(std::string_view text);
[[nodiscard]] std::string to_string(const SlurmVersion& version);

}  // namespace regatta::orchestrator::slurm
