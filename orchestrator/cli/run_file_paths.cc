#include "orchestrator/cli/run_file_paths.h"

#include <filesystem>
#include <system_error>

#include "orchestrator/sweeps/sweep_file.h"

namespace regatta::orchestrator::cli {
namespace {

std::string absolute_path(const base::Path& folder, const std::string& path) {
  return std::filesystem::absolute(folder / path).lexically_normal().string();
}

}  // namespace

void make_data_absolute(const base::Path& folder, trainer::contract::RunConfig* config) {
  trainer::contract::change_data_paths(
      &config->data, [&](const std::string& path) { return absolute_path(folder, path); });
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
  from->path = absolute_path(folder, from->path);
}

void make_paths_absolute(const base::Path& folder, sweeps::Sweep* sweep) {
  sweeps::change_paths(sweep, [&](const std::string&, const std::string& path) {
    return absolute_path(folder, path);
  });
}

}  // namespace regatta::orchestrator::cli
