// How much room a micro-batch gets on a device: exactly what it needs, or rounded up, so that
// batches of nearly the same size run the same kernels on the same memory (trainer/device/device.h,
// repeat). What padding means is said in trainer/device/device.h.
#pragma once

#include <cstdint>

#include "trainer/device/device.h"
#include "trainer/samples/batch.h"

namespace regatta::trainer::model {

// Of what lies in a block of device memory.
inline constexpr std::int64_t kAlignmentBytes = 256;

// Sizes of everything a forward and backward pass touches.
struct BatchRoom {
  std::int64_t tokens = 0, samples = 0, masked = 0, max_length = 0;
  friend bool operator==(const BatchRoom&, const BatchRoom&) = default;
};

struct RoomPolicy {
  std::int64_t token_bucket = 1;  // token counts are rounded up to it; 1: no padding at all
  double mask_fraction = 0.15;    // of the tokens
  std::int64_t max_length = 0;    // of any sample of the run; 0: of the batch
};

// With a bucket above 1, `masked` is fixed by tokens and samples (⌈fraction·T⌉ + B: each sample
// rounds up at most once and masks at least one), and `samples` is a multiple of 8.
[[nodiscard]] BatchRoom room_for(const samples::PackedBatch& batch, const RoomPolicy& policy);

// The inputs of a pass, one block of int32: what goes to the device in a single copy. Offsets in
// elements, aligned to 256 bytes.
struct InputLayout {
  std::int64_t ids = 0, types = 0, ordinals = 0, positions = 0, sorted = 0;  // [tokens]
  std::int64_t cumulative = 0;                                               // [samples + 1]
  std::int64_t masked_rows = 0, masked_labels = 0;                           // [masked]
  std::int64_t first_rows = 0, sample_labels = 0;                            // [samples]
  std::int64_t answers = 0;                                                  // [2·samples]
  std::int64_t values = 0;                                                   // float32 [samples]
  std::int64_t step = 0;                                                     // [1]
  std::int64_t loss_scales = 0;  // float32 [2]: of the MLM, and of samples' losses
  std::int64_t size = 0;
};
[[nodiscard]] InputLayout input_layout(const BatchRoom& room);

struct StepInputs {
  std::int32_t step = 0;  // number of the optimizer step, for dropout
  float mlm_scale = 0, sample_scale = 0;
};
// Fills all of block[0, input_layout(room).size): the batch, and padding that changes nothing.
void write_inputs(const samples::PackedBatch& batch, const StepInputs& step, const BatchRoom& room,
                  std::int32_t* block);

}  // namespace regatta::trainer::model
