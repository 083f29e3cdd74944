// The command line of `regatta-train predict`.
#pragma once

#include <string>

#include "trainer/cli/model_arguments.h"
#include "trainer/interchange/predict_file.h"

namespace CLI {
class App;
}

namespace regatta::trainer::cli {

// Options are members, filled by the parser between add() and run().
class PredictCommand {
 public:
  explicit PredictCommand(const plugins::DevicePlace& place) : model_(place) {}
  CLI::App* add(CLI::App& program);
  [[nodiscard]] int run();

 private:
  ModelArguments model_;
  interchange::PredictOptions options_;
  std::string file_, output_, format_;
  bool no_header_ = false, no_labels_ = false, json_ = false;
};

}  // namespace regatta::trainer::cli
