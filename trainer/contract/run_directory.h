// The run directory: where a run's truth lives. Layout, owners and modes:
// docs/formats/run_directory.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace regatta::trainer::contract {

struct AttemptName {
  int number = 0;         // 1, 2, …
  std::string execution;  // 16 random hexadecimal digits

  [[nodiscard]] std::string text() const;  // "3-0123456789abcdef"
};
[[nodiscard]] std::optional<AttemptName> parse_attempt_name(const std::string& text);

class RunDirectory {
 public:
  // Makes the directory (0700) with run.json, the files `beside` it (text by name) and what `fill`
  // puts, synced, into the path that it gets; complete or not at all. Code::Conflict when it
  // exists.
  [[nodiscard]] static RunDirectory create(
      base::FileSystem& files, const base::Path& path, const std::string& run_json,
      const std::map<std::string, std::string>& beside = {},
      const std::function<void(const base::Path& directory)>& fill = {});
  // Code::NotFound when there is no run.json.
  [[nodiscard]] static RunDirectory open(base::FileSystem& files, const base::Path& path);

  [[nodiscard]] const base::Path& path() const { return path_; }
  [[nodiscard]] base::Path attempt_path(const AttemptName& attempt) const;
  [[nodiscard]] base::Path journal_path(const AttemptName& attempt) const;
  [[nodiscard]] base::Path checkpoints_path() const { return path_ / "checkpoints"; }
  [[nodiscard]] std::string run_json() const;
  // In order of number; two attempts may share a number (both started at once), never an execution.
  [[nodiscard]] std::vector<AttemptName> attempts() const;

  // Creates the next attempt's directory (with logs/) under a random execution id.
  [[nodiscard]] AttemptName create_attempt();
  // Takes the next fencing epoch: creates epoch/<n> with O_EXCL, so that no two attempts share one.
  [[nodiscard]] std::int64_t take_epoch();
  [[nodiscard]] std::int64_t newest_epoch() const;

 private:
  RunDirectory(base::FileSystem& files, base::Path path) : files_(&files), path_(std::move(path)) {}

  base::FileSystem* files_;
  base::Path path_;
};

// An attempt's right to write. Passed to everything that writes into the run directory.
class Fence {
 public:
  Fence(const RunDirectory& directory, std::int64_t epoch) : directory_(directory), epoch_(epoch) {}
  [[nodiscard]] std::int64_t epoch() const { return epoch_; }
  // True while no newer attempt has taken an epoch.
  [[nodiscard]] bool holds() const { return directory_.newest_epoch() == epoch_; }

 private:
  RunDirectory directory_;
  std::int64_t epoch_;
};

}  // namespace regatta::trainer::contract
