#include "orchestrator/store/step_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/rows.h"

namespace regatta::orchestrator::store {
namespace {

constexpr std::size_t kFigures = 5;  // of a series

double rate_of(double count, double seconds) { return seconds > 0 ? count / seconds : kNothing; }

// Whether `next` may follow the rows of `block` in the same one.
bool takes(const StepBlock& block, const StepBlock& next, const BlockLevel& level) {
  const auto span = [&](double seconds) { return std::floor(seconds / level.seconds); };
  return next.step > block.last_step && block.rows + next.rows <= level.most_rows &&
         span(block.seconds) == span(next.last_seconds);
}

void append(const StepBlock& next, StepBlock* block) {
  block->last_sequence = next.last_sequence;
  block->cursor = next.cursor;
  block->last_step = next.last_step;
  block->last_seconds = next.last_seconds;
  block->rows += next.rows;
  for (std::size_t i = 0; i < block->figures.size(); ++i) {
    block->figures[i].add(next.figures[i]);
  }
}

StepBlock block_of(std::int64_t sequence, const StepRow& row) {
  StepBlock block{0,        sequence, sequence,    row.cursor,  row.step,
                  row.step, 1,        row.seconds, row.seconds, {}};
  for (const double value : values_of(row)) block.figures.push_back(SeriesFigures::of(value));
  return block;
}

}  // namespace

SeriesFigures SeriesFigures::of(double value) {
  if (!std::isfinite(value)) return {};
  return {value, value, value, value, 1};
}

void SeriesFigures::add(const SeriesFigures& next) {
  if (next.count == 0) return;
  low = std::min(low, next.low);
  high = std::max(high, next.high);
  last = next.last;
  sum += next.sum;
  count += next.count;
}

const std::vector<std::string>& step_series() {
  static const std::vector<std::string> series = {"loss",
                                                  "mlm_loss",
                                                  "samples",
                                                  "tokens",
                                                  "step_seconds",
                                                  "goodput",
                                                  "exposed_seconds",
                                                  "imbalance",
                                                  "moved_bytes",
                                                  "noise_scale",
                                                  "noise_scale_low",
                                                  "noise_scale_high",
                                                  "efficiency",
                                                  "mfu",
                                                  "utilisation",
                                                  "samples_per_second",
                                                  "tokens_per_second",
                                                  "learning_rate",
                                                  "bubble",
                                                  "bubble_predicted"};
  return series;
}

std::string expression_of(const std::string& series) {
  if (series == "samples_per_second")
    return "CASE WHEN step_seconds > 0 THEN samples / step_seconds END";
  if (series == "tokens_per_second")
    return "CASE WHEN step_seconds > 0 THEN tokens / step_seconds END";
  return series;
}

std::vector<double> values_of(const StepRow& row) {
  const auto samples = static_cast<double>(row.samples);
  const auto tokens = static_cast<double>(row.tokens);
  return {row.loss,
          row.mlm_loss,
          samples,
          tokens,
          row.step_seconds,
          row.goodput.value_or(kNothing),
          row.exposed_seconds.value_or(kNothing),
          row.imbalance.value_or(kNothing),
          row.moved_bytes.value_or(kNothing),
          row.noise_scale.value_or(kNothing),
          row.noise_scale_low.value_or(kNothing),
          row.noise_scale_high.value_or(kNothing),
          row.efficiency.value_or(kNothing),
          row.mfu.value_or(kNothing),
          row.utilisation.value_or(kNothing),
          rate_of(samples, row.step_seconds),
          rate_of(tokens, row.step_seconds),
          row.learning_rate.value_or(kNothing),
          row.bubble.value_or(kNothing),
          row.bubble_predicted.value_or(kNothing)};
}

std::string packed(const std::vector<SeriesFigures>& figures) {
  std::uint32_t mask = 0;
  std::string bytes(sizeof mask, '\0');
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const SeriesFigures& each = figures[i];
    if (each.count == 0) continue;
    mask |= std::uint32_t{1} << i;
    const std::array<double, kFigures> numbers = {each.low, each.high, each.last, each.sum,
                                                  static_cast<double>(each.count)};
    bytes.append(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
  }
  std::memcpy(bytes.data(), &mask, sizeof mask);
  return bytes;
}

std::vector<SeriesFigures> unpacked(std::string_view bytes) {
  std::vector<SeriesFigures> figures(step_series().size());
  std::uint32_t mask = 0;
  if (bytes.size() < sizeof mask) return figures;
  std::memcpy(&mask, bytes.data(), sizeof mask);
  bytes.remove_prefix(sizeof mask);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if ((mask >> i & 1U) == 0) continue;
    std::array<double, kFigures> numbers{};
    if (bytes.size() < sizeof numbers) break;
    std::memcpy(numbers.data(), bytes.data(), sizeof numbers);
    bytes.remove_prefix(sizeof numbers);
    figures[i] = {numbers[0], numbers[1], numbers[2], numbers[3],
                  static_cast<std::int64_t>(numbers[4])};
  }
  return figures;
}

