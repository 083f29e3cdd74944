// The versions of the store's tables (schema.h), and the way from one to the next.
#pragma once

#include <cstdint>
#include <string>

#include "orchestrator/store/database.h"

namespace regatta::orchestrator::store {

// What to do about a damaged store, for the end of a message.
inline constexpr const char* kDamageRemedy =
    "restore a backup with 'regatta restore FILE', or move the store away (store.sqlite*) and "
    "start the controller, which rebuilds it from the run directories";

// PRAGMA user_version; 0: there are no tables yet.
[[nodiscard]] std::int64_t version_of(Database& database);
// Code::Operator for a version that no regatta or only a newer one has written.
void check_version(std::int64_t version, const std::string& remedy_of_newer);
// Makes the tables, or those of an older version into today's; in the caller's transaction, so that
// a store has the old ones or the new ones, whatever happens.
void bring_up_to_date(Database& database);

}  // namespace regatta::orchestrator::store
