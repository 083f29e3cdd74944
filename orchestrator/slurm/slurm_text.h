// What to ask Slurm's commands for, and what they answer: argument lists and parsers, both pure.
//
// Every field of a row may be absent. Text that users wrote (names, comments, paths) may hold
// anything: it stands between a row's known beginning (id, state) and the id once more, so a row is
// taken whole or not at all. A row that is not is skipped and counted, and an answer with such
// rows, or without the line's end behind its last one, is not whole; no field ever takes another's
// place.
// With random_separator() no text can imitate a row; with the plain US (0x1f) only text that holds
// US can, and its row is then a damaged one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/slurm/slurm_state.h"
#include "orchestrator/slurm/slurm_values.h"
#include "topology/slurm_text/nodes.h"

namespace regatta::orchestrator::slurm {

inline constexpr std::string_view kUnitSeparator = "\x1f";
// US and 8 hexadecimal digits that nobody could know when they named a job.
[[nodiscard]] std::string random_separator();

struct JobRow {
  std::string id;  // decimal
  JobState state;
  std::optional<std::string> name;
  std::optional<std::string> user;
  std::optional<std::string> account;
  std::optional<std::string> partition;
  std::optional<std::string> qos;
  std::optional<std::string> reason;       // of waiting, as Slurm spells it (pending_reason.h)
  std::optional<std::string> nodes;        // a hostlist (topology/graph/hostlist.h)
  std::optional<std::string> failed_node;  // whose failure ended the job
  std::optional<std::string> comment;
  std::optional<std::string> command;  // the script's path and arguments (squeue, scontrol)
  std::optional<std::string> submit_line;
  std::optional<std::string> work_directory;
  // Seconds since 1970. start is a prediction while the job waits.
  std::optional<double> submit;
  std::optional<double> eligible;
  std::optional<double> start;
  std::optional<double> end;
  // Seconds; a limit may be infinite.
  std::optional<double> limit;
  std::optional<double> left;
  std::optional<double> elapsed;
  std::optional<std::int64_t> node_count;
  std::optional<std::int64_t> cpu_count;
  std::optional<std::int64_t> priority;
  std::optional<std::int64_t> restarts;
  std::optional<ExitStatus> exit;
  std::optional<ExitStatus> derived_exit;  // the highest code of its steps
  Tres allocated;
  Tres requested;
  std::optional<Gpus> gpus_per_node;
};

// Allocated GPUs, else requested ones; absent where neither is said.
[[nodiscard]] std::optional<std::int64_t> gpu_count(const JobRow& job);

struct Jobs {
  std::vector<JobRow> rows;
  std::size_t damaged = 0;  // rows that were skipped
  // false: the answer was damaged or did not come to its end, so a job that it does not show may be
  // there all the same.
  bool whole = true;
};

// Whose or which jobs; several restrictions hold together. At least one is set.
// Throws Code::User below for an id that is none.
struct JobQuery {
  std::string user = {};
  std::vector<std::string> ids = {};  // decimal
};

// Also finished jobs, as long as slurmctld keeps them (MinJobAge).
[[nodiscard]] std::vector<std::string> squeue_arguments(const JobQuery& query,
                                                        std::string_view separator);
[[nodiscard]] Jobs parse_squeue(std::string_view text, std::string_view separator);

// Every execution is a row of its own (-D): a requeued job has several with one id. Only jobs that
// were there after `since` (seconds since 1970); sacct's own default would be today's midnight.
// `version` decides which columns the installed sacct knows.
[[nodiscard]] std::vector<std::string> sacct_arguments(const JobQuery& query, double since,
                                                       std::string_view separator,
                                                       const SlurmVersion& version);
[[nodiscard]] Jobs parse_sacct(std::string_view text, std::string_view separator,
                               const SlurmVersion& version);

// `scontrol show job -o ID`: the last resort, since its text has no separator. A value whose key
// comes twice (a name may imitate one) is absent. Nothing unless the answer is one line that has
// the id and a state: a name with a line break could imitate the other line.
[[nodiscard]] std::optional<JobRow> parse_scontrol_job(std::string_view text, std::string_view id);

using topology::slurm_text::can_work;
using topology::slurm_text::NodeBase;
using topology::slurm_text::NodeFlag;
using topology::slurm_text::NodeState;
using topology::slurm_text::parse_node_state;
using topology::slurm_text::to_string;
using NodeRow = topology::slurm_text::NodeRecord;

struct Nodes {
  std::vector<NodeRow> rows;
  std::size_t damaged = 0;
};

// One row a node, with all its partitions.
[[nodiscard]] std::vector<std::string> sinfo_arguments(std::string_view separator);
[[nodiscard]] Nodes parse_sinfo(std::string_view text, std::string_view separator);
// `scontrol show node`; lines that are of no node are passed over.
[[nodiscard]] Nodes parse_scontrol_nodes(std::string_view text);

struct PartitionRow {
  std::string name;
  std::string state;  // UP, DOWN, DRAIN, INACTIVE
  bool is_default = false;
  std::optional<std::string> nodes;  // a hostlist
  std::optional<std::int64_t> node_count;
  std::optional<std::int64_t> max_nodes;  // absent: no limit
  std::optional<std::int64_t> min_nodes;
  std::optional<double> max_seconds;  // infinite: no limit
  std::optional<double> default_seconds;
  std::optional<double> grace_seconds;
  std::optional<std::int64_t> priority_tier;
  std::optional<std::string> preempt_mode;
  std::optional<std::string> allow_accounts;  // ALL, or names with commas; so the next two
  std::optional<std::string> allow_groups;
  std::optional<std::string> allow_qos;
  std::optional<std::string> qos;
  Tres resources;
};
[[nodiscard]] std::vector<PartitionRow> parse_scontrol_partitions(std::string_view text);

// `scontrol show config`.
struct ClusterConfig {
  std::string cluster_name;
  std::optional<SlurmVersion> version;        // slurmctld's, not the command's
  std::optional<double> min_job_age;          // seconds that ended jobs stay visible
  std::optional<double> kill_wait;            // seconds from TERM to KILL at the time limit
  std::optional<bool> requeue;                // JobRequeue: jobs may be requeued unless they say no
  std::optional<bool> accounting;             // whether sacct has anything to read
  std::optional<bool> comments_accounted;     // whether sacct knows comments
  std::optional<bool> rate_limited;           // slurmctld limits calls (rl_enable)
  std::map<std::string, std::string> values;  // everything, the first of each key
};
[[nodiscard]] ClusterConfig parse_scontrol_config(std::string_view text);

// The id that `sbatch --parsable` printed: "123", "123;cluster". Text before it (messages of site
// plug-ins) is passed over. Nothing when the last line is no id.
[[nodiscard]] std::optional<std::string> parse_submitted_id(std::string_view text);

// Whether `text` is a job id: 1 to 10 digits, not zero.
[[nodiscard]] bool is_job_id(std::string_view text);

}  // namespace regatta::orchestrator::slurm
