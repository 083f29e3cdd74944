#include "orchestrator/slurm/pending_reason.h"

#include <gmock/gmock.h>

#include "base/text.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using F = slurm::ReasonFamily;
using C = slurm::Clears;

struct Row {
  const char* reason;
  F family;
  C clears;
  const char* sentence;  // a part of it
};

const Row kRows[] = {
    {"None", F::None, C::ByItself, "not considered"},
    {"", F::None, C::ByItself, "no reason"},
    {"(null)", F::None, C::ByItself, "no reason"},
    {"Priority", F::Queue, C::ByItself, "higher priority"},
    {"(Priority)", F::Queue, C::ByItself, "higher priority"},
    {"Resources", F::Queue, C::ByItself, "free"},
    {"BeginTime", F::Queue, C::ByItself, "earliest start"},
    {"Dependency", F::Queue, C::Perhaps, "other jobs"},
    {"Licenses", F::Queue, C::ByItself, "licenses"},
    {"Reservation", F::Queue, C::ByItself, "reservation"},
    {"Cleaning", F::Queue, C::ByItself, "cleaned up"},
    {"JobArrayTaskLimit", F::Queue, C::ByItself, "array"},
    {"SchedDefer", F::Queue, C::ByItself, "put off"},
    {"Prolog", F::Queue, C::ByItself, "prepared"},
    {"FedJobLock", F::Queue, C::ByItself, "federation"},
    {"BurstBufferResources", F::Queue, C::ByItself, "burst buffer"},
    {"BurstBufferStageIn", F::Queue, C::ByItself, "copied"},
    {"PowerNotAvail", F::Queue, C::Perhaps, "power"},
    {"AssocGrpCpuLimit", F::Limit, C::Perhaps, "its account on CPUs for all its jobs"},
    {"AssocGrpCPUMinutesLimit", F::Limit, C::Perhaps, "CPUs × minutes"},
    {"AssocGrpCPURunMinutesLimit", F::Limit, C::Perhaps, "remaining minutes"},
    {"AssocGrpJobsLimit", F::Limit, C::Perhaps, "running jobs"},
    {"AssocGrpSubmitJobsLimit", F::Limit, C::Perhaps, "submitted jobs"},
    {"AssocGrpMemLimit", F::Limit, C::Perhaps, "memory"},
    {"AssocGrpMemRunMinutes", F::Limit, C::Perhaps, "memory × remaining minutes"},
    {"AssocGrpNodeLimit", F::Limit, C::Perhaps, "nodes"},
    {"AssocGrpWallLimit", F::Limit, C::Perhaps, "time"},
    {"AssocGrpGRES", F::Limit, C::Perhaps, "GPUs"},
    {"AssocGrpGRESMinutes", F::Limit, C::Perhaps, "GPUs or other devices × minutes"},
    {"AssocGrpEnergy", F::Limit, C::Perhaps, "energy"},
    {"AssocGrpLicense", F::Limit, C::Perhaps, "licenses"},
    {"AssocGrpBB", F::Limit, C::Perhaps, "burst buffer"},
    {"AssocGrpBilling", F::Limit, C::Perhaps, "billing"},
    {"AssocGrpUnknown", F::Limit, C::Perhaps, "a counted resource"},
    {"AssocMaxJobsLimit", F::Limit, C::Perhaps, "running jobs for its user"},
    {"AssocMaxSubmitJobLimit", F::Limit, C::Perhaps, "submitted jobs"},
    {"AssocMaxCpuPerJobLimit", F::Impossible, C::Never, "CPUs than its account allows one job"},
    {"AssocMaxCpuMinutesPerJobLimit", F::Impossible, C::Never, "CPUs × minutes"},
    {"AssocMaxNodePerJobLimit", F::Impossible, C::Never, "nodes"},
    {"AssocMaxWallDurationPerJobLimit", F::Impossible, C::Never, "time"},
    {"AssocMaxGRESPerNode", F::Impossible, C::Never, "a node of a job"},
    {"AssocMaxMemPerNode", F::Impossible, C::Never, "memory"},
    {"QOSGrpCpuLimit", F::Limit, C::Perhaps, "its QOS on CPUs"},
    {"QOSGrpGRES", F::Limit, C::Perhaps, "GPUs"},
    {"QOSGrpMemoryMinutes", F::Limit, C::Perhaps, "memory × minutes"},
    {"QOSGrpNodeLimit", F::Limit, C::Perhaps, "nodes"},
    {"QOSGrpBillingRunMinutes", F::Limit, C::Perhaps, "billing"},
    {"QOSMaxGRESPerUser", F::Limit, C::Perhaps, "GPUs or other devices for one user"},
    {"QOSMaxJobsPerUserLimit", F::Limit, C::Perhaps, "running jobs for one user"},
    {"QOSMaxSubmitJobPerUserLimit", F::Limit, C::Perhaps, "submitted jobs"},
    {"QOSMaxCpuPerUserLimit", F::Limit, C::Perhaps, "CPUs for one user"},
    {"QOSMaxGRESPerJob", F::Impossible, C::Never, "GPUs"},
    {"QOSMaxWallDurationPerJobLimit", F::Impossible, C::Never, "time"},
    {"QOSMaxNodePerJobLimit", F::Impossible, C::Never, "nodes"},
    {"QOSMaxMemoryPerNode", F::Impossible, C::Never, "memory"},
    {"QOSMinCpuNotSatisfied", F::Impossible, C::Never, "less of CPUs"},
    {"QOSMinGRES", F::Impossible, C::Never, "less of GPUs"},
    {"QOSMinNode", F::Impossible, C::Never, "less of nodes"},
    {"MaxGRESPerAccount", F::Limit, C::Perhaps, "for one account"},
    {"MaxJobsPerAccount", F::Limit, C::Perhaps, "running jobs for one account"},
    {"MaxBillingPerAccount", F::Limit, C::Perhaps, "billing"},
    {"QOSUsageThreshold", F::Limit, C::Perhaps, "QOS"},
    {"AssociationJobLimit", F::Limit, C::Perhaps, "account"},
    {"QOSResourceLimit", F::Limit, C::Perhaps, "QOS"},
    {"AccountingPolicy", F::Limit, C::Perhaps, "limit"},
    {"BadConstraints", F::Impossible, C::Never, "no node"},
    {"PartitionNodeLimit", F::Impossible, C::Never, "nodes"},
    {"PartitionTimeLimit", F::Impossible, C::Never, "time limit"},
    {"PartitionConfig", F::Impossible, C::Never, "partition"},
    {"MaxMemPerLimit", F::Impossible, C::Never, "memory"},
    {"DependencyNeverSatisfied", F::Impossible, C::Never, "depends"},
    {"InvalidAccount", F::Impossible, C::Never, "account"},
    {"InvalidQOS", F::Impossible, C::Never, "QOS"},
    {"QOSNotAllowed", F::Impossible, C::Never, "QOS"},
    {"AccountNotAllowed", F::Impossible, C::Never, "account"},
    {"ReservationDeleted", F::Impossible, C::Never, "deleted"},
    {"ReservationInvalid", F::Impossible, C::Never, "reservation"},
    {"DeadLine", F::Impossible, C::Never, "deadline"},
    {"JobHeldUser", F::Held, C::Never, "owner"},
    {"JobHeldAdmin", F::Held, C::Never, "operator"},
    {"JobHoldMaxRequeue", F::Stuck, C::Never, "too often"},
    {"launch failed requeued held", F::Stuck, C::Never, "launch failed"},
    {"launch_failed_requeued_held", F::Stuck, C::Never, "launch failed"},
    {"user env retrieval failed requeued held", F::Stuck, C::Never, "environment"},
    {"job requeued in held state", F::Held, C::Never, "requeued and held"},
    {"job_requeued_in_held_state", F::Held, C::Never, "requeued and held"},
    {"Job's QOS not permitted to use this partition (short allows foo not normal)", F::Impossible,
     C::Never, "does not accept its QOS (short allows foo not normal)"},
    {"Job's account not permitted to use this partition (short denies a including b)",
     F::Impossible, C::Never, "account (short denies a including b)"},
    {"User's group not permitted to use this partition", F::Impossible, C::Never, "your group"},
    {"Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
     F::Broken, C::Perhaps, "up and free"},
    {"(Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_"
     "partitions)",
     F::Broken, C::Perhaps, "up and free"},
    {"JobLaunchFailure", F::Broken, C::Perhaps, "could not be started"},
    {"NodeDown", F::Broken, C::Perhaps, "down"},
    {"ReqNodeNotAvail", F::Broken, C::Perhaps, "drained"},
    {"ReqNodeNotAvail, UnavailableNodes:node[01-02]", F::Broken, C::Perhaps,
     "(UnavailableNodes:node[01-02])"},
    {"(ReqNodeNotAvail,_UnavailableNodes:node01)", F::Broken, C::Perhaps,
     "(UnavailableNodes:node01)"},
    {"ReqNodeNotAvail, Reserved for maintenance", F::Broken, C::Perhaps, "maintenance"},
    {"PartitionDown", F::Broken, C::Perhaps, "DOWN"},
    {"PartitionInactive", F::Broken, C::Perhaps, "INACTIVE"},
    {"SystemFailure", F::Broken, C::Perhaps, "Slurm"},
    {"FrontEndDown", F::Broken, C::Perhaps, "front end"},
    {"BurstBufferOperation", F::Broken, C::Never, "burst buffer"},
    {"NonZeroExitCode", F::Ended, C::Never, "exit code"},
    {"TimeLimit", F::Ended, C::Never, "time limit"},
    {"OutOfMemory", F::Ended, C::Never, "memory"},
    {"RaisedSignal", F::Ended, C::Never, "signal"},
    {"InactiveLimit", F::Ended, C::Never, "nothing"},
    {"MoonPhase", F::Unknown, C::Perhaps, "MoonPhase"},
    {"Max", F::Unknown, C::Perhaps, "Max"},
    {"QOSMax", F::Unknown, C::Perhaps, "QOSMax"},
    {"AssocGrp", F::Unknown, C::Perhaps, "AssocGrp"},
    {"MaxFun", F::Unknown, C::Perhaps, "MaxFun"},
    {"Quota\x1b[31m\nexceeded", F::Unknown, C::Perhaps, "Quota\\x1b[31m\\nexceeded"},
};

