// The command lines of `regatta-train export` and `regatta-train import`.
#pragma once

#include <string>

#include "trainer/interchange/model_export.h"
#include "trainer/interchange/model_import.h"

namespace CLI {
class App;
}

namespace regatta::trainer::cli {

// Options are members, filled by the parser between add() and run().
class ExportCommand {
 public:
  CLI::App* add(CLI::App& program);
  [[nodiscard]] int run();

 private:
  interchange::ExportOptions options_;
  std::string checkpoint_, output_, model_, vocabulary_, question_head_;
};

class ImportCommand {
 public:
  CLI::App* add(CLI::App& program);
  [[nodiscard]] int run();

 private:
  interchange::ImportOptions options_;
  std::string from_, run_file_, run_directory_, vocabulary_;
};

}  // namespace regatta::trainer::cli
