// The parsers of slurm_text.h for what scontrol shows: "Key=value" lines without a separator.
#include <algorithm>
#include <iterator>

#include "base/ascii.h"
#include "base/text.h"
#include "orchestrator/slurm/slurm_text.h"
#include "topology/slurm_text/key_values.h"

namespace regatta::orchestrator::slurm {
namespace {

using View = std::string_view;
using topology::slurm_text::Keys;
using topology::slurm_text::Record;

// Keys of releases 22.05 to 25.11: each ends the value before it.
constexpr View kJobKeys[] = {"Account",
                             "AccrueTime",
                             "AdminComment",
                             "AllocNode:Sid",
                             "AllocTRES",
                             "ArrayJobId",
                             "ArrayTaskId",
                             "ArrayTaskThrottle",
                             "BatchFlag",
                             "BatchHost",
                             "BurstBuffer",
                             "BurstBufferState",
                             "CPUs/Task",
                             "Command",
                             "Comment",
                             "Container",
                             "Contiguous",
                             "CoreSpec",
                             "CpusPerTres",
                             "Deadline",
                             "DelayBoot",
                             "Dependency",
                             "DerivedExitCode",
                             "EligibleTime",
                             "EndTime",
                             "ExcNodeList",
                             "ExitCode",
                             "Extra",
                             "FailedNode",
                             "Features",
                             "FedOrigin",
                             "GroupId",
                             "HetJobId",
                             "HetJobIdSet",
                             "HetJobOffset",
                             "JobId",
                             "JobName",
                             "JobState",
                             "KillOInInvalidDependent",
                             "LastSchedEval",
                             "Licenses",
                             "MCS_label",
                             "MailType",
                             "MailUser",
                             "MemPerTres",
                             "MinCPUsNode",
                             "MinMemoryCPU",
                             "MinMemoryNode",
                             "MinTmpDiskNode",
                             "Network",
                             "Nice",
                             "NodeList",
                             "Nodes",
                             "NtasksPerN:B:S:C",
                             "NtasksPerTRES:",
                             "NumCPUs",
                             "NumNodes",
                             "NumTasks",
                             "OverSubscribe",
                             "Partition",
                             "Power",
                             "PreemptEligibleTime",
                             "PreemptTime",
                             "Prefer",
                             "Priority",
                             "QOS",
                             "Reason",
                             "Reboot",
                             "ReqB:S:C:T",
                             "ReqNodeList",
                             "ReqTRES",
                             "Requeue",
                             "Reservation",
                             "ResizeTime",
                             "Restarts",
                             "RunTime",
                             "SchedNodeList",
                             "Scheduler",
                             "SecsPreSuspend",
                             "SegmentSize",
                             "Socks/Node",
                             "StartTime",
                             "StdErr",
                             "StdIn",
                             "StdOut",
                             "StepMgrEnabled",
                             "SubmitLine",
                             "SubmitTime",
                             "SuspendTime",
                             "Switches",
                             "SystemComment",
                             "TRES",
                             "TimeLimit",
                             "TimeMin",
                             "TresBind",
                             "TresFreq",
                             "TresPerJob",
                             "TresPerNode",
                             "TresPerSocket",
                             "TresPerTask",
                             "UserId",
                             "WCKey",
                             "WorkDir"};

constexpr View kPartitionKeys[] = {"AllocNodes",
                                   "AllowAccounts",
                                   "AllowGroups",
                                   "AllowQos",
                                   "Alternate",
                                   "CpuBind",
                                   "DefMemPerCPU",
                                   "DefMemPerNode",
                                   "Default",
                                   "DefaultTime",
                                   "DenyAccounts",
                                   "DenyQos",
                                   "DisableRootJobs",
                                   "ExclusiveTopo",
                                   "ExclusiveUser",
                                   "GraceTime",
                                   "Hidden",
                                   "JobDefaults",
                                   "LLN",
                                   "MaxCPUsPerNode",
                                   "MaxCPUsPerSocket",
                                   "MaxMemPerCPU",
                                   "MaxMemPerNode",
                                   "MaxNodes",
                                   "MaxTime",
                                   "MinNodes",
                                   "NodeSets",
                                   "Nodes",
                                   "OverSubscribe",
                                   "OverTimeLimit",
                                   "PartitionName",
                                   "PowerDownOnIdle",
                                   "PreemptMode",
                                   "PriorityJobFactor",
                                   "PriorityTier",
                                   "QoS",
                                   "ReqResv",
                                   "ResumeTimeout",
                                   "RootOnly",
                                   "SelectTypeParameters",
                                   "State",
                                   "SuspendTime",
                                   "SuspendTimeout",
                                   "TRES",
                                   "TRESBillingWeights",
                                   "Topology",
                                   "TotalCPUs",
                                   "TotalNodes"};

template <std::size_t N>
Keys sorted(const View (&keys)[N]) {
  Keys out(std::begin(keys), std::end(keys));
  std::sort(out.begin(), out.end());
  return out;
}

// "2" of "2-4" (wanted by a waiting job).
std::optional<std::int64_t> least(View range) {
  const auto value = base::parse_integer(range.substr(0, range.find('-')));
  if (!value || *value < 0) return std::nullopt;
  return value;
}

std::optional<JobRow> read_job(View line, const Keys& keys) {
  const Record record(line, keys);
  JobRow job;
  job.id = record.word("JobId");
  job.state = parse_job_state(record.word("JobState"));
  if (!is_job_id(job.id) || job.state.raw.empty()) return std::nullopt;
  job.name = record.text("JobName");
  // "name(1000)"
  const View user = record.word("UserId");
  if (!user.empty()) job.user = std::string(user.substr(0, user.find('(')));
  job.account = record.text_word("Account");
  job.partition = record.text_word("Partition");
  job.qos = record.text_word("QOS");
  job.reason = record.text_word("Reason");
  job.nodes = record.text_word("NodeList");
  job.failed_node = record.text_word("FailedNode");
  job.comment = record.text("Comment");
  job.command = record.text("Command");
  job.submit_line = record.text("SubmitLine");
  job.work_directory = record.text("WorkDir");
  job.submit = parse_slurm_time(record.word("SubmitTime"));
  job.eligible = parse_slurm_time(record.word("EligibleTime"));
  job.start = parse_slurm_time(record.word("StartTime"));
  job.end = parse_slurm_time(record.word("EndTime"));
  job.limit = parse_slurm_duration(record.word("TimeLimit"));
  job.elapsed = parse_slurm_duration(record.word("RunTime"));
  job.node_count = least(record.word("NumNodes"));
  job.cpu_count = least(record.word("NumCPUs"));
  job.priority = record.number("Priority");
  job.restarts = record.number("Restarts");
  job.exit = parse_exit_status(record.word("ExitCode"));
  job.derived_exit = parse_exit_status(record.word("DerivedExitCode"));
  job.allocated = parse_tres(record.word("AllocTRES"));
  job.requested = parse_tres(record.word("ReqTRES"));
  // Up to 23.02 there is one figure: of the allocation, or of the request while the job waits.
  const View one = record.word("TRES");
  if (!one.empty()) {
    (phase(job.state) == JobPhase::Waiting ? job.requested : job.allocated) = parse_tres(one);
  }
  job.gpus_per_node = parse_gres(record.word("TresPerNode"));
  return job;
}

}  // namespace

std::optional<JobRow> parse_scontrol_job(View text, View id) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (text.find('\n') != View::npos) return std::nullopt;
  auto job = read_job(text, sorted(kJobKeys));
  if (job && job->id != id) return std::nullopt;
  return job;
}

