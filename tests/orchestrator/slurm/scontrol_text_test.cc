#include <gmock/gmock.h>

#include <cmath>

#include "orchestrator/slurm/slurm_text.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre;

const std::string kShowJob =
    "JobId=31 JobName=regatta-0123456789abcdef UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A "
    "Priority=4294901756 Nice=0 Account=ml QOS=normal JobState=RUNNING Reason=None "
    "Dependency=(null) "
    "Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:01:40 TimeLimit=UNLIMITED "
    "TimeMin=N/A SubmitTime=2026-11-21T12:00:00 EligibleTime=2026-11-21T12:00:00 "
    "AccrueTime=2026-11-21T12:00:00 StartTime=2026-11-21T12:00:05 EndTime=Unknown Deadline=N/A "
    "Partition=main AllocNode:Sid=login:77 ReqNodeList=(null) ExcNodeList=node07 "
    "NodeList=node[01-02] BatchHost=node01 NumNodes=2 NumCPUs=64 NumTasks=2 CPUs/Task=1 "
    "ReqB:S:C:T=0:0:*:* TRES=cpu=64,mem=64000M,node=2,billing=64,gres/gpu=16 Socks/Node=* "
    "Command=/runs/a demo/submit/0123456789abcdef.sh --with arguments WorkDir=/home/ada "
    "Comment=regatta:0123456789abcdef StdErr=/runs/a.out StdIn=/dev/null StdOut=/runs/a.out Power= "
    "TresPerNode=gres:gpu:8\n";

TEST(Scontrol, Job) {
  const auto read = slurm::parse_scontrol_job(kShowJob, "31");
  ASSERT_TRUE(read);
  const slurm::JobRow& job = *read;
  EXPECT_EQ(job.id, "31");
  EXPECT_EQ(job.name, "regatta-0123456789abcdef");
  EXPECT_EQ(job.user, "ada");
  EXPECT_EQ(job.state.base, slurm::JobBase::Running);
  EXPECT_EQ(job.restarts, 2);
  EXPECT_EQ(job.nodes, "node[01-02]");
  EXPECT_EQ(job.node_count, 2);
  EXPECT_EQ(slurm::gpu_count(job), 16);
  EXPECT_EQ(job.allocated.gpus->count, 16);
  EXPECT_EQ(job.command, "/runs/a demo/submit/0123456789abcdef.sh --with arguments");
  EXPECT_EQ(job.work_directory, "/home/ada");
  EXPECT_EQ(job.comment, "regatta:0123456789abcdef");
  EXPECT_EQ(job.end, std::nullopt);
  EXPECT_EQ(job.elapsed, 100);
  EXPECT_EQ(job.exit->code, 0);
}

TEST(Scontrol, ANameThatImitatesAKeyCostsThatValue) {
  struct Row {
    const char* name;
    bool damaged;
  };
  const Row rows[] = {
      {"x JobState=COMPLETED", true},  // its state cannot be told
      {"x JobId=99", true},           {"x NodeList=evil", false}, {"x", false}, {"a=b c=d", false},
      {"x JobState", false},
  };
  for (const Row& row : rows) {
    std::string text = kShowJob;
    text.replace(text.find("regatta-0123456789abcdef"), 24, row.name);
    const auto job = slurm::parse_scontrol_job(text, "31");
    EXPECT_EQ(job.has_value(), !row.damaged) << row.name;
    if (!job) continue;
    EXPECT_EQ(job->id, "31");
    EXPECT_EQ(job->state.base, slurm::JobBase::Running);
    EXPECT_NE(job->nodes, "evil");
  }
  std::string broken = kShowJob;
  broken.insert(broken.find(" UserId"), "\nJobId=31 JobState=COMPLETED");
  EXPECT_FALSE(slurm::parse_scontrol_job(broken, "31"));
  EXPECT_FALSE(slurm::parse_scontrol_job(kShowJob, "32"));
  EXPECT_FALSE(slurm::parse_scontrol_job("", "31"));
  EXPECT_FALSE(
      slurm::parse_scontrol_job("slurm_load_jobs error: Invalid job id specified\n", "31"));
}

