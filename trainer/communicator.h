// Collectives among the ranks of a run. Sum only: 1/N is folded into the loss.
#pragma once

#include <cstdint>

#include "trainer/device.h"

namespace regatta::trainer {

// A collective under way; 0 is one that is done.
using Pending = std::int64_t;

// Contract: every rank makes the same calls in the same order with the same sizes. Collectives on
// views begin when what `stream` has enqueued so far is done, and return at once; the view must not
// be touched before finish(). Host collectives block. A lost peer throws Code::Retry, from any
// call.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;

  // In place; float32. Parts: x is cut into ranks() parts of part_size(x.size) elements, the last
  // ones shorter or empty; part r is rank r's.
  [[nodiscard]] virtual Pending all_reduce_sum(Stream stream, View x) = 0;
  // Part rank() becomes the sum over ranks; the other parts are undefined afterwards.
  [[nodiscard]] virtual Pending reduce_scatter_sum(Stream stream, View x) = 0;
  // Every part becomes what its rank had there.
  [[nodiscard]] virtual Pending all_gather(Stream stream, View x) = 0;
  [[nodiscard]] virtual Pending broadcast(Stream stream, View x, int root) = 0;
  // What `stream` enqueues from now on comes after the collective.
  virtual void finish(Stream stream, Pending pending) = 0;
  // On the way out of a failure: gives up what is under way, and touches no view any more. The
  // other ranks are not waited for; nothing but destruction may follow.
  virtual void abandon() noexcept = 0;

  // Host values, for statistics and for flags that change control flow (design decision 11).
  virtual void all_reduce_sum_host(double* values, int count) = 0;
  virtual void broadcast_host(void* bytes, std::int64_t count, int root) = 0;
  virtual void barrier() = 0;

  [[nodiscard]] std::int64_t part_size(std::int64_t size) const {
    return (size + ranks() - 1) / ranks();
  }
};

// One rank: every collective is the identity.
class SingleCommunicator final : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int ranks() const override { return 1; }
  [[nodiscard]] Pending all_reduce_sum(Stream, View) override { return 0; }
  [[nodiscard]] Pending reduce_scatter_sum(Stream, View) override { return 0; }
  [[nodiscard]] Pending all_gather(Stream, View) override { return 0; }
  [[nodiscard]] Pending broadcast(Stream, View, int) override { return 0; }
  void finish(Stream, Pending) override {}
  void abandon() noexcept override {}
  void all_reduce_sum_host(double*, int) override {}
  void broadcast_host(void*, std::int64_t, int) override {}
  void barrier() override {}
};

}  // namespace regatta::trainer
