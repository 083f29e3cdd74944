// One stage of a pipeline at work: a step's micro-batches forward and back through this rank's part
// of the model, and what travels between it and its neighbours.
//
// What travels is float32 [tokens of the micro-batch's room, hidden], without padding where the
// model has none; both ends know the size, since all ranks of a replica collate the same samples.
// Sends go on while the stage computes, and are waited for only when their memory is needed again;
// what comes in for the next piece of work is asked for before this one is computed, wherever a
// slot is free for it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "trainer/contract/pipeline_schedule.h"
#include "trainer/model/bert.h"
#include "trainer/ranks/communicator.h"
#include "trainer/samples/batch.h"
#include "trainer/step/stage_ranks.h"
#include "trainer/step/step_timer.h"

namespace regatta::trainer::step {

// The same for all micro-batches of a step.
struct PipelineStep {
  std::int64_t number = 0;  // of the optimizer step
  model::LossScale scale;
  model::Bert::Ready ready;  // of the last backward; may be empty
};

class Pipeline {
 public:
  // Everything passed by reference outlives it. The model is of this rank's stage.
  Pipeline(const StageRanks& ranks, contract::PipelineOrder order, const base::Clock& clock,
           model::Bert& model);

  struct Seconds {
    double forward = 0, backward = 0;  // of computing, or of enqueueing it
    double waited = 0;                 // for what neighbours send, or take
  };
  // Adds the gradients of all micro-batches, in their order. Collective over the replica, whose
  // ranks have the same batches; none: nothing happens.
  Seconds train(const std::vector<samples::PackedBatch>& batches, const PipelineStep& step,
                const StepTimer& timer);
  // An evaluation forward: on the last stage, what it computes is the model's until the next call.
  // Collective over the replica, as train().
  void evaluate(const samples::PackedBatch& batch);
  // Waits until neighbours have taken everything.
  void finish_sends();
  // Whether a neighbour may still read this rank's memory, or write it.
  [[nodiscard]] bool is_busy() const;

 private:
  struct SlotUse {
    bool holds = false;               // a micro-batch between forward and backward
    ranks::Pending up = 0, down = 0;  // sends under way; 0: none
    ranks::Pending from_below = 0, from_above = 0;
  };
  using Work = std::vector<contract::PipelineWork>;

  [[nodiscard]] int slot_of(int micro_batch) const { return micro_batch % slot_count_; }
  SlotUse& enter(int slot);
  void prepare(const contract::PipelineWork& work, const std::vector<samples::PackedBatch>& batches,
               const PipelineStep& step);
  [[nodiscard]] bool can_prepare(const contract::PipelineWork& work) const;
  void go_forward(SlotUse* slot, model::Mode mode);
  void go_back(SlotUse* slot, const model::Bert::Ready& ready);
  void finish(ranks::Pending* pending);

  const StageRanks& ranks_;
  contract::PipelineOrder order_;
  const base::Clock& clock_;
  model::Bert& model_;
  std::vector<SlotUse> slots_;
  int slot_count_ = 1;      // that the step under way goes round in
  std::int64_t packs_ = 0;  // evaluated
  Seconds seconds_;         // of the step under way
};

}  // namespace regatta::trainer::step