TEST(Scontrol, WaitingJobAndNewerReleases) {
  const auto newer = slurm::parse_scontrol_job(
      "JobId=5 JobName=a JobState=PENDING Reason=BeginTime NumNodes=2-4 NodeList= "
      "TimeLimit=00:01:00 "
      "ReqTRES=cpu=4,node=2,gres/gpu=16 AllocTRES=(null) NewKey=7 Restarts=0\n",
      "5");
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->node_count, 2);
  EXPECT_EQ(newer->nodes, std::nullopt);
  EXPECT_EQ(newer->reason, "BeginTime");
  EXPECT_EQ(slurm::gpu_count(*newer), 16);
  EXPECT_EQ(newer->allocated.gpus, std::nullopt);
  const auto older = slurm::parse_scontrol_job(
      "JobId=6 JobName=b JobState=PENDING TRES=cpu=4,gres/gpu:h100=2 SomethingNew=1 2 3\n", "6");
  ASSERT_TRUE(older);
  EXPECT_EQ(slurm::gpu_count(*older), 2) << "of a waiting job, TRES is the request";
  EXPECT_FALSE(older->allocated.gpus);
}

TEST(Scontrol, Nodes) {
  const slurm::Nodes nodes = slurm::parse_scontrol_nodes(
      "NodeName=node01 Arch=x86_64 CoresPerSocket=16 CPUAlloc=4 CPUEfctv=32 CPUTot=32 CPULoad=0.52 "
      "AvailableFeatures=ib,h100 ActiveFeatures=ib,h100 Gres=gpu:h100:8(S:0-1) NodeAddr=127.0.0.1 "
      "NodeHostName=node01 Version=22.05.8 OS=Linux 6.1.0 #1 SMP RealMemory=256000 AllocMem=4000 "
      "FreeMem=200000 Sockets=2 Boards=1 State=MIXED+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 "
      "Owner=N/A MCS_label=N/A Partitions=main,high BootTime=2026-11-20T00:00:00 "
      "CfgTRES=cpu=32,mem=256000M,billing=32,gres/gpu=8 AllocTRES=cpu=4,mem=4000M,gres/gpu=2 "
      "Reason=drained health: xid 79 State=IDLE? [root@2026-11-21T12:00:00]\n"
      "NodeName=node02 CPUAlloc=0 CPUTot=32 CPULoad=N/A AvailableFeatures=(null) "
      "ActiveFeatures=(null) Gres=gpu:8 FreeMem=N/A State=IDLE Partitions=main "
      "CfgTRES=cpu=32,gres/gpu=8 AllocTRES= CapWatts=n/a\n"
      "NodeName=node03 Gres=(null) State=DOWN+NOT_RESPONDING Reason=Not responding [slurm@x]\n"
      "NodeName=node04\nState=IDLE\n");
  EXPECT_EQ(nodes.damaged, 1u) << "the last has no state";
  ASSERT_EQ(nodes.rows.size(), 3u);
  EXPECT_TRUE(nodes.rows[0].state.has(slurm::NodeFlag::Drain)) << "the reason's State is none";
  EXPECT_EQ(nodes.rows[0].reason, "drained health: xid 79 State=IDLE? [root@2026-11-21T12:00:00]");
  EXPECT_EQ(nodes.rows[1].name, "node02");
  EXPECT_EQ(nodes.rows[1].load, std::nullopt);
  EXPECT_EQ(nodes.rows[1].gpus->count, 8);
  EXPECT_EQ(nodes.rows[1].gpus_allocated, 0);
  EXPECT_TRUE(nodes.rows[1].features.empty());
  EXPECT_EQ(nodes.rows[2].reason, "Not responding [slurm@x]");
  EXPECT_FALSE(slurm::can_work(nodes.rows[2].state));
  const slurm::Nodes drained = slurm::parse_scontrol_nodes(
      "NodeName=n1 CPUAlloc=4 CPUTot=32 CPULoad=0.52 ActiveFeatures=ib,h100 Gres=gpu:h100:8(S:0-1) "
      "OS=Linux 6.1.0 #1 RealMemory=256000 FreeMem=200000 State=MIXED+DRAIN Partitions=main,high "
      "CfgTRES=cpu=32,gres/gpu=8 AllocTRES=cpu=4,gres/gpu=2 Reason=xid 79 [root@x]\n");
  ASSERT_EQ(drained.rows.size(), 1u);
  const slurm::NodeRow& node = drained.rows[0];
  EXPECT_TRUE(node.state.has(slurm::NodeFlag::Drain));
  EXPECT_EQ(node.gpus->by_type.at("h100"), 8);
  EXPECT_EQ(node.gpus_allocated, 2);
  EXPECT_EQ(node.load, 0.52);
  EXPECT_EQ(node.memory_bytes, 256000.0 * 1048576);
  EXPECT_THAT(node.features, ElementsAre("ib", "h100"));
  EXPECT_THAT(node.partitions, ElementsAre("main", "high"));
  EXPECT_EQ(node.reason, "xid 79 [root@x]");
}

