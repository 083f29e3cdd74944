// What is told of nodes: real answers of Slurm 22.05 one after another (recorded/), and states that
// are hard to come by.
#include "orchestrator/slurm/node_changes.h"

#include <gmock/gmock.h>

#include "tests/orchestrator/support.h"

namespace regatta::orchestrator::slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

NodeRow row(const std::string& name, const std::string& state, const std::string& reason = "") {
  NodeRow node;
  node.name = name;
  node.state = parse_node_state(state);
  if (!reason.empty()) node.reason = reason;
  return node;
}

class NodeChanges : public testing::Test {
 protected:
  // "kind node words" of each.
  std::vector<std::string> told(const std::vector<NodeRow>& rows, bool whole = true) {
    const NodeNews news = news_of_nodes(known_, rows, whole, utc_, {});
    for (const NodeStanding& each : news.changed) known_[each.node] = each;
    for (const std::string& node : news.forgotten) known_.erase(node);
    std::vector<std::string> lines;
    for (const NodeChange& each : news.told) {
      lines.push_back(std::string(each.kind) + "|" + each.node + "|" + each.words);
    }
    utc_ += 60;
    return lines;
  }
  std::vector<std::string> told(const std::string& state, const std::string& reason = "") {
    return told({row("n", state, reason), row("other", "IDLE")});
  }
  std::vector<std::string> recorded(const std::string& name) {
    const base::Path folder = base::Path(REGATTA_SOURCE_DIR) / "tests/orchestrator/slurm/recorded";
    Nodes nodes = parse_scontrol_nodes(
        base::posix_file_system().read(folder / ("nodes_" + name + ".txt"), 1 << 20));
    return told(nodes.rows, nodes.damaged == 0);
  }

  NodeStandings known_;
  double utc_ = 1'000'000;
};

TEST_F(NodeChanges, OfARealSlurm) {
  EXPECT_THAT(recorded("idle"), IsEmpty()) << "nothing was known, and nothing is wrong";
  EXPECT_THAT(recorded("drained"),
              ElementsAre("node.drained|node03|xid 79 [root@2026-11-27T22:44:12]"));
  EXPECT_THAT(recorded("drained"), IsEmpty()) << "once";
  EXPECT_THAT(recorded("silent"), ElementsAre("node.not_responding|node02|"));
  EXPECT_THAT(recorded("down"),
              ElementsAre("node.down|node02|Not responding [root@2026-11-27T22:44:48]"));
  EXPECT_THAT(recorded("reason"),
              ElementsAre("node.drained|node03|xid 79, card 3 [root@2026-11-27T22:44:49]",
                          "node.resumed|node02|after 1 min 00 s down"));
  EXPECT_THAT(recorded("resumed"), ElementsAre("node.resumed|node03|after 5 min 00 s drained"));
  EXPECT_THAT(recorded("fail"), ElementsAre("node.drained|node01|fan [root@2026-11-27T22:44:52]",
                                            "node.disappeared|node04|"));
  EXPECT_THAT(recorded("resumed"),
              ElementsAre("node.resumed|node01|after 1 min 00 s drained", "node.appeared|node04|"));
}

TEST_F(NodeChanges, ThatWereThereAtFirstAreToldIfSomethingIsWrong) {
  EXPECT_THAT(told({row("a", "IDLE"), row("b", "DOWN*+DRAIN", "fan"), row("c", "MIXED+DRAIN")}),
              ElementsAre("node.down|b|fan", "node.drained|c|"));
  EXPECT_THAT(told({row("a", "IDLE"), row("b", "DOWN*+DRAIN", "fan"), row("c", "MIXED+DRAIN"),
                    row("d", "DOWN", "new")}),
              ElementsAre("node.appeared|d|down: new"));
}