TEST(PendingReason, EveryFamily) {
  static_assert(std::size(kRows) >= 60);
  for (const Row& row : kRows) {
    const slurm::PendingReason reason = slurm::explain_reason(row.reason);
    EXPECT_EQ(slurm::to_string(reason.family), slurm::to_string(row.family)) << row.reason;
    EXPECT_EQ(reason.clears, row.clears) << row.reason;
    EXPECT_THAT(reason.sentence, HasSubstr(row.sentence)) << row.reason;
    EXPECT_EQ(base::printable(reason.sentence), reason.sentence) << "printable: " << row.reason;
    EXPECT_EQ(base::printable(reason.action), reason.action);
    const bool needs_somebody =
        reason.family == F::Impossible || reason.family == F::Held || reason.family == F::Stuck;
    EXPECT_TRUE(!needs_somebody || !reason.action.empty()) << "what to do: " << row.reason;
    EXPECT_TRUE(!needs_somebody || reason.clears == C::Never) << row.reason;
  }
}

TEST(PendingReason, SaysWhatToDo) {
  EXPECT_THAT(slurm::explain_reason("JobHeldUser").action, HasSubstr("scontrol release"));
  EXPECT_THAT(slurm::explain_reason("PartitionTimeLimit").action,
              HasSubstr("lower the time limit"));
  EXPECT_THAT(slurm::explain_reason("AssocMaxWallDurationPerJobLimit").action,
              HasSubstr("lower the time limit"));
  EXPECT_THAT(slurm::explain_reason("BadConstraints").action, HasSubstr("regatta nodes"));
  EXPECT_THAT(slurm::explain_reason("ReqNodeNotAvail, Reserved for maintenance").action,
              HasSubstr("maintenance"));
  EXPECT_THAT(slurm::explain_reason("ReqNodeNotAvail, UnavailableNodes:n1").action,
              HasSubstr("wait until the node is back"));
  EXPECT_THAT(slurm::explain_reason("MoonPhase").action, HasSubstr("manual page"));
  EXPECT_EQ(slurm::explain_reason("Priority").action, "");
}

TEST(PendingReason, AnyTextIsShortAndPrintable) {
  for (const std::string& text :
       {std::string(1 << 20, 'A'), std::string(1 << 20, '('), std::string(1 << 20, ','),
        std::string("\0\0", 2), std::string("a,\xff\x80\n"), std::string(1 << 20, ')')}) {
    const slurm::PendingReason reason = slurm::explain_reason(text);
    EXPECT_LT(reason.sentence.size(), 4000u);
    EXPECT_EQ(base::printable(reason.sentence), reason.sentence);
  }
}

}  // namespace
}  // namespace regatta::orchestrator
