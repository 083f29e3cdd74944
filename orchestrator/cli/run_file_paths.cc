#include "orchestrator/cli/run_file_paths.h"

#include <filesystem>
#include <system_error>

namespace regatta::orchestrator::cli {

void make_data_absolute(const base::Path& folder, trainer::contract::RunConfig* config) {
  trainer::contract::change_data_paths(&config->data, [&](const std::string& path) {
    return std::filesystem::absolute(folder / path).lexically_normal().string();
  });
}

void settle_start(const base::Path& folder, trainer::contract::StartConfig* from) {
  const auto is_there = [&](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::exists(folder / path, ignored);
  };
  if (from->is_short && from->path.find('/') == std::string::npos && !is_there(from->path) &&
      !is_there(from->path + ".index")) {
    from->run.swap(from->path);
  }
  from->is_short = false;
  if (from->path.empty()) return;
  from->path = std::filesystem::absolute(folder / from->path).lexically_normal().string();
}

}  // namespace regatta::orchestrator::cli
