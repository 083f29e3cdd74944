// How much an optimizer step changes each layer: ‖Δw‖/‖w‖, by a sample of the weights that is
// copied to the host before and after the update. So it costs no device memory, and no operation
// that another device would have to learn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/contract/model_shape.h"
#include "trainer/device/device.h"
#include "trainer/numerics/alarms.h"

namespace regatta::trainer::numerics {

// Elements [begin, begin + size) of the arena.
struct Span {
  std::int64_t begin = 0, size = 0;
};

// Of each tensor's part in each span kRuns runs of kRunElements, spread evenly; all of it where
// that is no more. The word embedding's first rows are special tokens, which hardly ever learn.
struct SampledRun {
  Span span;
  std::size_t layer = 0;  // of the names
  double stands_for = 1;  // so many elements each
};
struct WeightSample {
  static constexpr std::int64_t kRuns = 4, kRunElements = 256;
  std::vector<std::string> layers;  // in the order of the table
  std::vector<SampledRun> runs;
  [[nodiscard]] std::int64_t elements() const;
};
[[nodiscard]] WeightSample sample_weights(const contract::TensorTable& table,
                                          const std::vector<Span>& spans);

class UpdateRatio {
 public:
  // Of the weights that this rank updates. The device outlives it.
  UpdateRatio(device::Device& device, const contract::TensorTable& table,
              const std::vector<Span>& spans);

  // Enqueue the copies, before and after the update.
  void before(device::View parameters) { copy(parameters, before_); }
  void after(device::View parameters) { copy(parameters, after_); }
  // Of this rank's sample, once the host has waited for both.
  [[nodiscard]] std::vector<LayerUpdate> layers() const;

 private:
  void copy(device::View parameters, const device::HostMemory& to);

  device::Device& device_;
  WeightSample sample_;
  device::HostMemory before_, after_;
};

}  // namespace regatta::trainer::numerics
