#include <gmock/gmock.h>

#include "base/error.h"
#include "orchestrator/runs/node_bench.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using runs::NodeBench;
using testing::ElementsAre, testing::SizeIs;

NodeBench bench_at(const std::string& node, double utc, double added_utc = 5000) {
  trainer::contract::PlatformBench bench;
  bench.host = node;
  bench.utc = utc;
  NodeBench kept = runs::node_bench_of(node, bench);
  kept.added_utc = added_utc;
  return kept;
}

std::vector<double> times(store::Store& store, const std::string& node) {
  std::vector<double> times;
  for (const NodeBench& each : store.node_benches(node)) times.push_back(each.utc);
  return times;
}

base::Code refusal(store::Store& store, const NodeBench& bench) {
  try {
    store.add_node_bench(bench);
  } catch (const base::Error& error) {
    return error.code();
  }
  return base::Code::Developer;
}

TEST(NodeBenches, AreKeptAcrossOpeningTheNewestFirst) {
  const tests::TemporaryDirectory folder;
  {
    store::Store store(folder.path());
    for (const double utc : {20.0, 10.0, 30.0}) {
      EXPECT_TRUE(store.add_node_bench(bench_at("n1", utc)));
    }
    EXPECT_TRUE(store.add_node_bench(bench_at("n2", 15)));
  }
  store::Store store(folder.path());
  EXPECT_THAT(times(store, "n1"), ElementsAre(30, 20, 10));
  EXPECT_EQ(store.node_benches("n2").at(0), bench_at("n2", 15));
  EXPECT_THAT(times(store, "n3"), SizeIs(0));
  const auto nodes = store.benched_nodes();
  ASSERT_THAT(nodes, SizeIs(2));
  EXPECT_EQ(nodes[0].node, "n1");
  EXPECT_EQ(nodes[1].ids, bench_at("n2", 15).id);
}

TEST(NodeBenches, TheSameTwiceIsOne) {
  const tests::TemporaryDirectory folder;
  store::Store store(folder.path());
  const std::int64_t before = store.bench_changes();
  EXPECT_TRUE(store.add_node_bench(bench_at("n1", 10)));
  EXPECT_NE(store.bench_changes(), before);
  const std::int64_t after = store.bench_changes();
  EXPECT_FALSE(store.add_node_bench(bench_at("n1", 10, 6000))) << "sent again, later";
  EXPECT_EQ(store.node_benches("n1").at(0).added_utc, 5000);
  EXPECT_EQ(store.bench_changes(), after);
  EXPECT_TRUE(store.add_node_bench(bench_at("n2", 10))) << "of another node";
}

TEST(NodeBenches, TheNewestOfANodeStay) {
  const tests::TemporaryDirectory folder;
  store::Store store(folder.path());
  for (int i = 1; i <= runs::kMostBenchesOfNode; ++i) {
    store.add_node_bench(bench_at("n1", 10 * i));
  }
  store.add_node_bench(bench_at("other", 1));
  EXPECT_EQ(refusal(store, bench_at("n1", 9)), base::Code::Conflict);
  EXPECT_EQ(refusal(store, bench_at("n1", 9)), base::Code::Conflict) << "nothing was kept of it";
  EXPECT_TRUE(store.add_node_bench(bench_at("n1", 35))) << "newer than the oldest, which goes";
  EXPECT_THAT(times(store, "n1"), ElementsAre(80, 70, 60, 50, 40, 35, 30, 20));
  EXPECT_THAT(times(store, "other"), ElementsAre(1));
}

TEST(NodeBenches, RemovedOnesAreGone) {
  const tests::TemporaryDirectory folder;
  store::Store store(folder.path());
  store.add_node_bench(bench_at("n1", 10));
  store.add_node_bench(bench_at("n1", 20));
  const std::string id = bench_at("n1", 10).id;
  const auto listed = store.benched_nodes();
  EXPECT_FALSE(store.remove_node_bench("n2", id)) << "of another node";
  EXPECT_TRUE(store.remove_node_bench("n1", id));
  EXPECT_FALSE(store.remove_node_bench("n1", id));
  EXPECT_THAT(times(store, "n1"), ElementsAre(20));
  EXPECT_NE(store.benched_nodes(), listed);
}

TEST(NodeBenches, OfTooManyNodesAreRefused) {
  const tests::TemporaryDirectory folder;
  store::Store store(folder.path());
  {
    store::Database database(folder.path() / "store.sqlite", store::Database::Access::ReadWrite);
    database.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
        "INSERT INTO node_benches(node, id, utc, added_utc, machine_kind, workload, bench) "
        "SELECT 'node' || i, 'id', 1, 1, 'kind', 1, '{}' FROM n");
  }
  EXPECT_EQ(refusal(store, bench_at("one-more", 10)), base::Code::Conflict);
  EXPECT_TRUE(store.add_node_bench(bench_at("node7", 10))) << "it has some already";
  EXPECT_TRUE(store.remove_node_bench("node8", "id"));
  EXPECT_TRUE(store.add_node_bench(bench_at("one-more", 10)));
}

TEST(NodeBenches, NodesHaveNamesOfNodes) {
  for (const char* const good : {"n1", "gpu-07.cluster_2", "A"}) {
    EXPECT_EQ(bench_at(good, 1).node, good);
  }
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a/b"), std::string(".."), std::string("Ä"),
        std::string("a\n"), std::string(256, 'x')}) {
    EXPECT_THROW((void)bench_at(bad, 1), base::Error) << bad;
  }
}

}  // namespace
}  // namespace regatta::orchestrator
