// Collectives of host values among the ranks of a run: statistics, flags that change control flow,
// lengths, samples on their way to another rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace regatta::trainer::ranks {

// Bytes for each rank, or from each.
using Parcels = std::vector<std::vector<std::byte>>;

// Contract: every rank makes the same calls in the same order; one thread at a time. Calls block
// until this rank's part is done. A lost peer throws Code::Retry, from any call.
class HostCollectives {
 public:
  virtual ~HostCollectives() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;

  // In rank order, so that every rank has the same bits.
  virtual void all_reduce_sum(double* values, int count) = 0;
  virtual void broadcast(void* bytes, std::int64_t count, int root) = 0;
  // `all` takes `count` bytes of each rank, in rank order. `count` is the same everywhere.
  virtual void all_gather(const void* bytes, std::int64_t count, void* all) = 0;
  // to[r] goes to rank r; the result's [r] came from rank r. Sizes are free.
  [[nodiscard]] virtual Parcels all_to_all(const Parcels& to) = 0;
  virtual void barrier() = 0;
};

// One rank.
class SingleHost final : public HostCollectives {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int ranks() const override { return 1; }
  void all_reduce_sum(double*, int) override {}
  void broadcast(void*, std::int64_t, int) override {}
  void all_gather(const void* bytes, std::int64_t count, void* all) override {
    std::memmove(all, bytes, static_cast<std::size_t>(count));
  }
  [[nodiscard]] Parcels all_to_all(const Parcels& to) override { return to; }
  void barrier() override {}
};

}  // namespace regatta::trainer::ranks
