// `regatta-train bench platform`.
#pragma once

#include <string>

#include "trainer/bench/bench_lengths.h"
#include "trainer/bench/bench_platform.h"
#include "trainer/bench/bench_ranks.h"

namespace CLI {
class App;
}

namespace regatta::trainer::bench {

class PlatformCommand {
 public:
  // `place` outlives it.
  PlatformCommand(const BenchPlace& place, int cores) : place_(place), cores_(cores) {}
  CLI::App* add(CLI::App& bench);
  [[nodiscard]] int run();

 private:
  const BenchPlace& place_;
  int cores_;
  double seconds_ = 120;
  std::string out_, directory_ = ".";
};

// All-reduce of two ranks of this machine, which another process of `place`'s program measures.
// Throws Code::Operator with its last words where it cannot.
[[nodiscard]] std::vector<CommRow> all_reduce_of_two(const BenchPlace& place,
                                                     const base::Path& directory,
                                                     double timeout_seconds);
// The rows of a file that `bench comm --json` wrote. Throws Code::Operator where it has none.
[[nodiscard]] std::vector<CommRow> rows_of_comm_json(const std::string& text);

}  // namespace regatta::trainer::bench