Nodes parse_scontrol_nodes(View text) {
  Nodes nodes;
  for (topology::slurm_text::NodeText& node : topology::slurm_text::read_nodes(text)) {
    if (node.record) {
      nodes.rows.push_back(std::move(*node.record));
    } else if (node.is_node) {
      ++nodes.damaged;
    }
  }
  return nodes;
}

std::vector<PartitionRow> parse_scontrol_partitions(View text) {
  const Keys keys = sorted(kPartitionKeys);
  std::vector<PartitionRow> partitions;
  for (const std::string& line : base::split(text, '\n')) {
    const Record record(line, keys);
    PartitionRow row;
    row.name = record.word("PartitionName");
    if (row.name.empty()) continue;
    row.state = record.word("State");
    row.is_default = record.word("Default") == "YES";
    row.nodes = record.text_word("Nodes");
    row.node_count = record.number("TotalNodes");
    row.max_nodes = record.number("MaxNodes");
    row.min_nodes = record.number("MinNodes");
    row.max_seconds = parse_slurm_duration(record.word("MaxTime"));
    row.default_seconds = parse_slurm_duration(record.word("DefaultTime"));
    if (const auto grace = record.number("GraceTime")) {
      row.grace_seconds = static_cast<double>(*grace);
    }
    row.priority_tier = record.number("PriorityTier");
    row.preempt_mode = record.text_word("PreemptMode");
    row.allow_accounts = record.text_word("AllowAccounts");
    row.allow_groups = record.text_word("AllowGroups");
    row.allow_qos = record.text_word("AllowQos");
    row.qos = record.text_word("QoS");
    row.resources = parse_tres(record.word("TRES"));
    partitions.push_back(std::move(row));
  }
  return partitions;
}

