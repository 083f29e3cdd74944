// Runs by their tags.
#include "base/text.h"
#include "orchestrator/store/rows.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::store {
namespace {

// A tag has no such character.
constexpr char kBetweenTags = '/';
const std::string kTagsOfRun =
    "(SELECT group_concat(tag, '/') FROM run_tags INDEXED BY tags_of_run WHERE run = number)";

std::optional<double> number_or_nothing(const Statement& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional(row.number(column));
}

}  // namespace

std::vector<TagUse> StoreReads::tags_with_prefix(const std::string& prefix) {
  const ReaderPool::Lease reader = lease();
  // The next tag is one step in their order, where DISTINCT would read every row.
  static const std::string sql =
      "WITH RECURSIVE found(tag) AS ("
      "SELECT min(tag) FROM run_tags WHERE tag >= ?1 AND tag < ?2 UNION ALL "
      "SELECT (SELECT min(tag) FROM run_tags WHERE tag > found.tag AND tag < ?2) FROM found "
      "WHERE found.tag IS NOT NULL) "
      "SELECT found.tag, created_utc, " +
      kTagsOfRun +
      " FROM found CROSS JOIN runs ON number = "
      "(SELECT min(run) FROM run_tags WHERE run_tags.tag = found.tag) "
      "WHERE found.tag IS NOT NULL";
  Statement ask = reader->prepare(sql);
  const std::string beyond = prefix + "\xff";  // no byte of UTF-8 is as large
  ask.bind(prefix, beyond);
  return all<TagUse>(ask, [](const Statement& row) {
    return TagUse{row.text(0), row.number(1), base::split(row.text(2), kBetweenTags)};
  });
}

std::vector<TaggedRun> StoreReads::runs_tagged(const std::string& tag, int limit) {
  const ReaderPool::Lease reader = lease();
  static const std::string sql =
      "SELECT number, id, name, state, created_utc, started_utc, ended_utc, " + kTagsOfRun +
      " FROM run_tags AS wanted CROSS JOIN runs ON number = wanted.run WHERE wanted.tag = ?1 "
      "ORDER BY wanted.run LIMIT ?2";
  Statement ask = reader->prepare(sql);
  ask.bind(tag, limit);
  return all<TaggedRun>(ask, [](const Statement& row) {
    TaggedRun run;
    run.number = runs::RunNumber{row.integer(0)};
    run.id = row.text(1);
    run.name = row.text(2);
    run.state = runs::parse_run_state(row.text(3)).value_or(runs::RunState::Failed);
    run.created_utc = row.number(4);
    run.started_utc = number_or_nothing(row, 5);
    run.ended_utc = number_or_nothing(row, 6);
    run.tags = base::split(row.text(7), kBetweenTags);
    return run;
  });
}

}  // namespace regatta::orchestrator::store
