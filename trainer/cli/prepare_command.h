// The command line of `regatta-train prepare`.
#pragma once

#include <string>
#include <vector>

#include "trainer/cli/prepare_task.h"
#include "trainer/data/prepare.h"
#include "trainer/run/end_on_signal.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace regatta::trainer::cli {

// Options are members, filled by the parser between add() and run().
class PrepareCommand {
 public:
  CLI::App* add(CLI::App& program);
  [[nodiscard]] int run();

 private:
  [[nodiscard]] std::vector<CLI::Option*> add_text_options(CLI::App& app, CLI::Option* vocabulary);
  [[nodiscard]] int run_task();
  void end();

  data::PrepareOptions options_;
  std::vector<std::string> inputs_;
  std::string output_, vocabulary_, format_;
  bool cased_ = false;
  PrepareTask task_;
  data::PartialDataset partial_;
};

}  // namespace regatta::trainer::cli
