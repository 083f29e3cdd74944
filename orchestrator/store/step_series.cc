// Step rows and blocks of them, for charts and for what is no longer kept row by row.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "orchestrator/store/roll_ups.h"
#include "orchestrator/store/step_blocks.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::store {
namespace {

const std::string& selected_blocks() {
  static const std::string sql = "SELECT " + block_columns() + " FROM step_blocks ";
  return sql;
}

// The places of these series in a block's figures.
std::vector<std::size_t> places_of(const std::vector<std::string>& series) {
  std::vector<std::size_t> places;
  for (const std::string& name : series) {
    const auto found = std::find(step_series().begin(), step_series().end(), name);
    base::check(found != step_series().end(), "a series of steps is one of step_series()");
    places.push_back(static_cast<std::size_t>(found - step_series().begin()));
  }
  return places;
}

StepBlock with_these(StepBlock block, const std::vector<std::size_t>& places) {
  std::vector<SeriesFigures> figures;
  figures.reserve(places.size());
  for (const std::size_t place : places) figures.push_back(block.figures[place]);
  block.figures = std::move(figures);
  return block;
}

std::optional<double> mean_of(const SeriesFigures& figures) {
  if (figures.count == 0) return std::nullopt;
  return figures.sum / static_cast<double>(figures.count);
}

// The last row of a block, with the means of all.
StepRow row_of_means(runs::AttemptNumber attempt, const StepBlock& block) {
  const auto mean = [&](const char* series) {
    static const auto& names = step_series();
    const auto place = std::find(names.begin(), names.end(), series) - names.begin();
    return mean_of(block.figures[static_cast<std::size_t>(place)]);
  };
  StepRow row;
  row.cursor = block.cursor;
  row.attempt = attempt;
  row.step = block.last_step;
  row.seconds = block.last_seconds;
  row.loss = mean("loss").value_or(kNothing);
  row.mlm_loss = mean("mlm_loss").value_or(kNothing);
  row.samples = std::llround(mean("samples").value_or(0));
  row.tokens = std::llround(mean("tokens").value_or(0));
  row.step_seconds = mean("step_seconds").value_or(0);
  row.exposed_seconds = mean("exposed_seconds");
  row.imbalance = mean("imbalance");
  row.moved_bytes = mean("moved_bytes");
  row.goodput = mean("goodput");
  row.noise_scale = mean("noise_scale");
  row.noise_scale_low = mean("noise_scale_low");
  row.noise_scale_high = mean("noise_scale_high");
  row.learning_rate = mean("learning_rate");
  row.efficiency = mean("efficiency");
  row.mfu = mean("mfu");
  row.utilisation = mean("utilisation");
  row.bubble = mean("bubble");
  row.bubble_predicted = mean("bubble_predicted");
  return row;
}

}  // namespace

std::vector<StepBlock> StoreReads::step_blocks(runs::AttemptNumber attempt,
                                               const std::vector<std::string>& series) {
  const std::vector<std::size_t> places = places_of(series);
  std::vector<StepBlock> blocks =
      blocks_after(attempt, kBlockLevels.back().seconds, 0, std::numeric_limits<int>::max());
  for (StepBlock& block : blocks) block = with_these(std::move(block), places);
  return blocks;
}

std::vector<StepBlock> StoreReads::blocks_after(runs::AttemptNumber attempt, int coarsest,
                                                std::int64_t cursor, int limit) {
  std::vector<StepBlock> blocks;
  const ReaderPool::Lease reader = lease();
  static const std::string sql = selected_blocks() +
                                 "WHERE attempt = ?1 AND level = ?2 AND sequence > ?3 AND cursor > "
                                 "?4 ORDER BY sequence LIMIT ?5";
  Statement ask = reader->prepare(sql);
  // What is not yet in a block of one level is in those of the level before.
  for (auto level = kBlockLevels.rbegin(); level != kBlockLevels.rend(); ++level) {
    if (level->seconds > coarsest) continue;
    ask.bind(runs::row_of(attempt), level->seconds,
             blocks.empty() ? -1 : blocks.back().last_sequence, cursor,
             limit - static_cast<int>(blocks.size()));
    while (ask.step()) blocks.push_back(read_block(ask));
  }
  return blocks;
}

