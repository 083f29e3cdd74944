// A run of a very small model that has trained some steps, for tests of what leaves and enters
// runs.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/interchange/model_export.h"
#include "trainer/interchange/model_import.h"

namespace regatta::tests {

struct RunText {
  std::string gelu = "erf";
  int steps = 6;
  int save_every = 3;
  std::string more;  // lines of the run file
};

// The run file for a dataset.
[[nodiscard]] std::string run_text(const base::Path& dataset, const RunText& text);

// Makes the run directory of a run file, if it is not there yet, and trains to the end.
void train_run(const base::Path& run_file, const base::Path& run);

// The bytes of a run's newest checkpoint: model, optimizer.
[[nodiscard]] std::string newest_state(const base::Path& run);

// The checkpoints of a run, oldest first.
[[nodiscard]] std::vector<base::Path> checkpoints_of(const base::Path& run);
// Cuts the moments of a checkpoint into ranges, in as many shards.
void split_optimizer(const base::Path& checkpoint, int shards);

// The files of a directory, by name.
[[nodiscard]] std::map<std::string, std::string> contents_of(const base::Path& directory);
void write_text(const base::Path& path, const std::string& text);

// config.json and model.safetensors of an exported directory, to be changed and written back.
struct StoredTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};
[[nodiscard]] std::vector<StoredTensor> read_tensors(const base::Path& file);
void write_tensors(const base::Path& file, const std::vector<StoredTensor>& tensors,
                   const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
void change_config(const base::Path& directory, const std::function<void(nlohmann::json&)>& change);

// The error of a call, which must be one line; fails the test when it does not throw.
[[nodiscard]] base::Error error_of(const std::function<void()>& call);

class TrainedRun : public testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  static const base::Path& suite() { return suite_->path(); }
  static const base::Path& dataset() { return *dataset_; }
  static base::Path run_file() { return suite() / "run.yaml"; }
  static base::Path run() { return suite() / "run"; }
  [[nodiscard]] const base::Path& path() const { return directory_.path(); }
  // The run, exported to path()/name.
  base::Path exported(const std::string& name, bool with_optimizer = false);
  // Names in path() that begin so.
  [[nodiscard]] std::vector<std::string> names(const std::string& prefix) const;

 private:
  TemporaryDirectory directory_;
  static inline TemporaryDirectory* suite_ = nullptr;
  static inline base::Path* dataset_ = nullptr;
};

}  // namespace regatta::tests
