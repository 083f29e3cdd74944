// The small notations inside Slurm's answers that topology and orchestrator both read: absent
// values, whole numbers, counted resources. All pure; what cannot be read is absent, never an
// exception. Notations after the manual pages of slurm.conf (Gres, AccountingStorageTRES) and
// sbatch (--gres).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::topology::slurm_text {

// Slurm's ways of saying nothing: "", "(null)", "None assigned", "N/A", "n/a", "n/s", "Unknown",
// "NONE", "None", "none".
[[nodiscard]] bool says_nothing(std::string_view text);

// Digits only, at most 15: exact in a double and far from overflow.
[[nodiscard]] std::optional<std::int64_t> whole_number(std::string_view text);

// Parts between separators, views of `text`; one part where there is no separator.
[[nodiscard]] std::vector<std::string_view> pieces(std::string_view text, char separator);

// A list of names with commas, without empty ones; none where Slurm says nothing.
[[nodiscard]] std::vector<std::string> parse_names(std::string_view text);

// GPUs, counted once: an untyped figure is the sum over the types, which may stand beside it.
struct Gpus {
  std::int64_t count = 0;
  std::map<std::string, std::int64_t> by_type;
};

// More GPUs than any cluster has: a text with such a count is damaged.
inline constexpr std::int64_t kMostGpus = 1'000'000;

// Counted resources: "cpu=32,mem=128G,node=4,gres/gpu=32,gres/gpu:h100=32".
struct Tres {
  std::optional<std::int64_t> cpus;
  std::optional<std::int64_t> nodes;
  std::optional<double> memory_bytes;
  std::optional<Gpus> gpus;  // absent where the cluster does not count them, and above kMostGpus
};
[[nodiscard]] Tres parse_tres(std::string_view text);

// The GPUs of what nodes have and jobs ask for: a list of name[:type][:no_consume][:count[K|M|G|…]]
// with commas, each optionally behind "gres/" or "gres:", and what Slurm adds in parentheses
// (sockets, device numbers) left out: "gpu:h100:8(S:0-1),gpu:a100:2,shard:16", "gres/gpu:8". The
// count is 1 where there is none. Absent when no GPU is named, and when a GPU's entry does not have
// this form, parentheses do not match or there are more than kMostGpus: a part of the GPUs is not
// taken for all of them.
[[nodiscard]] std::optional<Gpus> parse_gres(std::string_view text);

}  // namespace regatta::topology::slurm_text
