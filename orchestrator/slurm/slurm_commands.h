// Slurm by its command line: each call a child process with an argument vector, a deadline, a
// bounded output and an environment of its own; never a shell.
#pragma once

#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "base/process.h"
#include "orchestrator/slurm/reservations.h"
#include "orchestrator/slurm/slurm_text.h"

namespace regatta::orchestrator::slurm {

// Names are found in PATH.
struct SlurmPaths {
  std::string sbatch = "sbatch";
  std::string squeue = "squeue";
  std::string sacct = "sacct";
  std::string scontrol = "scontrol";
  std::string scancel = "scancel";
  std::string sinfo = "sinfo";
};

// A stopped slurmctld keeps a command for 10 s before it gives up by itself; the deadlines lie
// above.
struct SlurmDeadlines {
  double query_seconds = 20;
  double change_seconds = 30;  // sbatch, scancel, scontrol requeue
};

// Of a program's environment what Slurm's commands may see: SLURM_CONF, PATH, HOME, USER, LOGNAME
// and TZ. LANG and LC_ALL become C. So no SBATCH_*, SQUEUE_*, SACCT_*, SLURM_TIME_FORMAT or
// SLURM_JWT changes what they do.
[[nodiscard]] std::map<std::string, std::string> slurm_environment(
    const std::map<std::string, std::string>& whole);

// Names in it that would change what sbatch does and do not: SBATCH_*, in order.
[[nodiscard]] std::vector<std::string> ignored_variables(
    const std::map<std::string, std::string>& whole);

struct Submitted {
  std::string id;
};
struct Refused {  // certainly no job
  std::string reason;
  std::string hint;  // what to do; may be empty
  base::Code code = base::Code::User;
};
struct Ambiguous {  // there may be a job: look it up by its token, never just repeat
  std::string why;
};
using Submission = std::variant<Submitted, Refused, Ambiguous>;

enum class FailureKind {
  Deadline,      // no answer in time; the command was killed
  Unreachable,   // slurmctld or slurmdbd could not be reached, or the command died
  RateLimited,   // Slurm asks to be asked less often
  Refused,       // it was understood and refused
  NotFound,      // there is no such job, or it has ended
  Disabled,      // the cluster keeps no accounting
  Missing,       // the command cannot be started
  Unconfigured,  // it finds no slurm.conf, and nobody who would send one
  Incomplete,    // the answer was cut off, or is not one
  Stopped,       // the caller did not want it any more
};
struct SlurmFailure {
  FailureKind kind = FailureKind::Unreachable;
  std::string message;  // one line
};

template <class T>
struct Answer {
  std::optional<T> value;  // one of the two is set
  std::optional<SlurmFailure> failure;
  double seconds = 0;  // that the call took
};
struct Done {};

// What a command's end means, when it is not success.
[[nodiscard]] SlurmFailure failure_of(const std::string& program, const base::Output& output);
// What sbatch's end means. Of what it repeats of its arguments nothing counts: a partition may be
// called "munge".
[[nodiscard]] Submission submission_of(const base::Output& output,
                                       const std::vector<std::string>& arguments = {});
// What a user can do about a text with which sbatch refuses; empty when it is not known.
[[nodiscard]] std::string refusal_hint(std::string_view text);

class SlurmCommands {
 public:
  // environment: see slurm_environment().
  SlurmCommands(SlurmPaths paths, SlurmDeadlines deadlines,
                std::map<std::string, std::string> environment);

  // The same commands, each given up as soon as `stop` is requested; an sbatch is then ambiguous.
  [[nodiscard]] SlurmCommands until(std::stop_token stop) const;

  // Of the programs, all of which have to be there; asks nobody else.
  [[nodiscard]] Answer<SlurmVersion> version() const;

  // `sbatch --parsable OPTIONS SCRIPT`. options: as batch_script.h makes them, without --parsable.
  // The working directory is that of this process.
  [[nodiscard]] Submission sbatch(const std::vector<std::string>& options,
                                  const base::Path& script) const;

  // An answer of squeue or sacct of which a part is damaged or missing is a value that is not
  // whole; every other answer is a value only when it came to its end.
  [[nodiscard]] Answer<Jobs> squeue(const JobQuery& query) const;
  // since: seconds since 1970.
  [[nodiscard]] Answer<Jobs> sacct(const JobQuery& query, double since,
                                   const SlurmVersion& version) const;
  [[nodiscard]] Answer<JobRow> show_job(const std::string& id) const;
  [[nodiscard]] Answer<Nodes> sinfo() const;
  [[nodiscard]] Answer<Nodes> show_nodes() const;
  [[nodiscard]] Answer<std::vector<PartitionRow>> show_partitions() const;
  [[nodiscard]] Answer<ClusterConfig> show_config() const;
  [[nodiscard]] Answer<std::vector<Reservation>> show_reservations() const;

  // Cancels, or with `signal` ("USR2") signals the job's steps. Only a job that also has this name,
  // the one that squeue shows (if it has any): Slurm has given an id to a second job after a crash.
  [[nodiscard]] Answer<Done> cancel(const std::string& id, const std::string& name,
                                    const std::string& signal = "") const;
  [[nodiscard]] Answer<Done> requeue(const std::string& id) const;
  // A waiting job shall not start on these nodes (names or hostlists); they replace the ones that
  // it had, and none lets it start anywhere.
  [[nodiscard]] Answer<Done> exclude(const std::string& id,
                                     const std::vector<std::string>& nodes) const;
  // From the start of a job that runs, from now on for one that waits. Slurm lets only operators
  // give a job that runs more time than it has.
  [[nodiscard]] Answer<Done> limit(const std::string& id, std::int64_t minutes) const;
  [[nodiscard]] Answer<Done> release(const std::string& id) const;

 private:
  template <class T, class Parse>
  [[nodiscard]] Answer<T> ask(std::vector<std::string> arguments, double deadline,
                              Parse&& parse) const;
  [[nodiscard]] base::Output run(std::vector<std::string> arguments, double deadline,
                                 bool utc) const;

  SlurmPaths paths_;
  SlurmDeadlines deadlines_;
  std::map<std::string, std::string> environment_;
  std::stop_token stop_;
};

}  // namespace regatta::orchestrator::slurm
