#include "orchestrator/slurm/node_condition.h"

#include <gmock/gmock.h>

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;

TEST(NodeCondition, SaysWhatAStateMeansAndWhatToDo) {
  struct Case {
    const char* state;
    const char* word;
    const char* action;  // a part of it; "": nothing is to be done
  };
  const char* const kResume = "'scontrol update nodename=node03 state=resume'";
  const Case cases[] = {
      {"IDLE", "idle", ""},
      {"MIXED", "mixed", ""},
      {"ALLOCATED", "allocated", ""},
      {"IDLE+PLANNED", "idle", ""},
      {"IDLE+DRAIN", "drained", kResume},
      {"ALLOCATED+DRAIN", "draining", kResume},
      {"MIXED+DRAIN+COMPLETING", "draining", kResume},
      {"DOWN", "down", kResume},
      {"DOWN+NOT_RESPONDING", "down", "slurmd runs there"},
      {"DOWN+DRAIN", "down, drained", kResume},
      {"ERROR", "error", kResume},
      {"IDLE+NOT_RESPONDING", "not responding", "slurmd runs there"},
      {"IDLE+MAINTENANCE+RESERVED", "maintenance", "reservation"},
      {"IDLE+RESERVED", "reserved", ""},
      {"IDLE+POWERED_DOWN+CLOUD", "powered down", ""},
      {"IDLE+POWERING_DOWN", "powering down", ""},
      {"MIXED+POWERING_UP", "powering up", ""},
      {"IDLE+REBOOT_REQUESTED", "rebooting", ""},
      {"IDLE+INVALID_REG", "invalid", "slurm.conf"},
      {"ALLOCATED+FAIL", "failing", "reason"},
      {"ALLOCATED+COMPLETING", "completing", ""},
      {"IDLE+BLOCKED", "blocked", "exclusively"},
      {"FUTURE", "future", ""},
      {"WARPED", "unknown", "'scontrol show node node03'"},
      {"down*", "down", "slurmd runs there"},
      {"drained", "drained", kResume},
  };
  for (const Case& item : cases) {
    slurm::NodeRow node;
    node.name = "node03";
    node.state = slurm::parse_node_state(item.state);
    const slurm::NodeCondition condition = slurm::condition_of(node);
    EXPECT_EQ(condition.word, item.word) << item.state;
    EXPECT_THAT(condition.action, HasSubstr(item.action)) << item.state;
    EXPECT_EQ(condition.action.empty(), *item.action == '\0') << item.state;
  }
}

TEST(NodeCondition, NamesAreHarmless) {
  slurm::NodeRow node;
  node.name = "n\x1b[2J";
  node.state = slurm::parse_node_state("DOWN");
  EXPECT_THAT(slurm::condition_of(node).action, HasSubstr("nodename=n\\x1b[2J"));
}

}  // namespace
}  // namespace regatta::orchestrator
