// The command line of `regatta-train bench …`.
#pragma once

#include <memory>

#include "trainer/bench/bench_ranks.h"

namespace CLI {
class App;
}

namespace regatta::trainer::bench {

class BenchCommands {
 public:
  // cores: that this process may use.
  BenchCommands(BenchPlace place, int cores);
  ~BenchCommands();
  BenchCommands(const BenchCommands&) = delete;
  BenchCommands& operator=(const BenchCommands&) = delete;

  // Both objects live until the command has run.
  void add(CLI::App& program);
  // Runs the benchmark that was parsed, and returns the exit code.
  [[nodiscard]] int run();

 private:
  struct Commands;
  std::unique_ptr<Commands> commands_;
};

}  // namespace regatta::trainer::bench
