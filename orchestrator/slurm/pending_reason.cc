#include "orchestrator/slurm/pending_reason.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/text.h"

namespace regatta::orchestrator::slurm {
namespace {

using View = std::string_view;
using F = ReasonFamily;

constexpr std::size_t kMostReasonBytes = 400;

struct Known {
  View name;
  F family;
  Clears clears;
  View sentence;
  View action;
};

constexpr View kOtherResources = "ask for less, or for another partition";
constexpr View kAskAdmin = "ask the cluster's operators";

// One word, one meaning. Compared without case and punctuation.
constexpr Known kKnown[] = {
    {"None", F::None, Clears::ByItself, "Slurm has not considered the job yet", ""},
    {"Priority", F::Queue, Clears::ByItself, "jobs of higher priority come first", ""},
    {"Resources", F::Queue, Clears::ByItself, "it is next, once enough nodes are free", ""},
    {"BeginTime", F::Queue, Clears::ByItself,
     "its earliest start is not reached; after a requeue Slurm itself waits a while", ""},
    {"Dependency", F::Queue, Clears::Perhaps, "it waits for other jobs", ""},
    {"Licenses", F::Queue, Clears::ByItself, "all licenses it asks for are in use", ""},
    {"Reservation", F::Queue, Clears::ByItself, "its reservation has not begun", ""},
    {"Cleaning", F::Queue, Clears::ByItself, "its previous execution is being cleaned up", ""},
    {"JobArrayTaskLimit", F::Queue, Clears::ByItself,
     "as many tasks of its array run as may at once", ""},
    {"SchedDefer", F::Queue, Clears::ByItself, "the scheduler has put off looking at it", ""},
    {"Prolog", F::Queue, Clears::ByItself, "its nodes are being prepared", ""},
    {"FedJobLock", F::Queue, Clears::ByItself, "the clusters of a federation agree who runs it",
     ""},
    {"Federation", F::Queue, Clears::ByItself, "it may start in another cluster", ""},
    {"BurstBufferResources", F::Queue, Clears::ByItself, "the burst buffer is full", ""},
    {"BurstBufferStageIn", F::Queue, Clears::ByItself,
     "its data is being copied to the burst buffer", ""},
    {"PowerNotAvail", F::Queue, Clears::Perhaps, "the cluster's power budget is used up", ""},
    {"PowerReserved", F::Queue, Clears::Perhaps, "power is kept for a reservation", ""},
    {"QOSUsageThreshold", F::Limit, Clears::Perhaps,
     "its account has used more than its QOS demands to be left",
     "wait until the usage decays, or choose another QOS or account"},
    {"AccountingPolicy", F::Limit, Clears::Perhaps, "a limit of its account or QOS is reached",
     kOtherResources},

    {"BadConstraints", F::Impossible, Clears::Never,
     "no node has the features, memory or GPUs it asks for together",
     "compare the request with `regatta nodes`; `regatta cancel`, then `regatta resume --set "
     "slurm.KEY=…` with what exists"},
    {"Constraints", F::Impossible, Clears::Never,
     "the features it asks for cannot be satisfied together",
     "compare the request with `regatta nodes`; `regatta cancel`, then `regatta resume --set "
     "slurm.KEY=…` with what exists"},
    {"PartitionNodeLimit", F::Impossible, Clears::Never,
     "it asks for more or fewer nodes than its partition has or allows",
     "ask for a number of nodes that the partition allows"},
    {"PartitionTimeLimit", F::Impossible, Clears::Never, "its time limit is above the partition's",
     "lower the time limit; the run continues itself in the next job"},
    {"PartitionConfig", F::Impossible, Clears::Never,
     "its partition's configuration does not admit the request",
     "choose another partition, or ask for what this one offers"},
    {"MaxMemPerLimit", F::Impossible, Clears::Never,
     "it asks for more memory per node or CPU than its partition allows", "ask for less memory"},
    {"DependencyNeverSatisfied", F::Impossible, Clears::Never,
     "a job it depends on has ended in a way that rules its start out",
     "`regatta cancel`, then `regatta resume --set slurm.options=[…]` without that dependency"},
    {"InvalidAccount", F::Impossible, Clears::Never, "its account does not exist or is not yours",
     "choose one of the accounts that `sacctmgr show associations user=$USER` lists"},
    {"AccountNotAllowed", F::Impossible, Clears::Never, "its partition is not open to its account",
     "choose another partition or account"},
    {"GroupNotAllowed", F::Impossible, Clears::Never, "its partition is not open to your group",
     "choose another partition"},
    {"InvalidQOS", F::Impossible, Clears::Never, "its QOS does not exist or is not yours",
     "choose one of the QOS that `sacctmgr show associations user=$USER` lists"},
    {"QOSNotAllowed", F::Impossible, Clears::Never, "its partition does not accept its QOS",
     "choose another partition or QOS"},
    {"ReservationDeleted", F::Impossible, Clears::Never, "its reservation has been deleted",
     "`regatta cancel`, then `regatta resume --set slurm.reservation=…` with another, or \"\" for "
     "none"},
    {"ReservationInvalid", F::Impossible, Clears::Never,
     "its reservation does not exist or is not open to you",
     "`regatta cancel`, then `regatta resume --set slurm.reservation=…` with another, or \"\" for "
     "none"},
    {"DeadLine", F::Impossible, Clears::Never, "it can no longer end before its deadline",
     "`regatta cancel`, then `regatta resume --set slurm.options=[…]` with a later deadline"},

    {"JobHeldUser", F::Held, Clears::Never, "its owner holds it",
     "release it: scontrol release ID"},
    {"JobHeldAdmin", F::Held, Clears::Never, "an operator holds it",
     "ask the cluster's operators to release it (scontrol release ID), or cancel the run"},
    {"JobHoldMaxRequeue", F::Stuck, Clears::Never,
     "Slurm holds it because it was requeued too often",
     "find out why its executions ended (`regatta explain`), then: scontrol release ID"},
    {"JobHoldLaunchFailure", F::Stuck, Clears::Never,
     "Slurm holds it because its launch failed, as when a prolog fails",
     "ask the operators to look at the node that was drained, then: scontrol release ID"},
    {"LaunchFailedRequeuedHeld", F::Stuck, Clears::Never,
     "its launch failed, as when a prolog fails; Slurm requeued it and holds it",
     "ask the operators to look at the node that was drained, then: scontrol release ID"},
    {"UserEnvRetrievalFailedRequeuedHeld", F::Stuck, Clears::Never,
     "the environment of its user could not be read on its node; Slurm requeued it and holds it",
     "ask the operators to look at the node, then: scontrol release ID"},
    {"JobRequeuedInHeldState", F::Held, Clears::Never,
     "an operator, or a rule of the cluster about exit codes, had it requeued and held",
     "find out why (`regatta explain`), then: scontrol release ID"},
    {"JobHeld", F::Held, Clears::Never, "it is held", "release it: scontrol release ID"},

    {"ReqNodeNotAvail", F::Broken, Clears::Perhaps, "a node it needs is down, drained or reserved",
     ""},
    {"NodesNotUsable", F::Broken, Clears::Perhaps,
     "too few of the nodes that it may use are up and free: they are down, drained or kept for "
     "jobs "
     "of higher priority",
     "wait until nodes are back (`regatta nodes`), or ask for fewer"},
    {"NodeDown", F::Broken, Clears::Perhaps, "a node it needs is down",
     "exclude that node, or wait until it is repaired"},
    {"FrontEndDown", F::Broken, Clears::Perhaps, "no front end node is up", kAskAdmin},
    {"PartitionDown", F::Broken, Clears::Perhaps, "its partition starts no jobs now (DOWN)",
     "wait for the operators, or choose another partition"},
    {"PartitionInactive", F::Broken, Clears::Perhaps,
     "its partition neither takes nor starts jobs now (INACTIVE)",
     "wait for the operators, or choose another partition"},
    {"SystemFailure", F::Broken, Clears::Perhaps, "Slurm itself failed", kAskAdmin},
    {"JobLaunchFailure", F::Broken, Clears::Perhaps,
     "it could not be started on its nodes: a missing directory, a failing prolog, a full disk",
     "read the job's log and the reasons of its nodes (`regatta nodes`)"},
    {"BurstBufferOperation", F::Broken, Clears::Never, "an operation of the burst buffer failed",
     kAskAdmin},

    {"NonZeroExitCode", F::Ended, Clears::Never, "it ended with an exit code other than 0", ""},
    {"RaisedSignal", F::Ended, Clears::Never, "a signal ended it", ""},
    {"TimeLimit", F::Ended, Clears::Never, "it reached its time limit", ""},
    {"InactiveLimit", F::Ended, Clears::Never, "it did nothing for longer than the cluster allows",
     ""},
    {"OutOfMemory", F::Ended, Clears::Never, "it used more memory than it had asked for",
     "ask for more memory per node, or use smaller batches per rank"},

    // Summary words of releases before the single limits had names.
    {"AssociationJobLimit", F::Limit, Clears::Perhaps,
     "its account has as many jobs as it may have", "wait for its other jobs, or cancel some"},
    {"AssociationResourceLimit", F::Limit, Clears::Perhaps,
     "its account has as many resources as it may have", kOtherResources},
    {"AssociationTimeLimit", F::Limit, Clears::Perhaps, "its account has used up its time",
     "wait for the next period, or use another account"},
    {"QOSJobLimit", F::Limit, Clears::Perhaps, "its QOS has as many jobs as it may have",
     "wait for its other jobs, or cancel some"},
    {"QOSResourceLimit", F::Limit, Clears::Perhaps, "its QOS has as many resources as it may have",
     kOtherResources},
    {"QOSTimeLimit", F::Limit, Clears::Perhaps, "its QOS has used up its time",
     "wait for the next period, or use another QOS"},
};

// Slurm also gives whole sentences. `name` stands for the word that means the same; what the
// sentence holds in parentheses is the detail.
struct Sentence {
  View begin;  // folded
  View name;
};
constexpr Sentence kSentences[] = {
    {"nodesrequiredforjobaredown", "NodesNotUsable"},
    {"requirednodenotavailable", "NodesNotUsable"},
    {"jobsqosnotpermitted", "QOSNotAllowed"},
    {"jobsaccountnotpermitted", "AccountNotAllowed"},
    {"usersgroupnotpermitted", "GroupNotAllowed"},
};

// "launch_failed_requeued_held", "Launch failed requeued held" and "LaunchFailedRequeuedHeld" are
// one.
std::string folded(View text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

bool take(View& text, View prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// What a limit counts; the first that the name holds. Minutes come before what they are minutes of.
std::string counted(View name) {
  struct Unit {
    View part;
    View words;
  };
  constexpr Unit kUnits[] = {
      {"cpu", "CPUs"},
      {"gres", "GPUs or other devices"},
      {"mem", "memory"},
      {"node", "nodes"},
      {"energy", "energy"},
      {"license", "licenses"},
      {"billing", "billing units"},
      {"submit", "submitted jobs"},
      {"jobs", "running jobs"},
      {"wall", "time"},
      {"bb", "burst buffer"},
      {"unknown", "a counted resource"},
  };
  std::string words = "a counted resource";
  for (const Unit& unit : kUnits) {
    if (!has(name, unit.part)) continue;
    words = unit.words;
    break;
  }
  if (has(name, "runminutes")) return words + " × remaining minutes of running jobs";
  if (has(name, "minutes")) return words + " × minutes";
  return words;
}

// AssocGrp*, AssocMax*, QOSGrp*, QOSMax*, QOSMin*, Max*PerAccount: who limits, over whom, what.
std::optional<PendingReason> explain_limit(View name) {
  const bool by_qos = take(name, "qos");
  const bool by_account = !by_qos && take(name, "assoc");
  const bool group = (by_qos || by_account) && take(name, "grp");
  const bool least = !group && by_qos && take(name, "min");
  const bool most = !group && !least && take(name, "max");
  if (!group && !least && !most) return std::nullopt;
  if (name.empty()) return std::nullopt;
  const bool per_account = has(name, "peraccount") || has(name, "peracct");
  if (!by_qos && !by_account && !per_account) return std::nullopt;
  const std::string owner = by_account ? "account" : "QOS";
  const std::string what = counted(name);
  PendingReason reason;
  if (least) {
    reason = {F::Impossible, "it asks for less of " + what + " than its QOS demands of a job",
              "ask for more, or choose another QOS", Clears::Never};
  } else if (has(name, "wallduration") || (most && (has(name, "perjob") || has(name, "pernode")))) {
    const std::string one = has(name, "pernode") ? "a node of a job" : "one job";
    reason = {F::Impossible,
              "it asks for more of " + what + " than its " + owner + " allows " + one,
              has(name, "wall") ? "lower the time limit; the run continues itself in the next job"
                                : "ask for less, or choose another " + owner,
              Clears::Never};
  } else {
    std::string whom = "all its jobs together";
    if (has(name, "peruser")) whom = "one user";
    if (per_account) whom = "one account";
    if (most && by_account) whom = "its user";
    reason = {F::Limit,
              "the limit of its " + owner + " on " + what + " for " + whom + " is reached",
              has(name, "minutes") ? "wait until the usage decays or the period ends, or choose "
                                     "another " +
                                         owner
                                   : "wait for the other jobs that count, or ask for less",
              Clears::Perhaps};
  }
  return reason;
}

// Without blanks and one pair of parentheses around all of it.
View bare(View text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty() || text.front() != '(') return text;
  text.remove_prefix(1);
  if (!text.empty() && text.back() == ')') text.remove_suffix(1);
  return text;
}

struct Cut {
  View word;
  std::string name;  // folded, of kKnown where it is a sentence
  View detail;
};

// "ReqNodeNotAvail, UnavailableNodes:node01": a word and its detail.
Cut cut_reason(View reason) {
  const std::string whole = folded(reason);
  for (const Sentence& sentence : kSentences) {
    if (whole.rfind(sentence.begin, 0) != 0) continue;
    const std::size_t open = reason.find('(');
    const View detail = open == View::npos ? View() : bare(reason.substr(open));
    return {reason, folded(sentence.name), detail};
  }
  const std::size_t comma = reason.find(',');
  View detail = comma == View::npos ? View() : reason.substr(comma + 1);
  while (!detail.empty() && (detail.front() == ' ' || detail.front() == '_')) {
    detail.remove_prefix(1);
  }
  const View word = reason.substr(0, comma);
  return {word, folded(word), detail};
}

}  // namespace

std::string_view to_string(ReasonFamily family) {
  switch (family) {
    case F::None:
      return "none";
    case F::Queue:
      return "queue";
    case F::Limit:
      return "limit";
    case F::Impossible:
      return "impossible";
    case F::Held:
      return "held";
    case F::Stuck:
      return "stuck";
    case F::Broken:
      return "broken";
    case F::Ended:
      return "ended";
    case F::Unknown:
      break;
  }
  return "unknown";
}

std::string_view to_string(Clears clears) {
  switch (clears) {
    case Clears::ByItself:
      return "by itself";
    case Clears::Perhaps:
      return "perhaps";
    case Clears::Never:
      return "never";
  }
  return "";
}

PendingReason explain_reason(View reason) {
  reason = bare(reason.substr(0, kMostReasonBytes));
  const Cut cut = cut_reason(reason);
  const View word = cut.word;
  const View detail = cut.detail;
  const std::string name = cut.name;
  if (name.empty() || name == "null") {
    return {F::None, "Slurm gives no reason", "", Clears::ByItself};
  }
  PendingReason out;
  const auto* const known =
      std::find_if(std::begin(kKnown), std::end(kKnown),
                   [&](const Known& one) { return folded(one.name) == name; });
  if (known != std::end(kKnown)) {
    out = {known->family, std::string(known->sentence), std::string(known->action), known->clears};
  } else if (auto limit = explain_limit(name)) {
    out = std::move(*limit);
  } else {
    out = {F::Unknown, "Slurm gives a reason that is not known here: " + base::printable(word),
           "see the manual page of squeue (JOB REASON CODES), or ask the cluster's operators",
           Clears::Perhaps};
  }
  if (!detail.empty()) out.sentence += " (" + base::printable(detail) + ")";
  if (name == "reqnodenotavail") {
    const bool maintenance = has(folded(detail), "reservedformaintenance");
    out.action = maintenance ? "wait for the end of the maintenance"
                             : "wait until the node is back, or ask for nodes without naming them";
  }
  return out;
}

}  // namespace regatta::orchestrator::slurm
