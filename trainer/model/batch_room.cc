#include "trainer/model/batch_room.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace regatta::trainer::model {
namespace {

constexpr std::int64_t kAlignmentElements = kAlignmentBytes / std::int64_t{sizeof(std::int32_t)};

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// values, then `padding` up to `count` elements.
void put(const std::vector<std::int32_t>& values, std::int64_t count, std::int32_t padding,
         std::int32_t* to) {
  std::copy(values.begin(), values.end(), to);
  std::fill(to + values.size(), to + count, padding);
}

}  // namespace

BatchRoom room_for(const samples::PackedBatch& batch, const RoomPolicy& policy) {
  base::check(policy.token_bucket >= 1, "a token bucket holds at least one token");
  BatchRoom room{batch.tokens(), batch.samples(), batch.masked(),
                 std::max(policy.max_length, batch.max_length)};
  if (policy.token_bucket == 1) return room;
  room.tokens = rounded_up(std::max<std::int64_t>(1, room.tokens), policy.token_bucket);
  room.samples = rounded_up(std::max<std::int64_t>(1, room.samples), 8);
  const double masked = std::ceil(policy.mask_fraction * static_cast<double>(room.tokens));
  room.masked = std::max(room.masked, static_cast<std::int64_t>(masked) + room.samples);
  room.max_length = std::min(room.max_length, room.tokens);
  return room;
}

InputLayout input_layout(const BatchRoom& room) {
  InputLayout layout;
  const auto place = [&](std::int64_t* offset, std::int64_t count) {
    *offset = layout.size;
    layout.size = rounded_up(layout.size + count, kAlignmentElements);
  };
  for (std::int64_t* of_tokens :
       {&layout.ids, &layout.types, &layout.ordinals, &layout.positions, &layout.sorted}) {
    place(of_tokens, room.tokens);
  }
  place(&layout.cumulative, room.samples + 1);
  place(&layout.masked_rows, room.masked);
  place(&layout.masked_labels, room.masked);
  place(&layout.first_rows, room.samples);
  place(&layout.sample_labels, room.samples);
  place(&layout.answers, 2 * room.samples);
  place(&layout.values, room.samples);
  place(&layout.step, 1);
  place(&layout.loss_scales, 2);
  return layout;
}

void write_inputs(const samples::PackedBatch& batch, const StepInputs& step, const BatchRoom& room,
                  std::int32_t* block) {
  base::check(batch.tokens() <= room.tokens && batch.samples() <= room.samples &&
                  batch.masked() <= room.masked,
              "a batch fits its room");
  const InputLayout layout = input_layout(room);
  std::fill(block, block + layout.size, 0);
  put(batch.ids, room.tokens, 0, block + layout.ids);
  put(batch.types, room.tokens, 0, block + layout.types);
  put(batch.ordinals, room.tokens, 0, block + layout.ordinals);
  put(batch.positions, room.tokens, 0, block + layout.positions);
  put(batch.cumulative, room.samples + 1, static_cast<std::int32_t>(batch.tokens()),
      block + layout.cumulative);
  put(batch.masked_rows, room.masked, -1, block + layout.masked_rows);
  put(batch.masked_labels, room.masked, -1, block + layout.masked_labels);
  put(batch.first_rows, room.samples, -1, block + layout.first_rows);
  put(batch.sample_labels, room.samples, -1, block + layout.sample_labels);
  put(batch.answers, 2 * room.samples, -1, block + layout.answers);
  auto* values = reinterpret_cast<float*>(block + layout.values);
  std::fill_n(values, room.samples, std::numeric_limits<float>::quiet_NaN());
  std::copy(batch.values.begin(), batch.values.end(), values);
  // Padding has piece 0 and the highest token indexes, so by (id, token) it follows the batch's own
  // tokens of piece 0.
  std::int32_t* sorted = block + layout.sorted;
  const auto zeros = std::partition_point(
      batch.sorted.begin(), batch.sorted.end(),
      [&](std::int32_t token) { return batch.ids[static_cast<std::size_t>(token)] == 0; });
  sorted = std::copy(batch.sorted.begin(), zeros, sorted);
  for (std::int64_t token = batch.tokens(); token < room.tokens; ++token) {
    *sorted++ = static_cast<std::int32_t>(token);
  }
  std::copy(zeros, batch.sorted.end(), sorted);
  block[layout.step] = step.step;
  block[layout.loss_scales] = std::bit_cast<std::int32_t>(step.mlm_scale);
  block[layout.loss_scales + 1] = std::bit_cast<std::int32_t>(step.sample_scale);
}

}  // namespace regatta::trainer::model
