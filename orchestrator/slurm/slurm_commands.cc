#include "orchestrator/slurm/slurm_commands.h"

#include <algorithm>
#include <cctype>
#include <type_traits>
#include <utility>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/text.h"

namespace regatta::orchestrator::slurm {
namespace {

using View = std::string_view;

constexpr std::size_t kMostMessageBytes = 500;
// Of an answer: a user's queue of 100,000 jobs has some 30 MB.
constexpr std::size_t kMostAnswerBytes = std::size_t{64} << 20U;

template <std::size_t N>
bool has_any(View text, const View (&parts)[N]) {
  return std::any_of(std::begin(parts), std::end(parts),
                     [&](View part) { return text.find(part) != View::npos; });
}

// In lower case. A request with one of these ends may have been carried out.
constexpr View kTransport[] = {
    "unable to contact",
    "socket timed out",
    "connection refused",
    "connection reset",
    "connection timed out",
    "connect failure",
    "connection failure",
    "send failure",
    "receive failure",
    "shutdown failure",
    "zero bytes were transmitted",
    "transport endpoint",
    "broken pipe",
    "protocol authentication",
    "munge",
    "unexpected message",
    "insane message length",
    "missing socket",
    "incomplete packet",
    "resolve_ctls_from_dns",
    "fetch_config",
    "standby mode",
    "connection to slurmdbd",
    "slurmdbd: sending persistconninit",
    "unspecified error",
    "sending message to",
    "persistent connection",
};
// slurmctld answered that it did not carry the request out.
constexpr View kRateLimit[] = {"rate limit", "rpc rate limited", "requested backoff"};
constexpr View kNotFound[] = {"invalid job id", "already completing or completed",
                              "already finished", "invalid job_id"};
constexpr View kDisabled[] = {"accounting storage is disabled"};
// Of a command that looked for slurm.conf everywhere; a name service that is away says "lookup
// failure".
constexpr View kUnconfigured = "dns srv lookup failed";
constexpr View kNameServiceAway = "lookup failure";
// Whatever the reason is: a command without slurm.conf knows nobody whom it could ask.
constexpr View kNothingSent = "could not establish a configuration source";

struct Hint {
  View part;  // in lower case
  base::Code code;
  View text;
};
constexpr View kSeePartitions = "see `sinfo` for the partitions of this cluster, and name another";
constexpr View kSeeAssociations = "choose one that `sacctmgr show associations user=$USER` lists";
// Texts after slurm_errno of releases 22.05 to 25.11; the first that fits.
constexpr Hint kHints[] = {
    {"invalid partition", base::Code::User, kSeePartitions},
    {"no partition specified", base::Code::User, "name a partition: this cluster has no default"},
    {"group not permitted to use this partition", base::Code::User, kSeePartitions},
    {"requested nodes not in this partition", base::Code::User,
     "name nodes of the partition, or none"},
    {"partition not available", base::Code::Retry,
     "the partition takes no jobs now; wait, or name another"},
    {"partition in down state", base::Code::Retry,
     "the partition takes no jobs now; wait, or name another"},
    {"invalid account", base::Code::User, kSeeAssociations},
    {"invalid qos", base::Code::User, kSeeAssociations},
    {"qos usage threshold", base::Code::Retry, "wait until the usage decays, or name another QOS"},
    // AssocMaxSubmitJobLimit, QOSMaxSubmitJobPerUserLimit, MaxSubmitJobsPerAccount, …
    {"submitjob", base::Code::Retry,
     "wait until other jobs that count are over, or use another account or QOS"},
    {"violates accounting/qos policy", base::Code::User,
     "ask for fewer nodes, less time or fewer jobs at once, or use another account or QOS"},
    {"--time specification", base::Code::User, "give the time limit as D-HH:MM:SS"},
    {"time limit", base::Code::User,
     "lower the time limit to the partition's, and leave room for it before a --deadline; a run of "
     "Regatta goes on in the next job"},
    {"node count", base::Code::User,
     "ask for as many nodes as the partition has and allows (`regatta nodes`)"},
    {"more processors requested", base::Code::User, "ask for fewer CPUs per node"},
    {"cpu count", base::Code::User, "ask for fewer CPUs per node"},
    {"requested node configuration is not available", base::Code::User,
     "no node of the partition has that many CPUs or GPUs, that memory or those features; compare "
     "with `regatta nodes`"},
    {"generic resource", base::Code::User,
     "name GPUs as the cluster does: see the column of GPUs in `regatta nodes`"},
    {"gres", base::Code::User,
     "name GPUs as the cluster does: see the column of GPUs in `regatta nodes`"},
    {"memory required by task", base::Code::User, "ask for less memory per node"},
    {"memory specification", base::Code::User, "ask for less memory per node"},
    {"invalid feature", base::Code::User, "name features that `regatta nodes` lists"},
    {"reservation", base::Code::User, "name a reservation that is yours and has begun, or none"},
    {"invalid node name", base::Code::User, "name nodes of this cluster (`regatta nodes`)"},
    {"dependency", base::Code::User, "name jobs that exist in the dependency, or none"},
    {"license", base::Code::User, "name licenses that `scontrol show licenses` lists"},
    {"access/permission denied", base::Code::User,
     "you may not do that here; ask the cluster's operators"},
    {"invalid user id", base::Code::Operator,
     "the cluster does not know this user; ask the cluster's operators"},
    {"submissions disabled", base::Code::Retry, "wait until the operators allow submissions again"},
    {"temporarily unable to accept job", base::Code::Retry, "the queue is full; wait"},
    {"try again", base::Code::Retry, "wait a moment"},
    {"i/o error writing script", base::Code::Operator,
     "slurmctld's disk is full or broken; ask the cluster's operators"},
    {"pathname", base::Code::User, "use shorter paths"},
    {"unable to open file", base::Code::Operator, "the script must be readable on this machine"},
    {"unrecognized option", base::Code::User,
     "this release of Slurm does not know the option; leave it out"},
    {"invalid option", base::Code::User,
     "this release of Slurm does not know the option; leave it out"},
};

const Hint* find_hint(View text) {
  const std::string small = base::lower_case(text);
  for (const Hint& hint : kHints) {
    if (small.find(hint.part) != std::string::npos) return &hint;
  }
  return nullptr;
}

// The line that says most: the last one with "error", else with "program: text", else the last one.
// The error before it stands in front: sbatch says there which limit forbids a job.
std::string one_line(const base::Output& output) {
  std::string best, before;
  int best_rank = 0;
  for (const std::string* const text : {&output.text, &output.errors}) {
    // Of the megabytes that an answer may have, its end.
    constexpr std::size_t kLooked = std::size_t{2} << 20U;
    const View tail = View(*text).substr(text->size() - std::min(text->size(), kLooked));
    for (const std::string& line : base::split(tail, '\n')) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const int rank = line.find("error") != std::string::npos ? 2
                       : line.find(": ") != std::string::npos  ? 1
                                                               : 0;
      if (rank < best_rank || line == best) continue;
      before = rank == 2 && best_rank == 2 ? best + "; " : "";
      best = line.size() > kMostMessageBytes ? line.substr(0, kMostMessageBytes) + "…" : line;
      best_rank = rank;
    }
  }
  return base::printable(before + best);
}

std::string ending(const base::Output& output) {
  if (output.stopped) return "was ended because its asker ends";
  if (output.timed_out) return "did not answer in time and was ended";
  if (output.exit.signal) return "was ended by signal " + std::to_string(*output.exit.signal);
  return "ended with code " + std::to_string(output.exit.code.value_or(-1));
}

std::string described(const std::string& program, const base::Output& output) {
  const std::string line = one_line(output);
  return program + " " + ending(output) + (line.empty() ? "" : ": " + line);
}

// The text less every value of an argument that could pass for one of Slurm's own sentences.
std::string without_echo(std::string text, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    const std::string value = argument.substr(equals == std::string::npos ? 0 : equals + 1);
    const std::string small = base::lower_case(value);
    if (!has_any(small, kTransport) && !has_any(small, kRateLimit) && find_hint(small) == nullptr) {
      continue;
    }
    for (std::size_t at = 0; (at = text.find(value, at)) != std::string::npos;) {
      text.erase(at, value.size());
    }
  }
  return text;
}