// As 22.05 prints them: a reason's further lines are indented, its bytes are as they were given.
TEST(Scontrol, WhatPeopleWroteAboutANodeIsNoNodeAndHidesNone) {
  struct Case {
    const char* name;
    const char* tail;
    std::optional<std::string> reason;
  };
  const Case cases[] = {
      {"keys", " Reason=bad State=IDLE NodeName=evil [root@x]",
       "bad State=IDLE NodeName=evil [root@x]"},
      {"a line", " Reason=two [root@x]\n       NodeName=evil State=IDLE x",
       "two [root@x] NodeName=evil State=IDLE x"},
      {"bytes", " Reason=\x1b[31m\xff | \"q [root@x]", "\x1b[31m\xff | \"q [root@x]"},
      {"other texts", " Extra=State=IDLE Comment=CPUTot=9 Reason=r", "r"},
      {"other texts behind it", " Reason=r [root@x] Comment=c State=DOWN\nCPUTot=9 Extra=e Gres=x",
       "r [root@x]"},
      {"comment only", " Comment=State=IDLE Gres=gpu:99", std::nullopt},
      {"two reasons", " Reason=a Reason=b", "a Reason=b"},
      {"nothing", " Reason=(null)", std::nullopt},
      {"empty", " Reason=", std::nullopt},
  };
  for (const Case& item : cases) {
    const slurm::Nodes nodes = slurm::parse_scontrol_nodes(
        std::string("NodeName=n1 Gres=gpu:8 CPUTot=32 State=IDLE+DRAIN Partitions=main") +
        item.tail + "\nNodeName=n2 State=IDLE\n");
    EXPECT_EQ(nodes.damaged, 0u) << item.name;
    ASSERT_EQ(nodes.rows.size(), 2u) << item.name;
    EXPECT_EQ(nodes.rows[0].name, "n1") << item.name;
    EXPECT_TRUE(nodes.rows[0].state.has(slurm::NodeFlag::Drain)) << item.name;
    EXPECT_EQ(nodes.rows[0].cpus, 32) << item.name;
    EXPECT_EQ(nodes.rows[0].gpus->count, 8) << item.name;
    EXPECT_EQ(nodes.rows[0].reason, item.reason) << item.name;
    EXPECT_EQ(nodes.rows[1].name, "n2") << item.name;
    EXPECT_EQ(nodes.rows[1].reason, std::nullopt) << item.name;
  }
}

