#include "orchestrator/slurm/slurm_values.h"

#include <gmock/gmock.h>

#include <cmath>

#include "orchestrator/slurm/slurm_state.h"

namespace regatta::orchestrator {
namespace {

constexpr double kNoon = 1795262400;  // 2026-11-21T12:00:00Z
const slurm::SlurmVersion kBookworm{22, 5, 8};

// --- values ---------------------------------------------------------------------------------

TEST(SlurmValues, Times) {
  EXPECT_EQ(slurm::parse_slurm_time("2026-11-21T12:00:00"), kNoon);
  EXPECT_EQ(slurm::parse_slurm_time("1970-01-01T00:00:00"), 0);
  EXPECT_EQ(slurm::parse_slurm_time("2024-02-29T00:00:01"), 1709164801);
  for (const char* const text :
       {"", "Unknown", "N/A", "None", "(null)", "2026-11-21", "2026-11-21 12:00:00",
        "2026-11-21T12:00", "2026-13-21T12:00:00", "2026-02-30T12:00:00", "2026-11-21T24:00:00",
        "2026-11-21T12:60:00", "1969-12-31T23:59:59", "2026-11-21T12:00:00Z", "20x6-11-21T12:00:00",
        "+026-11-21T12:00:00", "2026-00-10T00:00:00", "12:00:00"}) {
    EXPECT_EQ(slurm::parse_slurm_time(text), std::nullopt) << text;
  }
}

TEST(SlurmValues, Durations) {
  const std::pair<const char*, double> rows[] = {
      {"0:00", 0},
      {"1:00", 60},
      {"5", 300},
      {"00:01:00", 60},
      {"1:02:03", 3723},
      {"1-00:00:00", 86400},
      {"2-3", 183600},
      {"1-02:03", 93780},
      {"1-02:03:04", 93784},
      {"00:00:01.250", 1.25},
      {"365-00:00:00", 31536000},
      {"100:00:00", 360000},
  };
  for (const auto& [text, seconds] : rows)
    EXPECT_EQ(slurm::parse_slurm_duration(text), seconds) << text;
  EXPECT_TRUE(std::isinf(slurm::parse_slurm_duration("UNLIMITED").value()));
  EXPECT_TRUE(std::isinf(slurm::parse_slurm_duration("INFINITE").value()));
  for (const char* const text :
       {"", "INVALID", "NOT_SET", "Partition_Limit", "N/A", "-1", "1:2:3:4", "a:b", "1-", "-", ":",
        "1:", "1--2", "1.5", "1:2.", "9999999999999999", "1-1:1:1:1", "0x10"}) {
    EXPECT_EQ(slurm::parse_slurm_duration(text), std::nullopt) << text;
  }
}

TEST(SlurmValues, ExitCodes) {
  const auto exit = [](const char* text) {
    const auto status = slurm::parse_exit_status(text);
    return status ? std::to_string(status->code) + "/" + std::to_string(status->signal) : "none";
  };
  EXPECT_EQ(exit("3:0"), "3/0");
  EXPECT_EQ(exit("0:9"), "0/9");
  EXPECT_EQ(exit("271:15"), "271/15");
  for (const char* const text : {"", "3", "3:", ":0", "a:0", "-1:0", "3:0:0", "70000:0", "3;0"}) {
    EXPECT_EQ(exit(text), "none") << text;
  }
}

TEST(SlurmValues, Versions) {
  const std::pair<const char*, const char*> rows[] = {
      {"slurm-wlm 22.05.8\n", "22.05.8"},
      {"slurm 24.11.5", "24.11.5"},
      {"25.11.0", "25.11.0"},
      {"slurm 23.02.7-1", "23.02.7"},
      {"slurm 26.05.0-0rc1", "26.05.0"},
      {"slurm 24.05", "24.05.0"},
  };
  for (const auto& [text, version] : rows) {
    ASSERT_TRUE(slurm::parse_slurm_version(text)) << text;
    EXPECT_EQ(slurm::to_string(*slurm::parse_slurm_version(text)), version);
  }
  for (const char* const text :
       {"", "slurm", "sbatch: error: no", "1.2.3.4", "x.y", "0.5", "..."}) {
    EXPECT_FALSE(slurm::parse_slurm_version(text)) << text;
  }
  EXPECT_TRUE(kBookworm.at_least(21, 8));
  EXPECT_TRUE(kBookworm.at_least(22, 5));
  EXPECT_FALSE(kBookworm.at_least(22, 6));
  EXPECT_FALSE(kBookworm.at_least(23, 2));
}

// --- states ---------------------------------------------------------------------------------

TEST(SlurmState, OfJobs) {
  struct Row {
    const char* text;
    const char* printed;
    slurm::JobPhase phase;
    bool ended_in_accounting;
  };
  using P = slurm::JobPhase;
  const Row rows[] = {
      {"PENDING", "PENDING", P::Waiting, false},
      {"RUNNING", "RUNNING", P::Running, false},
      {"SUSPENDED", "SUSPENDED", P::Running, false},
      {"COMPLETED", "COMPLETED", P::Ended, true},
      {"CANCELLED", "CANCELLED", P::Ended, true},
      {"CANCELLED by 1000", "CANCELLED", P::Ended, true},
      {"FAILED", "FAILED", P::Ended, true},
      {"TIMEOUT", "TIMEOUT", P::Ended, true},
      {"NODE_FAIL", "NODE_FAIL", P::Ended, true},
      {"PREEMPTED", "PREEMPTED", P::Ended, true},
      {"BOOT_FAIL", "BOOT_FAIL", P::Ended, true},
      {"DEADLINE", "DEADLINE", P::Ended, true},
      {"OUT_OF_MEMORY", "OUT_OF_MEMORY", P::Ended, true},
      {"COMPLETING", "COMPLETING", P::Ending, false},
      {"COMPLETED+COMPLETING", "COMPLETED+COMPLETING", P::Ending, true},
      {"RUNNING+COMPLETING", "RUNNING+COMPLETING", P::Ending, false},
      {"CONFIGURING", "CONFIGURING", P::Running, false},
      {"RUNNING,CONFIGURING", "RUNNING+CONFIGURING", P::Running, false},
      {"POWER_UP_NODE", "POWER_UP_NODE", P::Running, false},
      {"REQUEUED", "REQUEUED", P::Waiting, true},
      {"PREEMPTED+REQUEUED", "PREEMPTED+REQUEUED", P::Waiting, true},
      {"REQUEUE_HOLD", "REQUEUE_HOLD", P::Waiting, false},
      {"REQUEUE_FED", "REQUEUE_FED", P::Waiting, false},
      {"SPECIAL_EXIT", "SPECIAL_EXIT", P::Waiting, false},
      {"RESV_DEL_HOLD", "RESV_DEL_HOLD", P::Waiting, false},
      {"EXPEDITING", "EXPEDITING", P::Waiting, false},
      {"RESIZING", "RESIZING", P::Running, false},
      {"SIGNALING", "SIGNALING", P::Running, false},
      {"STOPPED", "STOPPED", P::Running, false},
      {"STAGE_OUT", "STAGE_OUT", P::Ending, false},
      {"REVOKED", "REVOKED", P::Ended, true},
      {"LAUNCH_FAILED", "LAUNCH_FAILED", P::Unknown, false},
      {"RECONFIG_FAIL", "RECONFIG_FAIL", P::Unknown, false},
      {"UPDATE_DB", "UPDATE_DB", P::Unknown, false},
      {"WARPED", "UNKNOWN(WARPED)", P::Unknown, false},
      {"RUNNING+WARPED", "RUNNING+UNKNOWN(WARPED)", P::Running, false},
      {"running", "RUNNING", P::Running, false},
      {"", "UNKNOWN", P::Unknown, false},
      {"+", "UNKNOWN", P::Unknown, false},
      {"a\nb", "UNKNOWN(a\\nb)", P::Unknown, false},
  };
  for (const Row& row : rows) {
    const slurm::JobState state = slurm::parse_job_state(row.text);
    EXPECT_EQ(slurm::to_string(state), row.printed);
    EXPECT_EQ(state.raw, row.text);
    EXPECT_EQ(slurm::phase(state), row.phase) << row.text;
    EXPECT_EQ(slurm::ended_in_accounting(state), row.ended_in_accounting) << row.text;
  }
  EXPECT_LE(slurm::parse_job_state(std::string(1 << 20, 'A')).raw.size(), 256u);
}

}  // namespace
}  // namespace regatta::orchestrator
