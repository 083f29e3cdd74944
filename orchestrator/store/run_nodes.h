// Which nodes a run had, by which runs are found again (`run_nodes`).
#pragma once

#include <cstdint>
#include <string>

#include "orchestrator/store/database.h"

namespace regatta::orchestrator::store {

// In the caller's transaction. A text that is no hostlist names nobody.
void add_run_nodes(Database& database, std::int64_t run, const std::string& hostlist);

// Those of all launches and attempts, of a store that was made before they were kept.
void fill_run_nodes(Database& database);

}  // namespace regatta::orchestrator::store
