#include "trainer/step/memory_needs.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "trainer/contract/pipeline_schedule.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::step {
namespace {

// The largest batch: `samples` of full length, as many masked positions as there can be.
samples::PackedBatch largest_batch(const contract::RunConfig& config, std::int64_t samples,
                                   std::int64_t tokens) {
  samples::PackedBatch batch;
  batch.ids.resize(static_cast<std::size_t>(tokens));
  batch.sample_labels.resize(static_cast<std::size_t>(samples));
  const double masked = config.model.task == contract::Task::Pretraining
                            ? config.data.mask_fraction * static_cast<double>(tokens)
                            : 0;
  batch.masked_labels.resize(static_cast<std::size_t>(masked) + batch.sample_labels.size());
  batch.max_length = config.data.max_length;
  return batch;
}

// Among how many ranks the optimizer's state is divided.
int moment_parts(const contract::RunConfig& config) {
  if (!config.sharding.optimizer) return 1;
  const bool by_node = config.hierarchical && config.ranks_per_node > 0;
  return by_node ? config.ranks_per_node : config.ranks;
}

// Of the stage that needs most. Where stages are cut depends on the run's lengths: here every
// sample is as long as can be, which is where memory matters.
struct StageNeeds {
  std::int64_t activations = 0, inputs = 0;  // bytes
  std::int64_t weights = 0;                  // elements whose moments a rank holds
};
// An evaluation goes through two slots, and takes `evaluated` in each.
StageNeeds largest_stage(const contract::RunConfig& config, device::Dtype compute,
                         const model::BatchRoom& micro_batch, const model::BatchRoom& evaluated,
                         std::int64_t micro_batches) {
  constexpr int kEvaluationSlots = 2;
  const int stages = config.parallel.pipeline;
  const contract::TensorTable table = contract::make_tensor_table(config.model);
  const contract::BatchSizes longest =
      contract::batch_of_lengths({config.data.max_length}, config.data.mask_fraction);
  StageNeeds most;
  for (const contract::Stage& stage : contract::cut_stages(config.model, longest, stages)) {
    const contract::PipelinePlace place{stage.number, stages, static_cast<int>(micro_batches)};
    const std::int64_t others =
        std::max(0, contract::most_in_flight(config.parallel.schedule, place) - kEvaluationSlots);
    const auto of_all_slots = [&](const auto& bytes_of) {
      return kEvaluationSlots * bytes_of(evaluated) + others * bytes_of(micro_batch);
    };
    most.activations =
        std::max(most.activations, of_all_slots([&](const model::BatchRoom& room) {
                   return model::activation_layout(config.model, room, compute, stage).bytes;
                 }));
    most.inputs = std::max(most.inputs, of_all_slots([](const model::BatchRoom& room) {
                             return 3 * 4 * model::input_layout(room).size;
                           }));
    std::int64_t weights = 0;
    for (const StatePiece& piece :
         stage_state(table, contract::stage_tensors(config.model, table, stage), true).pieces) {
      weights += piece.size;
    }
    most.weights = std::max(most.weights, weights);
  }
  return most;
}

}  // namespace

MemoryNeeds memory_needs(const contract::RunConfig& config, const model::BertOptions& options,
                         std::int64_t workspace) {
  const int shards = config.determinism.shards;
  const int replicas = shards > 0 ? shards : contract::rank_grid(config).data;
  const std::int64_t share = (config.batch_size + replicas - 1) / replicas;
  const std::int64_t samples =
      config.micro_batch_size > 0 ? std::min<std::int64_t>(share, config.micro_batch_size) : share;
  const std::int64_t length = config.data.max_length;
  // An evaluation packs up to kEvaluationTokens and one sample more.
  const std::int64_t tokens = std::max(samples * length, kEvaluationTokens + length);
  MemoryNeeds needs;
  needs.of_evaluation = tokens > samples * length;
  needs.room = model::with_headroom(model::room_for(
      largest_batch(config, std::max(samples, tokens / length), tokens), options.room));
  const std::int64_t arena = contract::make_tensor_table(config.model).arena_size;
  needs.parameters = arena * device::size_of(device::Dtype::Float32);
  if (options.compute != device::Dtype::Float32)
    needs.parameters += arena * device::size_of(options.compute);
  needs.gradients = arena * device::size_of(device::Dtype::Float32);
  if (shards > 0) {
    needs.gradients +=
        shard_sum_elements(arena, shards, config.ranks) * device::size_of(device::Dtype::Float32);
  }
  needs.moments = 2 * arena * device::size_of(device::Dtype::Float32) / moment_parts(config);
  needs.activations = model::activation_layout(config.model, needs.room, options.compute).bytes;
  needs.inputs = 3 * 4 * model::input_layout(needs.room).size;
  if (config.parallel.pipeline > 1) {
    const model::BatchRoom micro_batch = model::with_headroom(
        model::room_for(largest_batch(config, samples, samples * length), options.room));
    const StageNeeds stage = largest_stage(config, options.compute, micro_batch, needs.room,
                                           (share + samples - 1) / samples);
    needs.moments = 2 * stage.weights * device::size_of(device::Dtype::Float32);
    needs.activations = stage.activations;
    needs.inputs = stage.inputs;
  }
  if (measures_noise(config)) needs.statistics = needs.moments / 2;
  needs.workspace = workspace;
  return needs;
}

std::string describe(const MemoryNeeds& needs, const contract::RunConfig& config) {
  std::string text;
  const auto line = [&](const char* name, std::int64_t bytes, const std::string& note) {
    char row[160];
    std::snprintf(row, sizeof row, "%-12s %12s  ", name,
                  base::human_bytes(static_cast<std::uint64_t>(bytes)).c_str());
    text += row + note + "\n";
  };
  line("parameters", needs.parameters, "weights, and their copy for 16-bit types");
  line("gradients", needs.gradients,
       config.determinism.shards > 0 ? "and sums of shards; none with determinism: run" : "");
  line("moments", needs.moments, "optimizer state");
  line("statistics", needs.statistics, "for the noise scale; none with statistics.every: 0");
  line("activations", needs.activations,
       "for " + std::to_string(needs.room.tokens) + " tokens at once (" +
           (needs.of_evaluation ? "an evaluation"
                                : "a micro-batch; fewer with batch.micro, now " +
                                      std::to_string(config.micro_batch_size)) +
           ")");
  line("inputs", needs.inputs, "");
  line("workspace", needs.workspace, "");
  line("at most", needs.total(), "per rank");
  return text;
}

}  // namespace regatta::trainer::step
