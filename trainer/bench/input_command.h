// `regatta-train bench input`.
#pragma once

#include <string>

#include "base/file_system.h"
#include "trainer/bench/bench_input.h"
#include "trainer/bench/bench_lengths.h"

namespace CLI {
class App;
}

namespace regatta::trainer::bench {

class InputCommand {
 public:
  // program: regatta-train's, beside which length tables are found.
  InputCommand(base::Path program, int cores);
  CLI::App* add(CLI::App& bench);
  int run();

 private:
  [[nodiscard]] std::string of_lengths();
  [[nodiscard]] std::string of_dataset();

  base::Path program_;
  int cores_;
  BenchInputOptions options_;
  BenchLengths lengths_;
  std::string data_;
};

}  // namespace regatta::trainer::bench
