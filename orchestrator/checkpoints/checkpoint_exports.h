// Exports of checkpoints that the API was asked for: `regatta-train export` as a child, into
// RUN/exports/<checkpoint>, one at a time.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/file_system.h"

namespace regatta::orchestrator::checkpoints {

struct ExportSettings {
  base::Path trainer;              // regatta-train; empty: nothing can be exported
  double deadline_seconds = 3600;  // an export that takes longer is killed
  std::map<std::string, std::string> environment{};  // all that it gets
};

// What `regatta-train export --for` knows.
inline constexpr std::array kExportModels{"pretraining", "encoder", "question-answering",
                                          "sequence-classification"};

struct ExportRequest {
  std::string model;  // of kExportModels; empty: by the run's task
  bool with_optimizer = false;
};

// Thread-safe. What is under way is known to this object only; what is done lies on the disk.
class CheckpointExports {
 public:
  // `files` must outlive it.
  CheckpointExports(base::FileSystem& files, ExportSettings settings);
  // Kills what is under way; nothing of it stays.
  ~CheckpointExports();
  CheckpointExports(const CheckpointExports&) = delete;
  CheckpointExports& operator=(const CheckpointExports&) = delete;

  // Begins, and answers at once as status() does. `name`: of a checkpoint of the run.
  // Code::Conflict while the output exists or is being made, Code::Retry while another one is,
  // Code::Operator without a trainer or when RUN/exports is a link.
  nlohmann::ordered_json start(const base::Path& run_directory, const std::string& name,
                               const ExportRequest& request);
  // {"name", "state": "running", "done" or "failed", "path", "files": [{"name", "bytes",
  // "digest"}…], "message"}; Code::NotFound when there is none (or another one began after it had
  // failed). "digest": XXH3-128 when it was made, as `.digests.json` in the output has it, or null.
  [[nodiscard]] nlohmann::ordered_json status(const base::Path& run_directory,
                                              const std::string& name) const;

  // Of one that is done: what status() says. Code::Conflict for another.
  [[nodiscard]] nlohmann::ordered_json finished(const base::Path& run_directory,
                                                const std::string& name) const;
  // There is none at once, and for good. Code::Conflict while it is being made, Code::NotFound when
  // there is none.
  void remove(const base::Path& run_directory, const std::string& name);

 private:
  enum class State { None, Running, Failed };

  void run(const std::stop_token& stop, const std::vector<std::string>& arguments,
           const base::Path& output);
  // Why it failed; empty when it did not.
  [[nodiscard]] std::string run_child(const std::stop_token& stop,
                                      const std::vector<std::string>& arguments,
                                      const base::Path& log);
  void remove_leftovers(const base::Path& output);
  void remove_staged(const base::Path& directory);
  [[nodiscard]] nlohmann::ordered_json describe(const base::Path& output, State state,
                                                const std::string& message) const;

  base::FileSystem& files_;
  ExportSettings settings_;
  mutable std::mutex mutex_;  // guards the next three
  State state_ = State::None;
  base::Path output_;  // of the newest
  std::string message_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // of the newest; last: it ends before what it uses
};

}  // namespace regatta::orchestrator::checkpoints
