// Sums over the arena that have the same bits whoever holds which part of it: of each granule
// alone, and of those in order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/contract/model_shape.h"
#include "trainer/device/device.h"
#include "trainer/ranks/communicator.h"

namespace regatta::trainer::step {

class GranuleSums {
 public:
  // What this rank holds of the arena: all of it, or whole granules of kGranule elements.
  struct Held {
    std::int64_t begin = 0, size = 0;
  };
  // lamb: sums of tensors are wanted, too. Everything passed outlives this.
  GranuleSums(device::Device& device, ranks::Communicator& communicator,
              const contract::TensorTable& table, const Held& held, bool lamb);

  // Some elements within what is held, and where their `width` sums go, float32.
  using Body = std::function<void(std::int64_t begin, std::int64_t size, device::View sums)>;
  // Enqueues result[width] = Σ over granules of what `body` makes of each; width ≤ 4.
  void sum(int width, const Body& body, device::View result);

  // Of a tensor the elements of one granule.
  struct Cell {
    std::int64_t tensor = 0, begin = 0, size = 0;  // of the arena
    std::int64_t number = 0;                       // of all cells
  };
  // Those that this rank holds, by number.
  [[nodiscard]] const std::vector<Cell>& cells() const { return cells_; }
  // float32 [2] of each cell by its number; zeros to begin with.
  [[nodiscard]] device::View begin_cells();
  // Enqueues result[2·t, 2] = Σ over the cells of tensor t of all ranks, in order.
  void sum_cells(device::View result);

 private:
  [[nodiscard]] bool is_whole() const { return held_.size == arena_size_; }
  void share(device::View sums);  // adds what other ranks have; what is held is held once

  device::Device& device_;
  ranks::Communicator& communicator_;
  std::int64_t arena_size_;
  Held held_;
  std::vector<Cell> cells_;
  std::vector<std::int64_t> first_cell_;  // of each tensor, and the end
  device::DeviceMemory sums_, cell_sums_;
};

}  // namespace regatta::trainer::step
