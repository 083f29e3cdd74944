// Whether reductions hide behind backward: shown with a link slow enough to be seen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/bench/bench_ranks.h"
#include "trainer/contract/length_table.h"

namespace regatta::trainer::bench {

// One model to show it on.
struct OverlapCase {
  std::string model;  // of bench_shape()
  int samples = 0;    // per step, over all ranks
  int steps = 0;      // measured, in each of `rounds`
  int rounds = 0;
  std::int64_t bucket_bytes = 0;
};
// What the command measures where nothing else is asked: a model whose bucket is small that is
// ready last; and BERT-base, whose tied embedding, a fifth of all bytes, is ready last.
[[nodiscard]] std::vector<OverlapCase> default_overlap_cases();
[[nodiscard]] OverlapCase overlap_case(const std::string& model);

// Each round measures, with C the seconds of a step without overlap, less the communication that
// they expose: C itself, without a link; then, over an artificial link that carries all gradients
// in C/2, a step with overlap (T) and one without. A perfect overlap takes max(C + t_last, t_first
// + C/2): t_last is the last bucket's transfer, which nothing can hide, t_first when the first
// bucket is ready. Returns JSON on rank 0: medians of rounds, ratios made within each round.
// Collective. Throws Code::User for one rank, and for a GPU.
[[nodiscard]] std::string bench_overlap(RankBench& bench, const contract::LengthTable& lengths,
                                        const std::vector<OverlapCase>& cases);

// The same for people.
[[nodiscard]] std::string bench_overlap_table(const std::string& json);

}  // namespace regatta::trainer::bench
