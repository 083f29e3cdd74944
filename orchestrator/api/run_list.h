// GET /runs: its query, its rows and the cursor between its pages (docs/api.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "orchestrator/api/routes.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::api {

// The answer, or 400 for a cursor that is not one of a list that is filtered and sorted so.
[[nodiscard]] Response list_runs(store::StoreReads& store, const Call& call, double now_utc);

// A place as clients get it: nothing that they should read. parse_cursor() takes what cursor_text()
// makes of a place in a list filtered and sorted so, and nothing else.
[[nodiscard]] std::string cursor_text(const store::RunFilter& filter,
                                      const store::ListPlace& place);
[[nodiscard]] std::optional<store::ListPlace> parse_cursor(const store::RunFilter& filter,
                                                           const std::string& text);

// Of what row_json() (run_json.h) has of a run, or a schema of it: what a list has.
[[nodiscard]] nlohmann::ordered_json slim_row(const nlohmann::ordered_json& row);

}  // namespace regatta::orchestrator::api
