#include "trainer/step/snapshot.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/shards.h"
#include "checkpoint/store.h"

namespace regatta::trainer::step {
namespace {

using checkpoint::NamedTensor;

constexpr std::int64_t kFloat = 4;  // bytes

std::span<const std::byte> bytes_of(const float* values, std::int64_t count) {
  return std::as_bytes(std::span(values, static_cast<std::size_t>(count)));
}

std::int64_t state_elements(const std::vector<StatePiece>& pieces) {
  return pieces.empty() ? 0 : pieces.back().state_begin + pieces.back().size;
}

// What of each tensor lies in the pieces; `values` is laid out as they say.
void add_pieces(const contract::TensorTable& table, const std::string& prefix,
                const std::vector<StatePiece>& pieces, const float* values,
                std::vector<NamedTensor>* tensors) {
  for (const StatePiece& piece : pieces) {
    for (const contract::TensorEntry& entry : table.tensors) {
      const std::int64_t begin = std::max(piece.arena_begin, entry.offset);
      const std::int64_t end = std::min(piece.arena_begin + piece.size, entry.offset + entry.size);
      if (begin >= end) continue;
      const float* from = values + piece.state_begin + (begin - piece.arena_begin);
      const bool whole = end - begin == entry.size;
      const std::string name = prefix + entry.name;
      tensors->push_back(
          {whole ? name : checkpoint::range_name({name, begin - entry.offset, end - entry.offset}),
           "F32", whole ? entry.shape : std::vector<std::int64_t>{end - begin},
           bytes_of(from, end - begin)});
    }
  }
}

// Zeroed, which also makes the pages: gigabytes, so by several threads.
device::HostMemory touched(device::Device& device, std::int64_t elements) {
  if (elements == 0) return {};
  device::HostMemory memory(device, kFloat * elements);
  constexpr std::int64_t kLarge = 16 << 20;  // elements for which a thread is worth its start
  const std::int64_t parts = std::clamp<std::int64_t>(elements / kLarge, 1, base::usable_cores());
  std::vector<std::jthread> threads;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t begin = elements * part / parts;
    const std::int64_t end = elements * (part + 1) / parts;
    threads.emplace_back([from = memory.floats() + begin, count = end - begin] {
      std::memset(from, 0, static_cast<std::size_t>(kFloat * count));
    });
  }
  return memory;
}

}  // namespace

bool is_whole(const StateShard& shard, const contract::TensorTable& table) {
  return shard.parameters != nullptr && shard.pieces.size() == 1 &&
         shard.pieces[0].arena_begin == 0 && shard.pieces[0].size == table.arena_size;
}

bool is_finite(const StateShard& whole, const contract::TensorTable& table) {
  base::check(is_whole(whole, table), "the state is a whole one");
  for (const float* values : {whole.parameters, whole.first_moment, whole.second_moment}) {
    if (values == nullptr) continue;
    const bool good = std::all_of(values, values + table.arena_size,
                                  [](float value) { return std::isfinite(value); });
    if (!good) return false;
  }
  return true;
}

StateShard TrainingState::whole(const contract::TensorTable& table) const {
  const auto of = [&](const std::vector<float>& values) {
    base::check(values.empty() || static_cast<std::int64_t>(values.size()) == table.arena_size,
                "the state has the arena's size");
    return values.empty() ? nullptr : values.data();
  };
  StateShard shard;
  shard.parameters = of(parameters);
  shard.first_moment = of(first_moment);
  shard.second_moment = of(second_moment);
  shard.pieces = whole_state(table);
  shard.loss_scale = loss_scale;
  shard.good_steps = good_steps;
  shard.noise = noise;
  return shard;
}

std::vector<NamedTensor> model_tensors(const contract::TensorTable& table,
                                       const StateShard& shard) {
  std::vector<NamedTensor> tensors;
  if (shard.parameters != nullptr) {
    add_pieces(table, "", whole_state(table), shard.parameters, &tensors);
  }
  return tensors;
}

std::vector<NamedTensor> optimizer_tensors(const contract::TensorTable& table,
                                           const StateShard& shard, const float* loss_scale) {
  std::vector<NamedTensor> tensors;
  add_pieces(table, checkpoint::kFirstMoment, shard.pieces, shard.first_moment, &tensors);
  add_pieces(table, checkpoint::kSecondMoment, shard.pieces, shard.second_moment, &tensors);
  if (shard.loss_scale > 0 && shard.part == 0) {
    tensors.push_back({kLossScale, "F32", {2}, bytes_of(loss_scale, 2)});
  }
  if (shard.noise != NoiseStates{} && shard.part == 0) {
    tensors.push_back({kNoiseScale,
                       "F64",
                       {2, static_cast<std::int64_t>(contract::NoiseScale::kStateSize)},
                       std::as_bytes(std::span(&shard.noise, 1))});
  }
  return tensors;
}

Snapshot::Snapshot(device::Device& device, const contract::TensorTable& table,
                   std::vector<StatePiece> pieces, int part, int parts, bool with_parameters)
    : parameters_(touched(device, with_parameters ? table.arena_size : 0)),
      first_moment_(touched(device, state_elements(pieces))),
      second_moment_(touched(device, state_elements(pieces))) {
  shard_.parameters = parameters();
  shard_.first_moment = first_moment();
  shard_.second_moment = second_moment();
  shard_.pieces = std::move(pieces);
  shard_.part = part;
  shard_.parts = parts;
}

std::int64_t Snapshot::bytes(const contract::TensorTable& table,
                             const std::vector<StatePiece>& pieces, bool with_parameters) {
  return kFloat * ((with_parameters ? table.arena_size : 0) + 2 * state_elements(pieces));
}

void Snapshot::set_loss_scale(double factor, std::int64_t good_steps) {
  shard_.loss_scale = factor;
  shard_.good_steps = good_steps;
}

}  // namespace regatta::trainer::step
