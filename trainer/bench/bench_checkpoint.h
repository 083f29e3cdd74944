// What checkpoints cost: how much longer training takes with them, how fast they are written and
// digested, how soon a run goes on after one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/length_table.h"
#include "trainer/contract/run_config.h"
#include "trainer/device/device.h"

namespace regatta::trainer::bench {

// In the order in which they run.
[[nodiscard]] const std::vector<std::string>& bench_checkpoint_parts();

struct BenchCheckpointOptions {
  contract::ModelShape shape;  // vocabulary set; of overhead and writer
  std::string model_name;
  contract::ModelShape resume_shape;  // vocabulary set
  std::string resume_model_name;
  std::string lengths_name;
  base::Path directory;            // exists; what is written below it is removed again
  std::vector<std::string> parts;  // of bench_checkpoint_parts(); empty: all
  contract::Precision precision = contract::Precision::Float32;
  contract::AttentionKind attention = contract::AttentionKind::Automatic;
  int samples = 0;  // per step; 0: so many that a step takes about step_seconds
  double step_seconds = 1.5;
  int rounds = 4;
  double block_seconds = 12;
  std::int64_t digest_bytes = std::int64_t{256} << 20;
  int threads = 1;  // of the host: draws the first weights; else only reported
};

// Returns JSON, by part:
//   overhead  blocks of the same steps in turn with one asynchronous checkpoint and without, the
//             order changing every round; `extra_seconds` of a checkpoint is the median over rounds
//             of the difference
//   writer    the state of `shape` through CheckpointStore::write_shard, in turn with `dd bs=8M
//             conv=fsync` of as many zeros in the same directory
//   digest    base::Digest of a buffer, on one core
//   resume    the state of `resume_shape`, read before so that it is in the page cache: finding,
//             verifying and reading it, then loading it into the device; {"skipped": "…"} where
//             memory or disk are too small
// Throws Code::User for an unknown part, Code::Operator when a checkpoint cannot be written.
[[nodiscard]] std::string bench_checkpoint(device::Device& device, base::Clock& clock,
                                           const contract::LengthTable& lengths,
                                           const BenchCheckpointOptions& options);

}  // namespace regatta::trainer::bench