// Whether a query's answer came to its end. A query that says on the way that slurmctld cannot be
// reached has no answer, whatever it returns.
bool is_whole(const base::Output& output) {
  if (output.cut) return false;
  if (output.text.empty()) return !has_any(base::lower_case(output.errors), kTransport);
  return output.text.back() == '\n';
}

// For answers that are good as a whole or not at all.
template <class Parse>
auto whole(Parse parse) {
  return [parse](const base::Output& output) -> decltype(std::optional(parse(output.text))) {
    if (!is_whole(output)) return std::nullopt;
    return parse(output.text);
  };
}

std::optional<Done> done(const base::Output&) { return Done{}; }

void require_id(const std::string& id) {
  if (is_job_id(id)) return;
  throw base::Error(base::Code::User,
                    "\"" + base::printable(id) + "\" is not a job id; it is a number");
}

}  // namespace

std::map<std::string, std::string> slurm_environment(
    const std::map<std::string, std::string>& whole) {
  std::map<std::string, std::string> kept;
  for (const char* const name : {"SLURM_CONF", "PATH", "HOME", "USER", "LOGNAME", "TZ"}) {
    const auto found = whole.find(name);
    if (found != whole.end()) kept.insert(*found);
  }
  kept["LANG"] = "C";
  kept["LC_ALL"] = "C";
  return kept;
}

