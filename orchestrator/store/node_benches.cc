// Benches of nodes: what was measured somewhere is in no run directory.
#include "base/error.h"
#include "base/text.h"
#include "orchestrator/runs/node_bench.h"
#include "orchestrator/store/on_disk.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::store {
namespace {

const std::string kBenchesOfNode = "SELECT " +
                                   selection(columns_of<runs::NodeBench>(), "node_benches") +
                                   " FROM node_benches WHERE node = ?1 ORDER BY utc DESC, id DESC";

template <typename... Values>
std::int64_t count_of(Database& database, const char* sql, const Values&... values) {
  Statement ask = database.prepare(sql);
  if constexpr (sizeof...(values) > 0) ask.bind(values...);
  return ask.step() ? ask.integer(0) : 0;
}

}  // namespace

std::vector<runs::NodeBench> StoreReads::node_benches(const std::string& node) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(kBenchesOfNode);
  ask.bind(node);
  return read_rows<runs::NodeBench>(ask);
}

std::vector<BenchedNode> StoreReads::benched_nodes() {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(
      "SELECT node, group_concat(id, ' ') FROM node_benches GROUP BY node ORDER BY node");
  std::vector<BenchedNode> nodes;
  while (ask.step()) nodes.push_back({ask.text(0), ask.text(1)});
  return nodes;
}

bool Store::add_node_bench(const runs::NodeBench& bench, const std::string& by) {
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  Transaction transaction(*writer_);
  if (count_of(*writer_, "SELECT count(*) FROM node_benches WHERE node = ?1 AND id = ?2",
               bench.node, bench.id) > 0) {
    return false;
  }
  const std::int64_t before =
      count_of(*writer_, "SELECT count(*) FROM node_benches WHERE node = ?1", bench.node);
  const std::int64_t newer =
      count_of(*writer_, "SELECT count(*) FROM node_benches WHERE node = ?1 AND utc >= ?2",
               bench.node, bench.utc);
  if (newer >= runs::kMostBenchesOfNode) {
    throw base::Error(base::Code::Conflict,
                      "the newest " + std::to_string(runs::kMostBenchesOfNode) + " benches of " +
                          base::printable(bench.node) +
                          " are kept, and this one is older; measure anew, or remove one");
  }
  if (before == 0) {
    const std::int64_t nodes =
        count_of(*writer_, "SELECT count(*) FROM (SELECT node FROM node_benches GROUP BY node)");
    if (nodes >= runs::kMostBenchedNodes) {
      throw base::Error(
          base::Code::Conflict,
          "benches of " + std::to_string(nodes) +
              " nodes are kept, which is the most; remove those of nodes that are gone");
    }
  }
  static const std::string sql =
      insertion("INSERT INTO node_benches", {}, columns_of<runs::NodeBench>());
  write_row(*writer_, sql, RowBinder::Which::All, bench);
  writer_
      ->prepare(
          "DELETE FROM node_benches WHERE node = ?1 AND number NOT IN (SELECT number FROM "
          "node_benches WHERE node = ?1 ORDER BY utc DESC, id DESC LIMIT ?2)")
      .bind(bench.node, runs::kMostBenchesOfNode)
      .run();
  events_->note_bench("node.benched", bench.node, by, bench.id);
  transaction.commit();
  ++bench_changes_;
  return true;
}

bool Store::remove_node_bench(const std::string& node, const std::string& id,
                              const std::string& by) {
  const auto lock = lock_writes();
  const OnDisk on_disk(*writer_);
  std::int64_t removed = 0;
  write_anyhow([&] {
    Transaction transaction(*writer_);
    writer_->prepare("DELETE FROM node_benches WHERE node = ?1 AND id = ?2").bind(node, id).run();
    removed = writer_->changes();
    if (removed > 0) events_->note_bench("node.bench_removed", node, by, id);
    transaction.commit();
  });
  if (removed > 0) ++bench_changes_;
  return removed > 0;
}

}  // namespace regatta::orchestrator::store
