// How fast samples are made, by how many threads, and what that costs computing beside them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "trainer/samples/sample_stream.h"

namespace regatta::trainer::bench {

struct BenchInputOptions {
  std::string source;        // of the samples, for people
  std::vector<int> workers;  // each a row
  int batch = 256;           // samples of a step
  int max_length = 512;
  int rounds = 3;
  double seconds = 0.5;  // of a row in a round
  int cores = 1;
  double demand = 0;  // samples/s that a run takes; 0: nothing is said of it
};

// Returns JSON: for each number of workers, `samples_per_second`, `tokens_per_second`,
// `processors` (that making kept busy), `ratio` (of the rate to that of the first row), and
// `computing` (the share of its speed that is left to a loop on each core meanwhile, of what it has
// alone). Steps are made by the prefetcher that training uses, twice as many ahead as there are
// workers, and taken as soon as they are made. Medians over the rounds, in which all rows take
// turns. With a demand `enough`: the least workers that meet it, null where none do.
[[nodiscard]] std::string bench_input(const samples::SampleStream& samples,
                                      const base::Clock& clock, const BenchInputOptions& options);

// The same for people: a line each.
[[nodiscard]] std::string bench_input_table(const std::string& json);

}  // namespace regatta::trainer::bench
