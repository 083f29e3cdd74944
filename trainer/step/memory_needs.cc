#include "trainer/step/memory_needs.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
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

}  // namespace

MemoryNeeds memory_needs(const contract::RunConfig& config, const model::BertOptions& options,
                         std::int64_t workspace) {
  const std::int64_t share = (config.batch_size + config.ranks - 1) / config.ranks;
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
  needs.moments = 2 * arena * device::size_of(device::Dtype::Float32) / moment_parts(config);
  if (measures_noise(config)) needs.statistics = needs.moments / 2;
  needs.activations = model::activation_layout(config.model, needs.room, options.compute).bytes;
  needs.inputs = 3 * 4 * model::input_layout(needs.room).size;
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
  line("gradients", needs.gradients, "");
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
