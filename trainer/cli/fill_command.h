// The command line of `regatta-train fill`.
#pragma once

#include "trainer/cli/model_arguments.h"
#include "trainer/interchange/try_model.h"

namespace CLI {
class App;
}

namespace regatta::trainer::cli {

// Options are members, filled by the parser between add() and run().
class FillCommand {
 public:
  explicit FillCommand(const plugins::DevicePlace& place) : model_(place) {}
  CLI::App* add(CLI::App& program);
  [[nodiscard]] int run();

 private:
  ModelArguments model_;
  interchange::FillOptions options_;
  bool json_ = false;
};

}  // namespace regatta::trainer::cli
