// What tests of tried models share: exported models of every task, and plain Python's word.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "tests/trainer/interchange/task_run.h"
#include "tests/trainer/interchange/trained_run.h"

namespace regatta::tests {

class TriedModel : public testing::Test {
 protected:
  static void SetUpTestSuite() { suite_ = new TemporaryDirectory; }
  static void TearDownTestSuite() {
    runs_.clear();
    delete suite_;
  }
  static base::FileSystem& disk() { return base::posix_file_system(); }
  static const TaskRun& run_of(trainer::contract::Task task) {
    auto it = runs_.find(task);
    if (it != runs_.end()) return it->second;
    const base::Path place = suite_->path() / trainer::contract::name_of(task);
    it = runs_.emplace(task, make_task_run(place, task)).first;
    trainer::interchange::ExportOptions options;
    options.checkpoint = it->second.run;
    options.output = place / "model";
    (void)trainer::interchange::export_model(disk(), options);
    spread(options.output);
    return it->second;
  }
  // Its run, exported, with tenfold norms and heads (spread()).
  static base::Path model_of(trainer::contract::Task task) {
    return run_of(task).run.parent_path() / "model";
  }
  [[nodiscard]] const base::Path& path() const { return directory_.path(); }
  // What try_model.py prints: JSON.
  static std::string python_says(const std::vector<std::string>& arguments) {
    base::Command command;
    command.arguments = {
        "python3", "-B",
        std::string(REGATTA_SOURCE_DIR) + "/tests/trainer/interchange/try_model.py"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    const base::Output output = base::run(command, 200);
    EXPECT_EQ(output.exit.code.value_or(-1), 0) << output.errors;
    return output.text;
  }

 private:
  // Logits of random weights of 0.1 are nearly equal, so that rounding would decide what is best.
  static void spread(const base::Path& model) {
    std::vector<StoredTensor> tensors = read_tensors(model / "model.safetensors");
    for (StoredTensor& tensor : tensors) {
      if (!tensor.name.ends_with("LayerNorm.weight") && tensor.name != "qa_outputs.weight" &&
          tensor.name != "classifier.weight") {
        continue;
      }
      for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, tensor.bytes.data() + at, sizeof value);
        value *= 10;
        std::memcpy(tensor.bytes.data() + at, &value, sizeof value);
      }
    }
    write_tensors(model / "model.safetensors", tensors);
  }

  TemporaryDirectory directory_;
  static inline TemporaryDirectory* suite_ = nullptr;
  static inline std::map<trainer::contract::Task, TaskRun> runs_;
};

// So many times the error of the simplest float32 program is allowed; of these models a wrong
// token, segment or position is off by thousands.
inline constexpr double kFloat32Errors = 8;

}  // namespace regatta::tests
