// The command line of `regatta-train eval`.
#pragma once

#include <string>

#include "trainer/run/checkpoint_evaluation.h"

namespace CLI {
class App;
}

namespace regatta::trainer::cli {

// Options are members, filled by the parser between add() and run().
class EvalCommand {
 public:
  explicit EvalCommand(const plugins::DevicePlace& place) { options_.place = place; }
  CLI::App* add(CLI::App& program);
  [[nodiscard]] int run();

 private:
  run::EvaluationOptions options_;
  std::string checkpoint_, dataset_;
  bool json_ = false;
};

}  // namespace regatta::trainer::cli