TEST_F(NodeChanges, OfOneTroubleAmongTwo) {
  (void)told("IDLE");
  EXPECT_THAT(told("DOWN+DRAIN", "fan"), ElementsAre("node.down|n|fan"));
  EXPECT_THAT(told("IDLE+DRAIN", "fan"),
              ElementsAre("node.drained|n|no longer down, still drained: fan"));
  EXPECT_THAT(told("ALLOCATED"), ElementsAre("node.resumed|n|after 1 min 00 s drained"));
}

TEST_F(NodeChanges, ThatMeanNothing) {
  (void)told("IDLE");
  for (const char* state : {"ALLOCATED", "MIXED+COMPLETING", "IDLE+RESERVED", "IDLE+MAINTENANCE",
                            "IDLE+POWERED_DOWN", "IDLE+POWERING_UP+NOT_RESPONDING", "UNKNOWN"}) {
    EXPECT_THAT(told(state), IsEmpty()) << state;
  }
  EXPECT_THAT(told("DOWN"), SizeIs(1));
  EXPECT_THAT(told("UNKNOWN"), IsEmpty()) << "a slurmctld that starts";
  EXPECT_THAT(told({row("n", "DOWN"), row("other", "IDLE"), row("later", "FUTURE")}), IsEmpty());
}

TEST_F(NodeChanges, AreOneLine) {
  (void)told("IDLE");
  EXPECT_THAT(told("IDLE+DRAIN", "two\nlines      here [root@x]"),
              ElementsAre("node.drained|n|two lines here [root@x]"));
}

TEST_F(NodeChanges, OfAnAnswerWithGapsTakeNothingAway) {
  (void)told("IDLE");
  EXPECT_THAT(told({row("other", "IDLE")}, false), IsEmpty());
  EXPECT_THAT(told({}, true), IsEmpty()) << "no cluster has no nodes";
  EXPECT_THAT(told({row("other", "IDLE")}), ElementsAre("node.disappeared|n|"));
  EXPECT_THAT(told({row("other", "IDLE")}), IsEmpty());
  utc_ += 3600;
  (void)told({row("other", "IDLE")});
  EXPECT_EQ(known_.count("n"), 0U) << "it is kept no longer than its changes are counted";
}

TEST_F(NodeChanges, OfAFlappingNodeAreToldSixTimesAnHour) {
  (void)told("IDLE");
  std::vector<std::string> lines;
  for (int minute = 1; minute < 60; ++minute) {
    for (const std::string& line : told(minute % 2 == 1 ? "DOWN" : "IDLE", "cable")) {
      lines.push_back(line);
    }
  }
  ASSERT_THAT(lines, SizeIs(6));
  EXPECT_EQ(lines[0], "node.down|n|cable");
  EXPECT_EQ(lines[5],
            "node.flapping|n|resumed: after 1 min 00 s down; 6 changes in 6 min 00 s, the next are "
            "told in "
            "54 min 00 s");
  EXPECT_THAT(told("DOWN", "cable"), ElementsAre("node.down|n|cable"))
      << "an hour after the first, what it is by then";
}

TEST_F(NodeChanges, OfTenThousandNodesAreOneEvent) {
  std::vector<NodeRow> rows;
  for (int i = 0; i < 10'000; ++i) {
    char name[16];
    std::snprintf(name, sizeof name, "n%05d", i);
    rows.push_back(row(name, "IDLE"));
  }
  (void)told(rows);
  for (NodeRow& each : rows) each = row(each.name, "DOWN*", "Not responding [slurm@now]");
  EXPECT_THAT(told(rows), ElementsAre("node.down||10000 nodes (Not responding [slurm@now]): "
                                      "n[00000-09999]"));
  EXPECT_THAT(told(rows), IsEmpty());
  for (int i = 0; i < 20; ++i) rows[static_cast<std::size_t>(i)].state = parse_node_state("IDLE");
  EXPECT_THAT(told(rows), SizeIs(20)) << "so many are told singly";
}

}  // namespace
}  // namespace regatta::orchestrator::slurm
