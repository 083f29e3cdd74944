#include "orchestrator/slurm/job_end.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/slurm/pending_reason.h"
#include "topology/graph/hostlist.h"
#include "trainer/contract/exit_code.h"

namespace regatta::orchestrator::slurm {
namespace {

using View = std::string_view;
using trainer::contract::ExitCode;

constexpr std::size_t kMostSentenceBytes = 300;
constexpr View kStartMark = "regatta: run ";
constexpr View kOwnMark = "regatta: ";
constexpr View kReturnsMark = "regatta: returns ";
constexpr View kPreemptedMark = "regatta: preempted";

constexpr View kMoreMemory =
    "`regatta resume --set slurm.memory_per_node=…` with more than it had lets it go on";
constexpr View kLookAtNodes =
    "Regatta tries other nodes; ask the cluster's operators to look at those that failed "
    "(`regatta nodes`)";

bool begins(View text, View part) { return text.substr(0, part.size()) == part; }

// The word behind `mark`, without a colon or a full stop at its end.
std::string word_after(View line, View mark) {
  const std::size_t at = line.find(mark);
  if (at == View::npos) return {};
  line.remove_prefix(at + mark.size());
  View word = line.substr(0, line.find_first_of(" \t\r"));
  while (!word.empty() && (word.back() == ':' || word.back() == '.')) word.remove_suffix(1);
  return std::string(word);
}
std::string word_before(View line, View mark) {
  const std::size_t at = line.find(mark);
  if (at == View::npos || at == 0) return {};
  line = line.substr(0, at);
  const std::size_t space = line.find_last_of(" \t");
  return std::string(space == View::npos ? line : line.substr(space + 1));
}

void add_nodes(const std::string& hostlist, std::vector<std::string>* nodes) {
  try {
    for (std::string& node : topology::graph::expand_hostlist(hostlist)) {
      if (std::find(nodes->begin(), nodes->end(), node) == nodes->end()) {
        nodes->push_back(std::move(node));
      }
    }
  } catch (const base::Error&) {  // no list of nodes: it names nobody
  }
}

struct Clues {
  bool out_of_memory = false;
  bool prolog_failed = false;
  bool preempted = false;
  bool node_failed = false;
  bool launch_failed = false;
  std::vector<std::string> launch_nodes;  // on which the launch failed
  std::vector<std::string> lost_nodes;
  std::string own_words;        // of the script, about a node that cannot be worked with
  std::optional<int> returned;  // by the script
};

bool tells_out_of_memory(View line) {
  constexpr View kOfSlurm[] = {"exceeded memory limit",
                               "Exceeded job memory limit",
                               "Exceeded step memory limit",
                               "oom-kill event",
                               "oom_kill event",
                               "Out Of Memory"};
  constexpr View kOfPrograms[] = {"std::bad_alloc", "CUDA_ERROR_OUT_OF_MEMORY",
                                  "cudaErrorMemoryAllocation"};
  const auto in_line = [&](View part) { return has(line, part); };
  if (begins(line, "slurmstepd") || begins(line, "srun: ")) {
    return std::any_of(std::begin(kOfSlurm), std::end(kOfSlurm), in_line);
  }
  return std::any_of(std::begin(kOfPrograms), std::end(kOfPrograms), in_line);
}

// The script's own words about a node, before the trainer was started.
bool tells_bad_node(View line) {
  if (!begins(line, "regatta: node ")) return false;
  return has(line, " does not see ") || has(line, " cannot read ") || has(line, " has another ");
}

void read_line(View line, Clues* clues) {
  if (tells_out_of_memory(line)) clues->out_of_memory = true;
  if (begins(line, "Error running slurm prolog")) clues->prolog_failed = true;
  if (begins(line, kPreemptedMark)) clues->preempted = true;
  if (has(line, "DUE TO NODE FAILURE")) clues->node_failed = true;
  if (begins(line, "srun: error: Node failure on ")) {
    clues->node_failed = true;
    add_nodes(word_after(line, "Node failure on "), &clues->lost_nodes);
  }
  if (begins(line, "srun: error: ") && has(line, " not responding")) {
    clues->node_failed = true;
    add_nodes(word_before(line, " not responding"), &clues->lost_nodes);
  }
  if (begins(line, "srun: error: Task launch for ")) {
    clues->launch_failed = true;
    clues->prolog_failed = clues->prolog_failed || has(line, "Job prolog failed");
    add_nodes(word_after(line, " failed on node "), &clues->launch_nodes);
  }
  if (tells_bad_node(line)) {
    clues->launch_failed = true;
    clues->own_words = base::printable(line.substr(kOwnMark.size(), kMostSentenceBytes));
    add_nodes(word_after(line, "regatta: node "), &clues->launch_nodes);
  }
  if (begins(line, kReturnsMark)) {
    const auto code = base::parse_integer(line.substr(kReturnsMark.size()));
    if (code && *code > 0 && *code < 256) clues->returned = static_cast<int>(*code);
  }
  if (begins(line, kOwnMark) && has(line, " nodes answered (")) {
    clues->launch_failed = true;
    clues->own_words = base::printable(line.substr(kOwnMark.size(), kMostSentenceBytes));
  }
}

Clues read_log(View log) {
  Clues clues;
  while (!log.empty()) {
    const std::size_t end = log.find('\n');
    read_line(log.substr(0, end), &clues);
    if (end == View::npos) break;
    log.remove_prefix(end + 1);
  }
  return clues;
}

std::string named(const std::vector<std::string>& nodes) {
  return (nodes.size() == 1 ? "node " : "nodes ") + topology::graph::compress_hosts(nodes);
}

// Of the job's nodes the one that runs the script.
void suspect_first_node(const JobRow& job, runs::ProcessReport* report) {
  std::vector<std::string> nodes;
  add_nodes(job.nodes.value_or(""), &nodes);
  if (!nodes.empty()) report->suspects = {nodes.front()};
}

runs::ProcessReport gone(const JobRow& job, runs::Cause cause, std::string words,
                         View action = {}) {
  runs::ProcessReport report;
  report.state = runs::ProcessState::Gone;
  report.cause = cause;
  report.words = std::move(words);
  report.action = std::string(action);
  report.nodes = job.nodes.value_or("");
  report.gpus = gpu_count(job);
  return report;
}

runs::ProcessReport out_of_memory(const JobRow& job) {
  return gone(job, runs::Cause::OutOfMemory, "it used more memory than it may", kMoreMemory);
}

runs::ProcessReport node_failure(const JobRow& job, const Clues& clues) {
  std::vector<std::string> lost = clues.lost_nodes;
  if (job.failed_node) add_nodes(*job.failed_node, &lost);
  if (lost.empty()) {
    // Slurm shows which only from 24.11 on, but a job of one node had no other.
    std::vector<std::string> all;
    add_nodes(job.nodes.value_or(""), &all);
    if (all.size() == 1) lost = std::move(all);
  }
  runs::ProcessReport report =
      gone(job, runs::Cause::NodeFailure, lost.empty() ? "a node failed" : named(lost) + " failed");
  report.suspects = std::move(lost);
  return report;
}

runs::ProcessReport launch_failure(const JobRow& job, const Clues& clues) {
  const std::string where = clues.launch_nodes.empty() ? "" : " on " + named(clues.launch_nodes);
  std::string words = "it could not be started" + where;
  if (!clues.own_words.empty()) {
    words = clues.own_words;
    // "3 of 4 nodes answered" names nobody.
    if (!where.empty() && !begins(words, "node ")) words += "; the launch failed" + where;
  } else if (clues.prolog_failed) {
    words += ": the prolog failed, and Slurm drains such nodes";
  }
  runs::ProcessReport report =
      gone(job, runs::Cause::LaunchFailure, std::move(words), kLookAtNodes);
  report.suspects = clues.launch_nodes;
  return report;
}

// "CANCELLED by 1000" (sacct).
std::string who_cancelled(const JobRow& job) {
  const std::string who = word_after(job.state.raw, " by ");
  return base::parse_integer(who) ? " by user " + who : "";
}

runs::ProcessReport preemption(const JobRow& job) {
  return gone(job, runs::Cause::Preempted, "it was preempted by jobs of higher priority");
}

std::string time_limit_words(const JobRow& job) {
  if (!job.limit || !(*job.limit < 1e9)) return "its time limit was over";
  return "its time limit of " + base::human_seconds(*job.limit) + " was over";
}

// Where Slurm itself lays the end on something.
std::optional<runs::ProcessReport> told_by_state(const JobRow& job, const Clues& clues) {
  switch (job.state.base) {
    case JobBase::Completed:
    case JobBase::Failed:
      return std::nullopt;
    case JobBase::Timeout:
      return gone(job, runs::Cause::TimeLimit, time_limit_words(job));
    case JobBase::NodeFail:
      return node_failure(job, clues);
    case JobBase::Preempted:
      return preemption(job);
    case JobBase::OutOfMemory:
      return out_of_memory(job);
    case JobBase::BootFail:
      return gone(job, runs::Cause::LaunchFailure, "its nodes did not boot", kLookAtNodes);
    case JobBase::Deadline:
      return gone(job, runs::Cause::Deadline, "it could not end before its deadline (--deadline)",
                  "`regatta resume --set 'slurm.options=[…]'` with a later --deadline, or without, "
                  "lets it go on");
    case JobBase::Cancelled:
      // A job without --requeue whose prolog fails is cancelled by Slurm itself.
      if (clues.prolog_failed) return launch_failure(job, clues);
      if (clues.out_of_memory) return out_of_memory(job);
      return gone(job, runs::Cause::Cancelled, "its job was cancelled" + who_cancelled(job),
                  "`regatta resume` lets it go on where that was not meant");
    default:
      return gone(job, runs::Cause::None, "Slurm says " + to_string(job.state));
  }
}

// slurmd could not enter the job's directory or open its output: Slurm shows a "signal" of its own.
constexpr int kNoOutputSignal = 53;

bool could_not_be_launched(const JobRow& job) {
  return job.state.has(JobFlag::LaunchFailed) ||
         (job.exit && job.exit->signal == kNoOutputSignal) ||
         job.reason.value_or("") == "JobLaunchFailure";
}

// Codes that the trainer or the script chose, after which memory is not the question.
bool is_deliberate(int code) {
  const ExitCode kDeliberate[] = {ExitCode::Finished, ExitCode::User,    ExitCode::Operator,
                                  ExitCode::Fenced,   ExitCode::Stopped, ExitCode::Continue};
  return std::any_of(std::begin(kDeliberate), std::end(kDeliberate),
                     [code](ExitCode one) { return code == static_cast<int>(one); });
}

// squeue shows no exit codes: there only the script knows.
std::optional<ExitStatus> exit_of(const JobRow& job, const Clues& clues) {
  if (job.exit) return job.exit;
  if (job.state.base == JobBase::Completed) return ExitStatus{};
  if (clues.returned) return ExitStatus{*clues.returned, 0};
  return std::nullopt;
}

// The log's word about a job that failed.
std::optional<runs::ProcessReport> told_by_log(const JobRow& job, const Clues& clues) {
  if (could_not_be_launched(job)) {
    runs::ProcessReport report = launch_failure(job, clues);
    if (report.suspects.empty()) {
      report.words =
          "Slurm could not start its script: the run directory could not be entered, or the "
          "output not written";
      suspect_first_node(job, &report);
    }
    return report;
  }
  const auto exit = exit_of(job, clues);
  const int code = exit ? exit->code : 0;
  const bool failed = !exit || exit->signal != 0 || !is_deliberate(code);
  if (failed && clues.out_of_memory) {
    runs::ProcessReport report = out_of_memory(job);
    report.state = runs::ProcessState::Ended;
    return report;
  }
  if (failed && clues.node_failed) return node_failure(job, clues);
  // A node that cannot be worked with is the operators' matter, and not the run's end.
  const bool no_place = code == static_cast<int>(ExitCode::Operator) && !clues.own_words.empty();
  if ((failed || no_place) && clues.launch_failed) return launch_failure(job, clues);
  if (clues.preempted) {
    runs::ProcessReport report = preemption(job);
    report.state = runs::ProcessState::Ended;
    return report;
  }
  return std::nullopt;
}

// bash reports a child's signal as 128 and more, and sacct (22.05) takes 128 off again: these codes
// are nobody else's.
std::optional<int> signal_of(int code) {
  constexpr int kShellOffset = 128;
  constexpr int kMostSignals = 64;
  if (code > kShellOffset && code <= kShellOffset + kMostSignals) return code - kShellOffset;
  constexpr int kWithoutOffset[] = {4, 6, 7, 8, 9, 11, 15};  // ILL ABRT BUS FPE KILL SEGV TERM
  const bool known = std::find(std::begin(kWithoutOffset), std::end(kWithoutOffset), code) !=
                     std::end(kWithoutOffset);
  return known ? std::optional<int>(code) : std::nullopt;
}

void take_exit(const JobRow& job, const Clues& clues, runs::ProcessReport* report) {
  const auto exit = exit_of(job, clues);
  if (!exit) {
    report->state = runs::ProcessState::Gone;
    return;
  }
  report->signal = exit->signal != 0 ? std::optional<int>(exit->signal) : signal_of(exit->code);
  if (!report->signal) report->exit_code = exit->code;
}

// "scontrol release ID" with the job's id.
std::string with_id(std::string action, const std::string& id) {
  constexpr View kPlace = "scontrol release ID";
  const std::size_t at = action.find(kPlace);
  if (at != std::string::npos) action.replace(at + kPlace.size() - 2, 2, id);
  return action;
}

}  // namespace

std::string job_log(View script_output, View ranks_log) {
  std::size_t start = 0;
  for (std::size_t at = script_output.find(kStartMark); at != View::npos;
       at = script_output.find(kStartMark, at + 1)) {
    if (at == 0 || script_output[at - 1] == '\n') start = at;
  }
  std::string text(script_output.substr(start));
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text.append(ranks_log);
}

bool needs_log(const JobRow& job) {
  const JobPhase now = phase(job.state);
  if (now == JobPhase::Waiting) {
    return explain_reason(job.reason.value_or("")).family == ReasonFamily::Stuck;
  }
  return now == JobPhase::Ended || ended_in_accounting(job.state);
}

runs::ProcessReport waiting_report(const JobRow& job, View log) {
  runs::ProcessReport report;
  report.state = runs::ProcessState::Waiting;
  const PendingReason reason = explain_reason(job.reason.value_or(""));
  report.words = "waits in Slurm";
  report.category = std::string(to_string(reason.family));
  report.clears = std::string(to_string(reason.clears));
  if (reason.family != ReasonFamily::None) report.words += ": " + reason.sentence;
  report.action = with_id(reason.action, job.id);
  switch (reason.family) {
    case ReasonFamily::Held:
      report.cause = runs::Cause::Held;
      break;
    case ReasonFamily::Stuck: {
      report.cause = runs::Cause::Stuck;
      const Clues clues = read_log(log);
      if (!clues.launch_nodes.empty()) report.words += " (" + named(clues.launch_nodes) + ")";
      report.suspects = clues.launch_nodes;
      break;
    }
    case ReasonFamily::Impossible:
      report.cause = runs::Cause::Impossible;
      break;
    default:
      if (job.start && *job.start > 0) report.expected_start = job.start;
  }
  return report;
}

runs::ProcessReport running_report(const JobRow& job) {
  runs::ProcessReport report;
  report.state = runs::ProcessState::Running;
  report.nodes = job.nodes.value_or("");
  report.gpus = gpu_count(job);
  report.started = job.start;
  if (job.state.base != JobBase::Suspended && !job.state.has(JobFlag::Stopped)) return report;
  report.words = "is suspended: its processes stand still until Slurm resumes its job";
  report.category = std::string(runs::kSuspended);
  report.clears = std::string(to_string(Clears::Perhaps));
  report.action = "after `scontrol suspend`: scontrol resume " + job.id +
                  "; after a preemption it goes on when the more important job is over";
  return report;
}

runs::ProcessReport ended_report(const JobRow& job, View log) {
  const Clues clues = read_log(log);
  auto told = told_by_state(job, clues);
  if (!told && job.state.base == JobBase::Failed) told = told_by_log(job, clues);
  runs::ProcessReport report = told ? std::move(*told) : gone(job, runs::Cause::None, "");
  if (!told) report.state = runs::ProcessState::Ended;
  if (report.state == runs::ProcessState::Ended) take_exit(job, clues, &report);
  report.started = job.start;
  report.tells_cancels = true;
  return report;
}

}  // namespace regatta::orchestrator::slurm
