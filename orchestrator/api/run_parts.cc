#include "orchestrator/api/run_parts.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "orchestrator/api/answer_fields.h"
#include "orchestrator/runs/record_fields.h"
#include "orchestrator/store/abandoned_points.h"
#include "orchestrator/store/row_fields.h"
#include "orchestrator/store/series.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json attempts_json(store::StoreReads& store, const runs::Run& run) {
  const std::vector<runs::Launch> launches = store.launches(run.number);
  Json answer{{"launches", Json::array()}, {"attempts", Json::array()}};
  for (const runs::Launch& launch : launches) {
    Json json;
    add_fields(launch, &json);
    json["over"] = launch.over;
    json["what"] = text_or_null(launch.words);
    answer["launches"].push_back(std::move(json));
  }
  for (const runs::Attempt& attempt : store.attempts(run.number)) {
    Json json;
    add_fields(attempt, &json);
    const auto of = std::find_if(launches.rbegin(), launches.rend(), [&](const auto& launch) {
      return launch.attempts_before < attempt.number;
    });
    json["launch"] = of == launches.rend() ? Json() : Json(of->number);
    json["ranks"] = attempt.ranks;
    json["ranks_per_node"] = attempt.ranks_per_node;
    json["device"] = text_or_null(attempt.device);
    json["hosts"] = attempt.hosts;
    json["training_seconds"] = number(attempt.training_seconds);
    json["reason"] = text_or_null(attempt.reason);
    json["message"] = text_or_null(attempt.message);
    answer["attempts"].push_back(std::move(json));
  }
  return answer;
}

Json evaluations_json(store::StoreReads& store, const runs::Run& run, std::int64_t cursor,
                      int limit) {
  const std::vector<runs::Attempt> attempts = store.attempts(run.number);
  const store::RunAxis axis(attempts);
  std::map<runs::AttemptNumber, int> numbers;
  for (const runs::Attempt& attempt : attempts) numbers[attempt.row] = attempt.number;
  // One more than wanted, to see whether there are more.
  auto rows = store.evaluations(run.number, cursor, limit + 1);
  const bool more = rows.size() > static_cast<std::size_t>(limit);
  if (more) rows.pop_back();
  const std::vector<bool> abandoned = store::abandoned(store, run, attempts, rows);
  Json list = Json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const store::EvaluationRow& row = rows[i];
    Json json;
    add_fields(row, &json);
    json["attempt"] = numbers[row.attempt];
    json["at_seconds"] = number(axis.at(row.attempt, row.seconds));
    json["abandoned"] = static_cast<bool>(abandoned[i]);
    list.push_back(std::move(json));
    cursor = row.cursor;
  }
  return {{"evaluations", std::move(list)}, {"cursor", cursor}, {"more", more}};
}

}  // namespace regatta::orchestrator::api
