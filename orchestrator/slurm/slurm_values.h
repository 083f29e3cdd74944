// The small notations inside Slurm's answers: times, durations, exit codes, counted resources,
// versions. All pure; what cannot be read is absent, never an exception. Notations after the manual
// pages of squeue, sacct, sbatch (--time) and slurm.conf (AccountingStorageTRES).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace regatta::orchestrator::slurm {

// Slurm's ways of saying nothing: "", "(null)", "None assigned", "N/A", "n/a", "n/s", "Unknown",
// "NONE",
// "None", "none".
[[nodiscard]] bool says_nothing(std::string_view text);

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

// GPUs, counted once: an untyped figure is the sum over the types, which may stand beside it.
struct Gpus {
  std::int64_t count = 0;
  std::map<std::string, std::int64_t> by_type;
};

// Counted resources: "cpu=32,mem=128G,node=4,gres/gpu=32,gres/gpu:h100=32".
struct Tres {
  std::optional<std::int64_t> cpus;
  std::optional<std::int64_t> nodes;
  std::optional<double> memory_bytes;
  std::optional<Gpus> gpus;  // absent where the cluster does not count them
};
[[nodiscard]] Tres parse_tres(std::string_view text);

// What nodes have and jobs ask for: "gpu:h100:8(S:0-1),gpu:a100:2", "gres/gpu:8", "gres:gpu:8".
// Absent when no GPU is named.
[[nodiscard]] std::optional<Gpus> parse_gres(std::string_view text);

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
