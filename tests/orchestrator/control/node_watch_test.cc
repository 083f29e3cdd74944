// What happens to nodes, from the scheduler's table to events, across restarts.
#include "orchestrator/control/node_watch.h"

#include <gmock/gmock.h>

#include "tests/orchestrator/support.h"

namespace regatta::orchestrator::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class NodeWatchTest : public testing::Test {
 protected:
  void SetUp() override { restart(); }
  void restart() {
    watch_.reset();
    store_.reset();
    table_ = std::make_unique<slurm::NodeTable>();
    store_ =
        std::make_unique<store::Store>(folder_.path() / "state", store::StoreOptions{{}, &clock_});
    watch_ = std::make_unique<NodeWatch>(*store_, table_.get());
  }
  // state: of each node, by name.
  void answer(const std::vector<std::pair<std::string, std::string>>& states) {
    slurm::Nodes nodes;
    for (const auto& [name, state] : states) {
      slurm::NodeRow row;
      row.name = name;
      row.state = slurm::parse_node_state(state);
      row.reason = "fan";
      nodes.rows.push_back(row);
    }
    clock_.now += 60;
    table_->fill(std::move(nodes), clock_.utc_seconds());
  }
  // What is told since the last call.
  std::vector<std::string> news() {
    watch_->look();
    std::vector<std::string> lines;
    for (const store::Event& each : store_->events_after({}, read_, 100).events) {
      lines.push_back(each.kind + " " + each.node);
      read_ = each.number;
      utc_ = each.utc;
    }
    return lines;
  }

  tests::TemporaryDirectory folder_;
  tests::SimulatedClock clock_;
  std::unique_ptr<slurm::NodeTable> table_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<NodeWatch> watch_;
  std::int64_t read_ = 0;
  double utc_ = 0;
};

TEST_F(NodeWatchTest, TellsEveryChangeOnceAcrossRestarts) {
  EXPECT_THAT(news(), IsEmpty());
  answer({{"a", "IDLE"}, {"b", "IDLE"}});
  EXPECT_THAT(news(), IsEmpty());
  answer({{"a", "IDLE+DRAIN"}, {"b", "IDLE"}});
  EXPECT_THAT(news(), ElementsAre("node.drained a"));
  EXPECT_EQ(utc_, clock_.utc_seconds()) << "when Slurm said so";
  EXPECT_THAT(news(), IsEmpty()) << "the same answer";
  restart();
  EXPECT_THAT(news(), IsEmpty());
  answer({{"a", "IDLE+DRAIN"}, {"b", "IDLE"}});
  EXPECT_THAT(news(), IsEmpty()) << "nothing is told again";
  restart();
  answer({{"b", "DOWN"}, {"c", "IDLE"}});
  EXPECT_THAT(news(), ElementsAre("node.down b", "node.appeared c", "node.disappeared a"))
      << "what changed meanwhile";
  answer({{"b", "IDLE"}, {"c", "IDLE"}});
  EXPECT_THAT(news(), ElementsAre("node.resumed b"));
}

TEST_F(NodeWatchTest, CountsAFlappingNodeAcrossRestarts) {
  answer({{"a", "IDLE"}});
  (void)news();
  std::size_t told = 0;
  for (int i = 0; i < 20; ++i) {
    restart();
    answer({{"a", i % 2 == 0 ? "DOWN" : "IDLE"}});
    told += news().size();
  }
  EXPECT_EQ(told, 6U);
}

TEST_F(NodeWatchTest, IsAskedForTheNode) {
  answer({{"a", "IDLE"}, {"b", "IDLE"}});
  (void)news();
  answer({{"a", "DOWN"}, {"b", "DOWN"}});
  (void)news();
  store::EventFilter filter;
  filter.node = "b";
  EXPECT_EQ(store_->events_after(filter, 0, 10).events.size(), 1U);
}

}  // namespace
}  // namespace regatta::orchestrator::control
