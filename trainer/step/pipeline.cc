#include "trainer/step/pipeline.h"

#include <algorithm>

#include "base/error.h"

namespace regatta::trainer::step {
namespace {

using contract::PipelineWork;
using model::kCompute;
using Way = PipelineWork::Way;

constexpr int kEvaluationSlots = 2;  // one is computed while the other is on its way

}  // namespace

Pipeline::Pipeline(const StageRanks& ranks, contract::PipelineOrder order, const base::Clock& clock,
                   model::Bert& model)
    : ranks_(ranks), order_(order), clock_(clock), model_(model) {
  base::check(model.stage().number == ranks.stage() && model.stage().stages == ranks.grid().stages,
              "the model is of this rank's stage");
}

// What the wait for it blocked the host counts as waited.
void Pipeline::finish(ranks::Pending* pending) {
  if (*pending == 0) return;
  const double mark = clock_.monotonic_seconds();
  ranks_.world().finish(kCompute, *pending);
  seconds_.waited += clock_.monotonic_seconds() - mark;
  *pending = 0;
}

Pipeline::SlotUse& Pipeline::enter(int slot) {
  if (static_cast<std::size_t>(slot) >= slots_.size()) {
    slots_.resize(static_cast<std::size_t>(slot) + 1);
  }
  model_.use(slot);
  return slots_[static_cast<std::size_t>(slot)];
}

// A forward needs a slot; a backward has its own.
bool Pipeline::can_prepare(const PipelineWork& work) const {
  const auto slot = static_cast<std::size_t>(slot_of(work.micro_batch));
  return work.way == Way::Backward || slot >= slots_.size() || !slots_[slot].holds;
}

// Everything that can go on while something else is computed.
void Pipeline::prepare(const PipelineWork& work, const std::vector<samples::PackedBatch>& batches,
                       const PipelineStep& step) {
  SlotUse& slot = enter(slot_of(work.micro_batch));
  if (work.way == Way::Backward) {
    if (model_.stage().has_head()) return;
    slot.from_above = ranks_.world().receive(kCompute, model_.output_gradient(), ranks_.above());
    return;
  }
  finish(&slot.up);
  finish(&slot.down);
  slot.holds = true;
  model_.upload(batches[static_cast<std::size_t>(work.micro_batch)],
                static_cast<std::int32_t>(step.number), step.scale);
  if (model_.stage().has_embeddings()) return;
  slot.from_below = ranks_.world().receive(kCompute, model_.stage_input(), ranks_.below());
}

void Pipeline::go_forward(SlotUse* slot, model::Mode mode) {
  finish(&slot->from_below);
  model_.forward(mode);
  if (!model_.stage().has_head()) {
    slot->up = ranks_.world().send(kCompute, model_.stage_output(), ranks_.above());
  }
}

void Pipeline::go_back(SlotUse* slot, const model::Bert::Ready& ready) {
  finish(&slot->from_above);
  model_.backward(ready);
  if (!model_.stage().has_embeddings()) {
    slot->down = ranks_.world().send(kCompute, model_.input_gradient(), ranks_.below());
  }
  slot->holds = false;
}

Pipeline::Seconds Pipeline::train(const std::vector<samples::PackedBatch>& batches,
                                  const PipelineStep& step, const StepTimer& timer) {
  finish_sends();
  seconds_ = {};
  const contract::PipelinePlace place{ranks_.stage(), ranks_.grid().stages,
                                      static_cast<int>(batches.size())};
  slot_count_ = std::max(1, contract::most_in_flight(order_, place));
  const Work work = contract::pipeline_work(order_, place);
  std::size_t prepared = 0;
  for (std::size_t k = 0; k < work.size(); ++k) {
    for (; prepared < std::min(k + 2, work.size()); ++prepared) {
      if (prepared > k && !can_prepare(work[prepared])) break;
      prepare(work[prepared], batches, step);
    }
    SlotUse& slot = enter(slot_of(work[k].micro_batch));
    const bool forward = work[k].way == Way::Forward;
    timer.enter(forward ? watch::Phase::Forward : watch::Phase::Backward);
    const double waited = seconds_.waited, mark = clock_.monotonic_seconds();
    if (forward) {
      go_forward(&slot, model::Mode::Training);
    } else {
      go_back(&slot, k + 1 == work.size() ? step.ready : nullptr);
    }
    (forward ? seconds_.forward : seconds_.backward) +=
        clock_.monotonic_seconds() - mark - (seconds_.waited - waited);
  }
  finish_sends();
  return seconds_;
}

void Pipeline::evaluate(const samples::PackedBatch& batch) {
  SlotUse& slot = enter(static_cast<int>(packs_++ % kEvaluationSlots));
  finish(&slot.up);
  model_.upload(batch, 0, {});
  if (!model_.stage().has_embeddings()) {
    slot.from_below = ranks_.world().receive(kCompute, model_.stage_input(), ranks_.below());
  }
  go_forward(&slot, model::Mode::Evaluation);
}

void Pipeline::finish_sends() {
  for (SlotUse& slot : slots_) {
    finish(&slot.up);
    finish(&slot.down);
  }
}

bool Pipeline::is_busy() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const SlotUse& slot) {
    return slot.up != 0 || slot.down != 0 || slot.from_below != 0 || slot.from_above != 0;
  });
}

}  // namespace regatta::trainer::step
