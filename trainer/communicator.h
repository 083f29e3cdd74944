// Collectives among the ranks of a run. Sum only: 1/N is folded into the loss.
#pragma once

#include <cstdint>

#include "trainer/device.h"

namespace regatta::trainer {

// Contract: every rank makes the same calls in the same order with the same sizes. Collectives on
// views are enqueued on a device stream like any operation of Device; the host collectives block.
// A lost peer throws Code::Retry.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;

  // In place; float32.
  virtual void all_reduce_sum(Stream stream, View x) = 0;
  virtual void broadcast(Stream stream, View x, int root) = 0;
  // Host values, for statistics and for flags that change control flow (design decision 11).
  virtual void all_reduce_sum_host(double* values, int count) = 0;
  virtual void barrier() = 0;
};

// One rank: every collective is the identity.
class SingleCommunicator final : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int ranks() const override { return 1; }
  void all_reduce_sum(Stream, View) override {}
  void broadcast(Stream, View, int) override {}
  void all_reduce_sum_host(double*, int) override {}
  void barrier() override {}
};

}  // namespace regatta::trainer
