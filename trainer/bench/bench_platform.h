// What a machine is able to do, in a fixed amount of work of each kind, so that machines, and one
// machine over time, can be compared (docs/formats/platform_bench.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/bench/bench_comm.h"
#include "trainer/contract/length_table.h"
#include "trainer/contract/platform_bench.h"
#include "trainer/contract/run_config.h"
#include "trainer/device/device.h"
#include "trainer/plugins/machine_files.h"

namespace regatta::trainer::bench {

// The defaults are contract::kPlatformWorkload; tests have less. To change one is another number.
struct PlatformWorkload {
  contract::ModelShape product_shape = contract::preset_shape("base");
  std::int64_t product_tokens = 512, product_masked = 77;
  std::int64_t gpu_product_tokens = 8192, gpu_product_masked = 1229;
  std::int64_t memory_bytes = std::int64_t{256} << 20;   // of an array
  std::int64_t transfer_bytes = std::int64_t{64} << 20;  // of a copy
  std::int64_t file_bytes = std::int64_t{64} << 20;
  std::int64_t sync_bytes = 4096;
  std::int64_t text_bytes = std::int64_t{1} << 20;
  int collated_samples = 64;
  contract::ModelShape step_shape = contract::preset_shape("mini");
  std::string step_model = "mini";
  int step_samples = 16;
  std::int32_t vocabulary = 30522;  // of both shapes
};

// What it measures with.
struct PlatformTools {
  const base::Clock& clock;
  base::FileSystem& files;
  plugins::MachineFiles machine;
  // Throws base::Error where the machine has no such device.
  std::function<std::unique_ptr<device::Device>(contract::DeviceKind, contract::Precision,
                                                int threads)>
      device;
  // All-reduce of two ranks of this machine; throws base::Error where there is none.
  std::function<std::vector<CommRow>()> all_reduce;
  // Whether to leave off; asked between figures.
  std::function<bool()> stop;
};

struct PlatformOptions {
  double seconds = 120;  // about; a part takes its share of it, or its least
  int threads = 1;
  base::Path directory;  // exists; what is written there is removed again
  contract::LengthTable lengths;
  std::string commit;  // empty: not known
  PlatformWorkload workload;
};

// A part that cannot be measured is told in `absent`, with the reason. Throws Code::User when a
// signal asked to stop.
[[nodiscard]] contract::PlatformBench bench_platform(const PlatformTools& tools,
                                                     const PlatformOptions& options);

// For people: a line for each figure.
[[nodiscard]] std::string platform_table(const contract::PlatformBench& bench);

}  // namespace regatta::trainer::bench