std::vector<std::string> ignored_variables(const std::map<std::string, std::string>& whole) {
  std::vector<std::string> names;
  for (const auto& [name, value] : whole) {
    if (name.rfind("SBATCH_", 0) == 0) names.push_back(name);
  }
  return names;
}

std::string refusal_hint(View text) {
  const Hint* const hint = find_hint(text);
  return hint == nullptr ? "" : std::string(hint->text);
}

SlurmFailure failure_of(const std::string& program, const base::Output& output) {
  const std::string message = described(program, output);
  if (output.stopped) return {FailureKind::Stopped, message};
  if (output.timed_out) return {FailureKind::Deadline, message};
  const std::string text = base::lower_case(output.errors + "\n" + output.text.substr(0, 65536));
  if (has_any(text, kRateLimit)) return {FailureKind::RateLimited, message};
  if (has_any(text, kDisabled)) return {FailureKind::Disabled, message};
  if (text.find(kUnconfigured) != std::string::npos &&
      text.find(kNameServiceAway) == std::string::npos) {
    return {FailureKind::Unconfigured, message};
  }
  if (output.exit.signal || has_any(text, kTransport)) return {FailureKind::Unreachable, message};
  if (has_any(text, kNotFound)) return {FailureKind::NotFound, message};
  return {FailureKind::Refused, message};
}

Submission submission_of(const base::Output& output, const std::vector<std::string>& arguments) {
  const std::string message = described("sbatch", output);
  const std::string errors = without_echo(output.errors, arguments);
  if (output.stopped || output.timed_out || output.exit.signal) return Ambiguous{message};
  if (output.exit.code == 0) {
    if (auto id = parse_submitted_id(output.text)) return Submitted{std::move(*id)};
    return Ambiguous{"sbatch reported success without a job id: " + one_line(output)};
  }
  const std::string text = base::lower_case(errors);
  if (output.exit.code == 127 && text.empty()) return Ambiguous{message};
  if (text.find(kNothingSent) != std::string::npos) {
    return Refused{message,
                   "sbatch finds neither slurm.conf nor a slurmctld that would send one; name the "
                   "file with SLURM_CONF, or submit on a node of the cluster",
                   base::Code::Retry};
  }
  if (has_any(text, kTransport)) return Ambiguous{message};
  if (has_any(text, kRateLimit)) {
    return Refused{message, "Slurm asks for fewer calls; wait", base::Code::Retry};
  }
  // Either slurmctld's answer, or sbatch itself before it sent anything.
  if (text.find("sbatch: ") == std::string::npos) return Ambiguous{message};
  const Hint* const hint = find_hint(errors);
  if (hint == nullptr) return Refused{message, "", base::Code::User};
  return Refused{message, std::string(hint->text), hint->code};
}

