// Step rows that follow each other, rolled up in blocks of 10 s, 1 min and 10 min: what a chart of
// a long run is read from, and what is kept of one.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/runs/run.h"
#include "orchestrator/store/database.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::store {

// What a block is made of: blocks of the level before, or rows. Its rows lie in one span of so many
// seconds of their attempt (0 s is its start), and are at most so many, so that a chart costs the
// same whether steps are short or long.
struct BlockLevel {
  int seconds = 0;
  std::int64_t most_rows = 0;
};
inline constexpr std::array kBlockLevels = {BlockLevel{10, 100}, BlockLevel{60, 1000},
                                            BlockLevel{600, 10'000}};

// The series of steps, in the order in which blocks have them; new ones come last.
[[nodiscard]] const std::vector<std::string>& step_series();
// In the place of a value that the journal does not say.
inline constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
// Of a row: of each series its value, or kNothing.
[[nodiscard]] std::vector<double> values_of(const StepRow& row);
// What a chart's rows are asked for with: the column or expression of a series of rows.
[[nodiscard]] std::string expression_of(const std::string& series);

// The figures of all series of a block, as the store has them: a mask of 32 bits of the series that
// have any, and for each of these five doubles; little-endian.
[[nodiscard]] std::string packed(const std::vector<SeriesFigures>& figures);
// Of all series; none has any where the bytes are not what packed() makes.
[[nodiscard]] std::vector<SeriesFigures> unpacked(std::string_view bytes);

// Of table step_blocks, and what they say.
[[nodiscard]] const std::string& block_columns();
[[nodiscard]] StepBlock read_block(const Statement& row);

// Rolls up the new rows of one attempt, in the caller's transaction.
class BlockWriter {
 public:
  BlockWriter(Database& database, runs::AttemptNumber attempt)
      : database_(database), attempt_(attempt) {}

  // In the order of the journal, and each once.
  void add(std::int64_t sequence, const StepRow& row);
  // Writes down what has changed.
  void finish();

 private:
  struct Level {
    std::optional<StepBlock> open;  // the newest, which may grow
    bool read = false;
  };
  void fold(std::size_t level, const StepBlock& block);
  void write(std::size_t level, const StepBlock& block);

  Database& database_;
  runs::AttemptNumber attempt_;
  std::array<Level, kBlockLevels.size()> levels_;
};

// Of all step rows, in a store that has no blocks; in the caller's transaction.
void make_blocks(Database& database);

}  // namespace regatta::orchestrator::store
