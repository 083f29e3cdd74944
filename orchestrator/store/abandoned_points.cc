#include "orchestrator/store/abandoned_points.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

namespace regatta::orchestrator::store {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Of each block of an attempt its last row's cursor, and the smallest step that was trained after
// it; a row of no smaller step was trained again, since within a block steps only grow.
struct TrainedAfter {
  std::vector<std::pair<std::int64_t, std::int64_t>> blocks;
  std::int64_t attempt = kNever;  // after all of them

  [[nodiscard]] std::int64_t of(std::int64_t cursor) const {
    const auto block =
        std::lower_bound(blocks.begin(), blocks.end(), cursor,
                         [](const auto& each, std::int64_t wanted) { return each.first < wanted; });
    return block == blocks.end() ? attempt : block->second;
  }
};

}  // namespace

std::vector<bool> abandoned(StoreReads& store, const std::vector<runs::Attempt>& attempts,
                            const std::vector<StepRow>& rows) {
  const auto has_rows = [&](const runs::Attempt& attempt) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const StepRow& row) { return row.attempt == attempt.row; });
  };
  const auto oldest = std::find_if(attempts.begin(), attempts.end(), has_rows);
  std::map<runs::AttemptNumber, TrainedAfter> trained_after;
  std::int64_t smallest = kNever;
  for (auto attempt = attempts.end(); attempt != oldest;) {
    --attempt;
    TrainedAfter& trained = trained_after[attempt->row];
    trained.attempt = smallest;
    const std::vector<StepBlock> blocks = store.step_blocks(attempt->row, {});
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      trained.blocks.emplace_back(block->cursor, smallest);
      smallest = std::min(smallest, block->step);
    }
    std::reverse(trained.blocks.begin(), trained.blocks.end());
  }
  std::vector<bool> marks;
  marks.reserve(rows.size());
  for (const StepRow& row : rows) {
    const auto trained = trained_after.find(row.attempt);
    // One that is unknown began after `attempts` were read: nothing can be after it.
    marks.push_back(trained != trained_after.end() && row.step >= trained->second.of(row.cursor));
  }
  return marks;
}

std::vector<bool> abandoned(StoreReads& store, const runs::Run& run,
                            const std::vector<runs::Attempt>& attempts,
                            const std::vector<EvaluationRow>& rows) {
  if (rows.empty()) return {};
  std::map<runs::AttemptNumber, std::int64_t> smallest_after;
  std::int64_t in_later = kNever;
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
    smallest_after[attempt->row] = in_later;
    if (attempt->started) in_later = std::min(in_later, attempt->first_step + 1);
  }
  const auto note = [&](const EvaluationRow& row) -> bool {
    std::int64_t& smallest = smallest_after.try_emplace(row.attempt, kNever).first->second;
    const bool is_abandoned = row.step >= smallest;
    smallest = std::min(smallest, row.step);
    return is_abandoned;
  };
  for (const EvaluationRow& later : store.evaluations(run.number, rows.back().cursor)) note(later);
  std::vector<bool> marks(rows.size());
  for (std::size_t i = rows.size(); i-- > 0;) marks[i] = note(rows[i]);
  return marks;
}

}  // namespace regatta::orchestrator::store
