#include "orchestrator/api/history_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "orchestrator/api/answer_fields.h"
#include "orchestrator/store/abandoned_points.h"
#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/series.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

// Rows of all series by their cursors.
class Rows {
 public:
  explicit Rows(const std::vector<runs::Attempt>& attempts) : axis_(attempts) {
    for (const runs::Attempt& attempt : attempts) numbers_[attempt.row] = attempt.number;
  }

  // abandoned: of each row; empty where that is not told of such rows.
  template <typename Row>
  void add(const char* type, const std::vector<Row>& rows, const std::vector<bool>& abandoned) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Row& row = rows[i];
      Json json{{"type", type},
                {"attempt", numbers_[row.attempt]},
                {"at_seconds", number(axis_.at(row.attempt, row.seconds))}};
      if (!abandoned.empty()) json["abandoned"] = static_cast<bool>(abandoned[i]);
      add_fields(row, &json);
      rows_.emplace_back(row.cursor, std::move(json));
    }
  }
  // The first so many.
  [[nodiscard]] std::vector<std::pair<std::int64_t, Json>> first(std::size_t limit) && {
    std::sort(rows_.begin(), rows_.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    if (rows_.size() > limit) rows_.resize(limit);
    return std::move(rows_);
  }
  [[nodiscard]] std::size_t size() const { return rows_.size(); }

 private:
  store::RunAxis axis_;
  std::map<runs::AttemptNumber, int> numbers_;
  std::vector<std::pair<std::int64_t, Json>> rows_;
};

}  // namespace

Json history_json(store::StoreReads& store, const runs::Run& run, std::int64_t cursor, int limit) {
  const std::vector<runs::Attempt> attempts = store.attempts(run.number);
  Rows rows(attempts);
  const auto steps = store.steps_after(run.number, cursor, limit + 1);
  rows.add("step", steps, store::abandoned(store, attempts, steps));
  const auto evaluations = store.evaluations(run.number, cursor);
  rows.add("evaluation", evaluations, store::abandoned(store, run, attempts, evaluations));
  rows.add("checkpoint", store.checkpoints(run.number, cursor), {});
  const auto wanted = static_cast<std::size_t>(limit);
  const bool more = rows.size() > wanted;
  Json list = Json::array();
  for (auto& [at, row] : std::move(rows).first(wanted)) {
    cursor = at;
    list.push_back(std::move(row));
  }
  return {{"rows", std::move(list)},
          {"cursor", cursor},
          {"more", more},
          {"resolution_seconds", store.step_resolution(run.number)}};
}

}  // namespace regatta::orchestrator::api