namespace {

// "600 sec"
std::optional<double> seconds_of(const std::map<std::string, std::string>& values,
                                 const std::string& key) {
  const auto found = values.find(key);
  if (found == values.end()) return std::nullopt;
  return base::parse_number(found->second.substr(0, found->second.find(' ')));
}

// Whether a list with commas has `word`, alone or as "word=…".
bool lists(const std::map<std::string, std::string>& values, const std::string& key, View word) {
  const auto found = values.find(key);
  if (found == values.end()) return false;
  for (const std::string& part : base::split(found->second, ',')) {
    if (View(part).substr(0, part.find('=')) == word) return true;
  }
  return false;
}

}  // namespace

ClusterConfig parse_scontrol_config(View text) {
  ClusterConfig config;
  for (const std::string& line : base::split(text, '\n')) {
    const std::size_t equals = line.find(" = ");
    const std::size_t bare = line.size() >= 2 && line.substr(line.size() - 2) == " ="
                                 ? line.size() - 2
                                 : std::string::npos;
    const std::size_t key_end = std::min(equals, bare);
    if (key_end == std::string::npos) continue;
    const View value = equals == std::string::npos ? View() : View(line).substr(equals + 3);
    config.values.emplace(base::trimmed(View(line).substr(0, key_end)), base::trimmed(value));
  }
  const auto& values = config.values;
  const auto value = [&](const std::string& key) -> std::optional<std::string> {
    const auto found = values.find(key);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
  config.cluster_name = value("ClusterName").value_or("");
  config.version = parse_slurm_version(value("SLURM_VERSION").value_or(""));
  config.min_job_age = seconds_of(values, "MinJobAge");
  config.kill_wait = seconds_of(values, "KillWait");
  if (const auto requeue = value("JobRequeue")) config.requeue = *requeue != "0";
  if (const auto type = value("AccountingStorageType")) {
    config.accounting = !says_nothing(*type) && *type != "accounting_storage/none";
  }
  if (value("AccountingStoreFlags")) {
    config.comments_accounted = lists(values, "AccountingStoreFlags", "job_comment");
  }
  if (value("SlurmctldParameters")) {
    config.rate_limited = lists(values, "SlurmctldParameters", "rl_enable");
  }
  return config;
}

}  // namespace regatta::orchestrator::slurm
