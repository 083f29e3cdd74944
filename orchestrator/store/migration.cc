#include "orchestrator/store/migration.h"

#include "orchestrator/store/run_nodes.h"
#include "orchestrator/store/schema.h"
#include "orchestrator/store/step_blocks.h"

namespace regatta::orchestrator::store {

std::int64_t version_of(Database& database) {
  Statement ask = database.prepare("PRAGMA user_version");
  return ask.step() ? ask.integer(0) : 0;
}

void check_version(std::int64_t version, const std::string& remedy_of_newer) {
  if (version < 0) {
    throw base::Error(base::Code::Operator, "the store is damaged (schema " +
                                                std::to_string(version) + "); " + kDamageRemedy);
  }
  if (version > kSchemaVersion) {
    throw base::Error(base::Code::Operator, "the store was written by a newer regatta (schema " +
                                                std::to_string(version) + ", this one knows " +
                                                std::to_string(kSchemaVersion) + "); " +
                                                remedy_of_newer);
  }
}

void bring_up_to_date(Database& database) {
  const std::int64_t before = version_of(database);
  if (before >= kSchemaVersion) return;
  for (std::int64_t version = before; version < kSchemaVersion; ++version) {
    database.execute(kVersions[version]);
  }
  // With today's tables, as the code knows them.
  if (before < kLabelTablesVersion) fill_run_nodes(database);
  if (before < kStepBlocksVersion) make_blocks(database);
  database.execute("PRAGMA user_version = " + std::to_string(kSchemaVersion));
}

}  // namespace regatta::orchestrator::store
