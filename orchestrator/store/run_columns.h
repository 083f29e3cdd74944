// The columns of launches and attempts, as they are read.
#pragma once

#include <string>

#include "orchestrator/runs/record_fields.h"
#include "orchestrator/store/rows.h"

namespace regatta::orchestrator::store {

inline const std::string kLaunchColumns = selection(columns_of<runs::Launch>(), "launches");
inline const std::string kAttemptColumns = selection(columns_of<runs::Attempt>(), "attempts");

}  // namespace regatta::orchestrator::store
