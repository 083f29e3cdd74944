// What can be done with the checkpoints of a run directory, answered as the API's JSON
// (docs/api.md). The command line does the same without a controller.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "checkpoint/store.h"

namespace regatta::orchestrator::checkpoints {

// In the following, a checkpoint is asked for by its name, by its step, or as "latest" (the newest
// valid one). Code::NotFound when there is none such, Code::User when several have that step.
// Errors of the file system pass through. Everything passed by reference outlives the object.
constexpr std::size_t kMostRemovedRows = 200;

class CheckpointTools {
 public:
  CheckpointTools(base::FileSystem& files, base::Clock& clock, base::Path run_directory);

  // {"checkpoints": [row…]}, newest first: what is there, then what was removed (the newest
  // kMostRemovedRows of it).
  [[nodiscard]] nlohmann::ordered_json list() const;
  // The row with "manifest" and "files" (their tensors).
  [[nodiscard]] nlohmann::ordered_json show(const std::string& checkpoint) const;

  // Bytes that verify() would read; 0 for a checkpoint that is not valid.
  [[nodiscard]] std::uint64_t bytes_of(const std::string& checkpoint) const;
  // Bytes that gc() would read if the newest is good.
  [[nodiscard]] std::uint64_t newest_bytes() const;
  // Reads every byte: {"name", "step", "good", "bytes", "seconds", "message"}. What it finds is
  // kept beside the checkpoints: a damaged one is listed so, is not "latest", and counts for gc()
  // as damaged, until it is verified to be good.
  [[nodiscard]] nlohmann::ordered_json verify(const std::string& checkpoint) const;

  // The row afterwards.
  nlohmann::ordered_json pin(const std::string& checkpoint, const std::string& reason);
  nlohmann::ordered_json unpin(const std::string& checkpoint);

  // By the policy of run.json: {"dry_run", "policy", "removed": [row…], "kept": [row…]} with rows
  // {"name", "step", "reasons"}. Reads the newest checkpoint before anything goes, and keeps what
  // it finds as verify() does; a dry run, too, so that both find the same. Unread: trusts
  // manifests.
  enum class Gc { DryRun, DryRunUnread, Remove };
  nlohmann::ordered_json gc(Gc mode);

  // The files of a checkpoint that is whole, the manifest last. Code::Conflict for another.
  struct StoredFile {
    std::string name;
    std::uint64_t bytes = 0;
    std::string digest;  // XXH3-128
  };
  struct StoredFiles {
    base::Path directory;
    double written_utc = 0;
    std::vector<StoredFile> files;
  };
  [[nodiscard]] StoredFiles files_of(const std::string& checkpoint) const;
  // A mark that keeps retention away while somebody reads it; null where none can be written.
  [[nodiscard]] std::shared_ptr<void> hold(const base::Path& checkpoint) const;

  [[nodiscard]] const base::Path& run_directory() const { return run_directory_; }
  [[nodiscard]] base::Path path_of(const std::string& checkpoint) const;

 private:
  [[nodiscard]] checkpoint::CheckpointStore store() const;
  // Newest first; what was found to be damaged is, and keeps its manifest.
  [[nodiscard]] std::vector<checkpoint::Entry> entries() const;
  [[nodiscard]] checkpoint::Entry find(const std::string& checkpoint) const;
  [[nodiscard]] nlohmann::ordered_json row_of(const std::string& name) const;

  base::FileSystem& files_;
  base::Clock& clock_;
  base::Path run_directory_;
};

// Of the model's tensors of two checkpoint directories, of any runs; with Yes the optimizer's too.
// "damaged": of which {"path", "reason"} a file with them is not what its manifest says.
enum class WithOptimizer { No, Yes };
[[nodiscard]] nlohmann::ordered_json diff_checkpoints(base::FileSystem& files, const base::Path& a,
                                                      const base::Path& b, WithOptimizer optimizer);

}  // namespace regatta::orchestrator::checkpoints
