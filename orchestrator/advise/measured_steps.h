// What a step takes on ranks that were tried, from steps of two or more batches: t = α + β · B for
// each number of ranks, as Pollux (OSDI 2021, section 3.2) has the time of a gradient.
#pragma once

#include <map>
#include <vector>

#include "orchestrator/advise/advice.h"

namespace regatta::orchestrator::advise {

// Of the steps of one run: the median, and its quartiles as what a step may take.
struct MeasuredStep {
  int nodes = 1, ranks = 1, batch = 1;
  Range seconds;
  double evaluation_seconds = 0;
};

// The middle of some steps' seconds; the first fifth, three at least, is passed over while caches
// and buffers grow. Code::User for fewer than eight.
[[nodiscard]] Range typical_step(std::vector<double> seconds);

class MeasuredSteps {
 public:
  // α and β not below 0, with the least squared differences. Of a number of ranks with one batch α
  // is taken for 0. Code::User for no step and for times that are not above 0.
  explicit MeasuredSteps(const std::vector<MeasuredStep>& steps);

  // Batches between, below and above those that were tried. Its ends are as far off as those of the
  // steps tried, and as the line misses them.
  [[nodiscard]] Candidate candidate(int ranks, int batch) const;
  [[nodiscard]] std::vector<int> ranks() const;

 private:
  struct Line {
    int nodes = 1;
    double alpha = 0, beta = 0;   // seconds, and seconds of a sample
    double below = 1, above = 1;  // factors
    double evaluation_seconds = 0;
  };
  std::map<int, Line> lines_;  // by ranks
};

}  // namespace regatta::orchestrator::advise