std::vector<StepBlock> StoreReads::parts_of(runs::AttemptNumber attempt, const StepBlock& block,
                                            const std::vector<std::string>& series) {
  const std::vector<std::size_t> places = places_of(series);
  const auto level =
      std::find_if(kBlockLevels.begin(), kBlockLevels.end(),
                   [&](const BlockLevel& each) { return each.seconds == block.level; });
  std::vector<StepBlock> parts;
  if (level == kBlockLevels.end()) return parts;
  const ReaderPool::Lease reader = lease();
  if (level != kBlockLevels.begin()) {
    static const std::string sql =
        selected_blocks() +
        "WHERE attempt = ?1 AND level = ?2 AND sequence BETWEEN ?3 AND ?4 ORDER BY sequence";
    Statement ask = reader->prepare(sql);
    ask.bind(runs::row_of(attempt), (level - 1)->seconds, block.sequence, block.last_sequence);
    while (ask.step()) parts.push_back(with_these(read_block(ask), places));
  } else {
    std::string sql = "SELECT sequence, cursor, step, seconds";
    for (const std::string& each : series) sql += ", " + expression_of(each);
    Statement ask = reader->prepare(
        sql + " FROM steps WHERE attempt = ?1 AND sequence BETWEEN ?2 AND ?3 ORDER BY sequence");
    ask.bind(runs::row_of(attempt), block.sequence, block.last_sequence);
    while (ask.step()) {
      StepBlock& row = parts.emplace_back(StepBlock{0,
                                                    ask.integer(0),
                                                    ask.integer(0),
                                                    ask.integer(1),
                                                    ask.integer(2),
                                                    ask.integer(2),
                                                    1,
                                                    ask.number(3),
                                                    ask.number(3),
                                                    {}});
      row.figures.reserve(series.size());
      for (std::size_t i = 0; i < series.size(); ++i) {
        row.figures.push_back(SeriesFigures::of(ask.number(static_cast<int>(i) + 4)));
      }
    }
  }
  // Some may be gone, and the rest would pass for the whole.
  std::int64_t rows = 0;
  for (const StepBlock& part : parts) rows += part.rows;
  if (rows != block.rows) parts.clear();
  return parts;
}

int StoreReads::step_resolution(runs::RunNumber run) {
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare("SELECT resolution FROM run_resolutions WHERE run = ?1");
  ask.bind(runs::row_of(run));
  return ask.step() ? static_cast<int>(ask.integer(0)) : 0;
}

// Of blocks of this level, those that no rows are kept of, after a cursor.
std::vector<StepRow> StoreReads::rolled_up_after(runs::RunNumber run, int level,
                                                 std::int64_t cursor, int limit) {
  std::int64_t first_row = std::numeric_limits<std::int64_t>::max();
  std::vector<runs::AttemptNumber> attempts;
  {
    const ReaderPool::Lease reader = lease();
    Statement oldest = reader->prepare("SELECT min(cursor) FROM steps WHERE run = ?1");
    oldest.bind(runs::row_of(run));
    if (oldest.step() && !oldest.is_null(0)) first_row = oldest.integer(0);
    Statement ask =
        reader->prepare("SELECT row FROM attempts WHERE run = ?1 ORDER BY number, execution");
    ask.bind(runs::row_of(run));
    while (ask.step()) attempts.push_back(runs::AttemptNumber{ask.integer(0)});
  }
  std::vector<StepRow> rows;
  // Of each attempt as many, since their rows may have come by turns.
  for (const runs::AttemptNumber attempt : attempts) {
    for (const StepBlock& block : blocks_after(attempt, level, cursor, limit)) {
      if (block.cursor <= first_row) rows.push_back(row_of_means(attempt, block));
    }
  }
  std::sort(rows.begin(), rows.end(),
            [](const StepRow& a, const StepRow& b) { return a.cursor < b.cursor; });
  if (rows.size() > static_cast<std::size_t>(limit)) rows.resize(static_cast<std::size_t>(limit));
  return rows;
}

// So large a level that it still draws the run, and that not much more is read than is wanted.
std::vector<StepRow> StoreReads::rolled_up(runs::RunNumber run, std::int64_t cursor, int limit) {
  const int resolution = step_resolution(run);
  if (resolution == 0) return {};
  int level = resolution;
  {
    const ReaderPool::Lease reader = lease();
    Statement count = reader->prepare(
        "SELECT count(*) FROM step_blocks WHERE level = ?2 AND cursor > ?3 AND attempt IN (SELECT "
        "row FROM attempts WHERE run = ?1)");
    for (const BlockLevel& coarser : kBlockLevels) {
      if (coarser.seconds <= resolution) continue;
      count.bind(runs::row_of(run), coarser.seconds, cursor);
      if (!count.step() || count.integer(0) < std::min(limit, kFewestPoints)) break;
      level = coarser.seconds;
      count.run();
    }
  }
  return rolled_up_after(run, level, cursor, std::numeric_limits<int>::max());
}

}  // namespace regatta::orchestrator::store
