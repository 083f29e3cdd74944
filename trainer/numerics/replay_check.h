// Silent corruption: on one step of each so many, the gradients of each rank's samples are computed
// a second time, by another rank, and compared bit for bit before they are summed. Where they
// differ, all ranks compute them once more, and who is alone is named.
//
// In data parallel all ranks have the same weights, and dropout depends on a sample's place in the
// step alone, so another rank of the same kind gets the same bits. Where that does not hold (one
// rank; a GPU, whose products are chosen by time; ranks on several kinds of devices), each rank
// computes its own samples twice, which finds what a device does now and then, not what it does
// always.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/contract/model_shape.h"
#include "trainer/device/device.h"
#include "trainer/model/bert.h"
#include "trainer/numerics/tensor_digests.h"
#include "trainer/numerics/verdict.h"
#include "trainer/ranks/host_collectives.h"
#include "trainer/samples/batch.h"

namespace regatta::trainer::numerics {

// Which steps are replayed: of the steps 1 … every, every + 1 … 2·every, and so on, one each, by a
// fair draw. So a fault that stays is seen in fewer than 2·every steps.
[[nodiscard]] bool is_replayed(std::uint64_t seed, std::int64_t every, std::int64_t step);
// How far behind the rank that computes a rank's samples again is, in [1, ranks − 1]; of one rank
// 0.
[[nodiscard]] int replay_distance(std::uint64_t seed, std::int64_t step, int ranks);

// Wrong numbers of one rank.
struct Finding {
  int rank = -1;              // −1: nobody can say which of the suspects
  std::vector<int> suspects;  // the rank itself, where it is known
  std::string quantity;       // gradient; weight where the rank's weights are others already
  std::string tensor;         // the first in the table's order that differs
  int tensors = 0;            // that differ
};

class ReplayCheck {
 public:
  // Collective. What is passed by reference outlives it. `every` at least 1.
  ReplayCheck(device::Device& device, ranks::HostCollectives& host, const model::Bert& model,
              std::uint64_t seed, std::int64_t every);

  // Whether ranks compute one another's samples, rather than their own twice.
  [[nodiscard]] bool crosses() const { return crosses_; }
  [[nodiscard]] bool is_due(std::int64_t step) const { return is_replayed(seed_, every_, step); }
  // The last step at which nothing differed; 0: none.
  [[nodiscard]] std::int64_t checked_step() const { return checked_step_; }

  // Enqueues that the model's gradients become those of these batches alone, of this step.
  using Compute = std::function<void(const std::vector<samples::PackedBatch>& batches)>;
  // Collective; before the step's own gradients, which are those of `mine`.
  void replay(std::int64_t step, const std::vector<samples::PackedBatch>& mine,
              const Compute& compute);
  // Collective; the step's own are enqueued and not summed. The same on all ranks; empty: they are
  // right. Otherwise the model's gradients are undefined afterwards. One finding for each rank.
  [[nodiscard]] std::vector<Finding> compare(std::int64_t step,
                                             const std::vector<samples::PackedBatch>& mine,
                                             const Compute& compute);

 private:
  // Of all ranks, in their order.
  using OfRanks = std::vector<TensorDigests>;
  [[nodiscard]] OfRanks gathered(const TensorDigests& mine);
  [[nodiscard]] TensorDigests gradients();
  [[nodiscard]] std::vector<samples::PackedBatch> batches_of(
      int rank, const std::vector<samples::PackedBatch>& mine);
  [[nodiscard]] std::vector<Finding> self_findings(const OfRanks& own, const OfRanks& again) const;
  struct Share;
  [[nodiscard]] std::vector<Finding> findings_of(const Share& share, const OfRanks& weights) const;
  [[nodiscard]] Finding finding(int rank, const char* quantity, const TensorDigests& is,
                                const TensorDigests& should_be) const;

  device::Device& device_;
  ranks::HostCollectives& host_;
  const model::Bert& model_;
  std::uint64_t seed_;
  std::int64_t every_;
  bool crosses_;
  std::int64_t checked_step_ = 0;
  TensorDigests replayed_;  // of the rank replay_distance() before this one
};

}  // namespace regatta::trainer::numerics