SlurmCommands::SlurmCommands(SlurmPaths paths, SlurmDeadlines deadlines,
                             std::map<std::string, std::string> environment)
    : paths_(std::move(paths)), deadlines_(deadlines), environment_(std::move(environment)) {}

base::Output SlurmCommands::run(std::vector<std::string> arguments, double deadline,
                                bool utc) const {
  for (const std::string& argument : arguments) {
    // exec would end the argument there, and another command than the one meant would run.
    if (argument.find('\0') == std::string::npos) continue;
    throw base::Error(base::Code::User,
                      "an argument for Slurm holds a NUL byte: " + base::printable(argument));
  }
  base::Command command;
  command.arguments = std::move(arguments);
  command.environment = environment_;
  command.bare_environment = true;
  command.most_text = kMostAnswerBytes;
  if (utc) command.environment["TZ"] = "UTC";  // times come without a zone
  return base::run(command, deadline, stop_);
}

SlurmCommands SlurmCommands::until(std::stop_token stop) const {
  SlurmCommands commands = *this;
  commands.stop_ = std::move(stop);
  return commands;
}

template <class T, class Parse>
Answer<T> SlurmCommands::ask(std::vector<std::string> arguments, double deadline,
                             Parse&& parse) const {
  Answer<T> answer;
  const std::string program = base::Path(arguments.front()).filename().string();
  const double begin = base::system_clock().monotonic_seconds();
  try {
    base::Output output = run(std::move(arguments), deadline, true);
    answer.seconds = base::system_clock().monotonic_seconds() - begin;
    if (!output.timed_out && !output.stopped && output.exit.code == 0) {
      answer.value = parse(output);
      if (!answer.value) {
        answer.failure = {FailureKind::Incomplete,
                          program +
                              (is_whole(output) ? " gave an answer that cannot be read: "
                                                : " gave an answer without its end: ") +
                              one_line(output)};
      }
    } else {
      // Rows say nothing of a failure, and have another separator the next time: it is one trouble.
      if constexpr (std::is_same_v<T, Jobs>) output.text.clear();
      answer.failure = failure_of(program, output);
    }
  } catch (const base::Error& error) {
    if (error.code() != base::Code::Operator) throw;
    answer.seconds = base::system_clock().monotonic_seconds() - begin;
    answer.failure = {FailureKind::Missing, error.what()};
  }
  return answer;
}

Answer<SlurmVersion> SlurmCommands::version() const {
  const auto of = [&](const std::string& program) {
    return ask<SlurmVersion>({program, "--version"}, deadlines_.query_seconds,
                             whole(parse_slurm_version));
  };
  for (const std::string& program : {paths_.squeue, paths_.scontrol, paths_.scancel}) {
    const Answer<SlurmVersion> other = of(program);
    if (!other.value) return other;
  }
  return of(paths_.sbatch);
}

