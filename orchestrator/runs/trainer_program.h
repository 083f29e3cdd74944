// Where regatta-train lies: the controller starts attempts with it, `regatta ckpt export` exports.
#pragma once

#include <string>

#include "base/file_system.h"

namespace regatta::orchestrator::runs {

// `named` (--trainer) if it is not empty; else beside `program` (this one), where a build puts it
// beside that, or in `search_path` (PATH). Absolute. Code::Operator when it is nowhere.
[[nodiscard]] base::Path find_trainer(const std::string& named, const base::Path& program,
                                      const std::string& search_path);

}  // namespace regatta::orchestrator::runs
