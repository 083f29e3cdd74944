// Times every operation of a training step alone, through nothing but the Device contract.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "trainer/contract/length_table.h"
#include "trainer/contract/model_shape.h"
#include "trainer/device/device.h"

namespace regatta::trainer::bench {

struct BenchKernelsOptions {
  contract::ModelShape shape;  // vocabulary set
  std::string model_name, lengths_name;
  std::string dtype_name;      // only reported: "tf32" is Float32 on a device made for it
  std::string attention_name;  // only reported
  device::Dtype dtype = device::Dtype::Float32;  // of activations
  double dropout = 0.1;                          // of the cases that have it
  int samples = 96;                              // of the batch
  int repetitions = 7;                           // batches of calls; the median counts
  double batch_seconds = 0.01;  // a batch of calls lasts about this long, or one call
  int product_side = 8192;      // of the largest square product tried for the ceiling
  std::int64_t copy_bytes = std::int64_t{1} << 30;  // of the copy for the ceiling; halved to fit
};

// Returns JSON: what was run, the ceilings, and for each operation the median time of one call, its
// work by the rules in the field "counting", its rate, and its share of the ceiling that was
// measured in the same run (products and attention: the best square product of the same type; all
// else: a large copy). A call runs on the same memory as the one before, so what fits a cache stays
// in it. Throws Code::User if the device does not compute in the type.
[[nodiscard]] std::string bench_kernels(device::Device& device, const base::Clock& clock,
                                        const contract::LengthTable& lengths,
                                        const BenchKernelsOptions& options);

// The same figures for people: one line per operation.
[[nodiscard]] std::string bench_kernels_table(const std::string& json);

}  // namespace regatta::trainer::bench
