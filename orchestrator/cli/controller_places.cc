#include "orchestrator/cli/controller_places.h"

#include <filesystem>

#include "base/error.h"
#include "orchestrator/site/data_directory.h"
#include "orchestrator/site/site_defaults.h"

namespace regatta::orchestrator::cli {

base::Path data_directory(const std::string& given, const site::ProgramEnvironment& environment) {
  if (!given.empty()) {
    base::Path data = std::filesystem::absolute(given).lexically_normal();
    return data.has_filename() ? data : data.parent_path();  // "state/" is "state"
  }
  if (const auto found = site::default_data_directory(environment)) return *found;
  throw base::Error(base::Code::Operator,
                    "neither XDG_STATE_HOME nor HOME is set; name a directory with --data");
}

base::Path runs_directory(const std::string& given, const site::ProgramEnvironment& environment,
                          const base::Path& data) {
  if (!given.empty()) return given;
  return site::default_runs_directory(environment).value_or(data / "runs");
}

}  // namespace regatta::orchestrator::cli