Submission SlurmCommands::sbatch(const std::vector<std::string>& options,
                                 const base::Path& script) const {
  if (!script.is_absolute()) {
    throw base::Error(base::Code::Developer, "a batch script is named by its absolute path, not " +
                                                 base::printable(script.string()));
  }
  std::vector<std::string> arguments = {paths_.sbatch, "--parsable"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.push_back(script.string());
  try {
    return submission_of(run(arguments, deadlines_.change_seconds, false), options);
  } catch (const base::Error& error) {
    // Nothing was started.
    return Refused{error.what(), "", error.code()};
  }
}

Answer<Jobs> SlurmCommands::squeue(const JobQuery& query) const {
  const std::string separator = random_separator();
  std::vector<std::string> arguments = squeue_arguments(query, separator);
  arguments.insert(arguments.begin(), paths_.squeue);
  return ask<Jobs>(std::move(arguments), deadlines_.query_seconds, [&](const base::Output& output) {
    Jobs jobs = parse_squeue(output.text, separator);
    jobs.whole = jobs.whole && is_whole(output);
    return std::optional<Jobs>(std::move(jobs));
  });
}

Answer<Jobs> SlurmCommands::sacct(const JobQuery& query, double since,
                                  const SlurmVersion& version) const {
  const auto ask_with = [&](const SlurmVersion& columns) {
    const std::string separator = random_separator();
    std::vector<std::string> arguments = sacct_arguments(query, since, separator, columns);
    arguments.insert(arguments.begin(), paths_.sacct);
    return ask<Jobs>(std::move(arguments), deadlines_.query_seconds,
                     [&](const base::Output& output) {
                       Jobs jobs = parse_sacct(output.text, separator, columns);
                       jobs.whole = jobs.whole && is_whole(output);
                       return std::optional<Jobs>(std::move(jobs));
                     });
  };
  Answer<Jobs> answer = ask_with(version);
  // A column that this sacct lacks makes it refuse everything; some columns came within a release.
  if (answer.failure && answer.failure->message.find("Invalid field") != std::string::npos) {
    answer = ask_with(SlurmVersion{});
  }
  return answer;
}

Answer<JobRow> SlurmCommands::show_job(const std::string& id) const {
  require_id(id);
  return ask<JobRow>({paths_.scontrol, "--oneliner", "show", "job", id}, deadlines_.query_seconds,
                     whole([&](View text) { return parse_scontrol_job(text, id); }));
}

Answer<Nodes> SlurmCommands::sinfo() const {
  const std::string separator = random_separator();
  std::vector<std::string> arguments = sinfo_arguments(separator);
  arguments.insert(arguments.begin(), paths_.sinfo);
  return ask<Nodes>(std::move(arguments), deadlines_.query_seconds,
                    whole([&](View text) { return parse_sinfo(text, separator); }));
}

Answer<Nodes> SlurmCommands::show_nodes() const {
  return ask<Nodes>({paths_.scontrol, "--all", "--oneliner", "show", "node"},
                    deadlines_.query_seconds, whole(parse_scontrol_nodes));
}

Answer<std::vector<PartitionRow>> SlurmCommands::show_partitions() const {
  using Rows = std::vector<PartitionRow>;
  return ask<Rows>({paths_.scontrol, "--all", "--oneliner", "show", "partition"},
                   deadlines_.query_seconds, whole(parse_scontrol_partitions));
}

Answer<ClusterConfig> SlurmCommands::show_config() const {
  return ask<ClusterConfig>({paths_.scontrol, "show", "config"}, deadlines_.query_seconds,
                            whole(parse_scontrol_config));
}

Answer<std::vector<Reservation>> SlurmCommands::show_reservations() const {
  return ask<std::vector<Reservation>>(
      {paths_.scontrol, "--oneliner", "show", "reservation"}, deadlines_.query_seconds,
      whole([](View text) { return std::optional(parse_reservations(text)); }));
}

Answer<Done> SlurmCommands::cancel(const std::string& id, const std::string& name,
                                   const std::string& signal) const {
  require_id(id);
  std::vector<std::string> arguments = {paths_.scancel};
  if (!name.empty()) arguments.push_back("--name=" + name);
  if (!signal.empty()) arguments.push_back("--signal=" + signal);
  arguments.push_back(id);
  return ask<Done>(std::move(arguments), deadlines_.change_seconds, done);
}

Answer<Done> SlurmCommands::requeue(const std::string& id) const {
  require_id(id);
  return ask<Done>({paths_.scontrol, "requeue", id}, deadlines_.change_seconds, done);
}

Answer<Done> SlurmCommands::exclude(const std::string& id,
                                    const std::vector<std::string>& nodes) const {
  require_id(id);
  return ask<Done>(
      {paths_.scontrol, "update", "JobId=" + id, "ExcNodeList=" + base::join(nodes, ",")},
      deadlines_.change_seconds, done);
}

Answer<Done> SlurmCommands::limit(const std::string& id, std::int64_t minutes) const {
  require_id(id);
  return ask<Done>(
      {paths_.scontrol, "update", "JobId=" + id, "TimeLimit=" + std::to_string(minutes)},
      deadlines_.change_seconds, done);
}

Answer<Done> SlurmCommands::release(const std::string& id) const {
  require_id(id);
  return ask<Done>({paths_.scontrol, "release", id}, deadlines_.change_seconds, done);
}

}  // namespace regatta::orchestrator::slurm
