#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "trainer/contract/length_table.h"
#include "trainer/contract/run_config.h"
#include "trainer/device/device.h"

namespace regatta::trainer::bench {

struct BenchStepOptions {
  contract::ModelShape shape;  // vocabulary set
  std::string model_name;
  std::string lengths_name;
  std::string attention_name = "automatic";  // only reported
  contract::OptimizerKind optimizer = contract::OptimizerKind::AdamW;
  double dropout = 0.1;
  contract::Precision precision = contract::Precision::Float32;
  int token_bucket = 0;  // 0: as the device likes
  bool graphs = true;
  int samples = 16;      // per step
  int micro = 0;         // per forward/backward; 0: all at once
  int steps = 10;        // measured
  int warmup_steps = 2;  // where token counts are not rounded; else every step runs twice before
  int threads = 1;       // of the host: draws the first weights; else only reported
};

// Times whole optimizer steps on random pieces with lengths from the table (each length as often as
// the table says over the measured steps, in random order, cut to the model's positions), 15 % of
// the positions masked. Returns JSON: tokens/s, samples/s, GFLOP/s by training_flops, step time
// (median, least, most), peak memory, what was run; and the time per phase, from a few more steps
// that wait after each phase, which the measured ones do not. On a GPU also idle_share: of a step's
// time, what the GPU waits for the host between steps; from the same steps enqueued twice, waiting
// for each one's end as training does, and without waiting.
[[nodiscard]] std::string bench_step(device::Device& device, const base::Clock& clock,
                                     const contract::LengthTable& lengths,
                                     const BenchStepOptions& options);

}  // namespace regatta::trainer::bench