const std::string& block_columns() {
  static const std::string columns =
      "level, sequence, last_sequence, cursor, step, last_step, rows, seconds, last_seconds, "
      "figures";
  return columns;
}

StepBlock read_block(const Statement& row) {
  return {static_cast<int>(row.integer(0)),
          row.integer(1),
          row.integer(2),
          row.integer(3),
          row.integer(4),
          row.integer(5),
          row.integer(6),
          row.number(7),
          row.number(8),
          unpacked(row.bytes(9))};
}

void BlockWriter::add(std::int64_t sequence, const StepRow& row) {
  fold(0, block_of(sequence, row));
}

// A block that takes no more goes into one of the next level.
void BlockWriter::fold(std::size_t level, const StepBlock& block) {
  Level& here = levels_[level];
  if (!here.read) {
    static const std::string sql = "SELECT " + block_columns() +
                                   " FROM step_blocks WHERE attempt = ?1 AND level = ?2 "
                                   "ORDER BY sequence DESC LIMIT 1";
    Statement ask = database_.prepare(sql);
    ask.bind(runs::row_of(attempt_), kBlockLevels[level].seconds);
    if (ask.step()) here.open = read_block(ask);
    here.read = true;
  }
  if (here.open && !takes(*here.open, block, kBlockLevels[level])) {
    write(level, *here.open);
    if (level + 1 < levels_.size()) fold(level + 1, *here.open);
    here.open.reset();
  }
  if (here.open) {
    append(block, &*here.open);
  } else {
    here.open = block;
  }
}

void BlockWriter::write(std::size_t level, const StepBlock& block) {
  const std::string figures = packed(block.figures);
  database_
      .prepare(
          "INSERT INTO step_blocks(attempt, level, sequence, last_sequence, cursor, step, "
          "last_step, rows, seconds, last_seconds, figures) "
          "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) "
          "ON CONFLICT(attempt, level, sequence) DO UPDATE SET last_sequence = ?4, cursor = ?5, "
          "last_step = ?7, rows = ?8, last_seconds = ?10, figures = ?11")
      .bind(runs::row_of(attempt_), kBlockLevels[level].seconds, block.sequence,
            block.last_sequence, block.cursor, block.step, block.last_step, block.rows,
            block.seconds, block.last_seconds, Bytes{figures})
      .run();
}

void BlockWriter::finish() {
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    if (levels_[level].open) write(level, *levels_[level].open);
  }
}

void make_blocks(Database& database) {
  Statement ask = database.prepare("SELECT " + selection(columns_of<StepRow>(), "steps") +
                                   ", sequence FROM steps ORDER BY attempt, sequence");
  std::optional<BlockWriter> writer;
  runs::AttemptNumber attempt{};
  const int end = end_of<StepRow>();
  while (ask.step()) {
    const auto row = read_row<StepRow>(ask);
    if (!writer || row.attempt != attempt) {
      if (writer) writer->finish();
      attempt = row.attempt;
      writer.emplace(database, attempt);
    }
    writer->add(ask.integer(end), row);
  }
  if (writer) writer->finish();
}

}  // namespace regatta::orchestrator::store
