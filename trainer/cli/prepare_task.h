// The part of `regatta-train prepare` that makes a dataset of a task: `--task`.
#pragma once

#include <string>
#include <vector>

#include "trainer/data/staging.h"
#include "trainer/tasks/task_report.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace regatta::trainer::cli {

// Options are members, filled by the parser between add() and run().
class PrepareTask {
 public:
  // Adds --task and what goes with it only. `others`: options of `prepare` that do not.
  void add(CLI::App& app, const std::vector<CLI::Option*>& others);
  [[nodiscard]] bool is_asked() const { return !task_.empty(); }

  // Those of its options that `prepare` without a task has, too.
  struct Shared {
    const std::vector<std::string>& inputs;
    const std::string& output;
    const std::string& vocabulary;
    const std::string& format;
    bool cased = false;
    bool force = false;
  };
  // Throws as tasks::prepare_task, and Code::User for options that do not go together.
  [[nodiscard]] tasks::TaskPrepareReport prepared(const Shared& given,
                                                  data::PartialDataset& partial) const;

 private:
  void check(const Shared& given) const;

  std::string task_, text_column_, second_text_column_, label_column_;
  bool no_header_ = false;
};

}  // namespace regatta::trainer::cli