TEST(Scontrol, Partitions) {
  const auto partitions = slurm::parse_scontrol_partitions(
      "PartitionName=main AllowGroups=ALL AllowAccounts=ml,phys AllowQos=ALL AllocNodes=ALL "
      "Default=YES "
      "QoS=N/A DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=5 Hidden=NO "
      "MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED "
      "Nodes=node[01-04] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO "
      "OverSubscribe=NO "
      "OverTimeLimit=NONE PreemptMode=REQUEUE State=UP TotalCPUs=128 TotalNodes=4 "
      "SelectTypeParameters=NONE JobDefaults=(null) TRES=cpu=128,mem=1024000M,node=4,gres/gpu=32\n"
      "PartitionName=short MaxNodes=2 MaxTime=01:00:00 DefaultTime=00:10:00 State=DRAIN\n"
      "nonsense\n\n");
  ASSERT_EQ(partitions.size(), 2u);
  EXPECT_EQ(partitions[0].name, "main");
  EXPECT_TRUE(partitions[0].is_default);
  EXPECT_EQ(partitions[0].state, "UP");
  EXPECT_EQ(partitions[0].max_nodes, std::nullopt);
  EXPECT_TRUE(std::isinf(*partitions[0].max_seconds));
  EXPECT_EQ(partitions[0].default_seconds, std::nullopt);
  EXPECT_EQ(partitions[0].node_count, 4);
  EXPECT_EQ(partitions[0].grace_seconds, 5);
  EXPECT_EQ(partitions[0].preempt_mode, "REQUEUE");
  EXPECT_EQ(partitions[0].allow_accounts, "ml,phys");
  EXPECT_EQ(partitions[0].resources.gpus->count, 32);
  EXPECT_EQ(partitions[1].max_nodes, 2);
  EXPECT_EQ(partitions[1].max_seconds, 3600);
  EXPECT_EQ(partitions[1].default_seconds, 600);
  EXPECT_FALSE(partitions[1].is_default);
}

TEST(Scontrol, Config) {
  const slurm::ClusterConfig config = slurm::parse_scontrol_config(
      "Configuration data as of 2026-11-21T12:00:00\n"
      "AccountingStorageType   = accounting_storage/slurmdbd\n"
      "AccountingStoreFlags    = job_comment,job_script\n"
      "ClusterName             = lab\n"
      "JobRequeue              = 1\n"
      "KillWait                = 30 sec\n"
      "MinJobAge               = 600 sec\n"
      "Prolog                  =\n"
      "SlurmctldParameters     = preempt_send_user_signal,rl_enable,rl_bucket_size=40\n"
      "SLURM_VERSION           = 24.11.5\n"
      "\nCgroup Support Configuration:\nClusterName             = other\nno equals here\n= 5\n");
  EXPECT_EQ(config.cluster_name, "lab");
  EXPECT_EQ(slurm::to_string(*config.version), "24.11.5");
  EXPECT_EQ(config.min_job_age, 600);
  EXPECT_EQ(config.kill_wait, 30);
  EXPECT_EQ(config.requeue, true);
  EXPECT_EQ(config.accounting, true);
  EXPECT_EQ(config.comments_accounted, true);
  EXPECT_EQ(config.rate_limited, true);
  EXPECT_EQ(config.values.at("Prolog"), "");
  const slurm::ClusterConfig bare = slurm::parse_scontrol_config(
      "AccountingStorageType   = (null)\nJobRequeue = 0\nSlurmctldParameters = (null)\n"
      "AccountingStoreFlags = (null)\n");
  EXPECT_EQ(bare.accounting, false);
  EXPECT_EQ(bare.requeue, false);
  EXPECT_EQ(bare.comments_accounted, false);
  EXPECT_EQ(bare.rate_limited, false);
  const slurm::ClusterConfig nothing = slurm::parse_scontrol_config("garbage");
  EXPECT_EQ(nothing.accounting, std::nullopt);
  EXPECT_EQ(nothing.min_job_age, std::nullopt);
}

}  // namespace
}  // namespace regatta::orchestrator
