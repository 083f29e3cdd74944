#include "trainer/step/evaluation.h"

#include <algorithm>

namespace regatta::trainer::step {
namespace {

using model::kCompute;

}  // namespace

EvaluationSums evaluate_share(device::Device& device, model::Bert& model,
                              const std::vector<samples::Sample>& samples, int rank, int ranks) {
  EvaluationSums totals{};
  const device::HostMemory results(device, 4 * static_cast<std::int64_t>(totals.size()));
  model.reset_statistics();
  std::vector<samples::Sample> chunk;
  std::vector<std::int32_t> ordinals;
  std::int64_t tokens = 0;
  const auto flush = [&] {
    if (chunk.empty()) return;
    const samples::PackedBatch batch = samples::collate(chunk, ordinals);
    model.upload(batch, 0, {});
    model.forward(model::Mode::Evaluation);
    model.read_statistics(results.floats());
    model.reset_statistics();
    device.wait_host(device.record(kCompute));
    for (std::size_t i = 0; i < totals.size(); ++i) {
      totals[i] += static_cast<double>(results.floats()[i]);
    }
    chunk.clear();
    ordinals.clear();
    tokens = 0;
  };
  for (std::size_t i = static_cast<std::size_t>(rank); i < samples.size();
       i += static_cast<std::size_t>(ranks)) {
    chunk.push_back(samples[i]);
    ordinals.push_back(static_cast<std::int32_t>(i));
    tokens += static_cast<std::int64_t>(samples[i].ids.size());
    if (tokens >= kEvaluationTokens) flush();
  }
  flush();
  return totals;
}

contract::EvalRecord evaluation_of(const EvaluationSums& sums, std::int64_t step) {
  contract::EvalRecord record;
  record.step = step;
  record.mlm_loss = sums[0] / std::max(1.0, sums[2]);
  record.mlm_accuracy = sums[1] / std::max(1.0, sums[2]);
  record.nsp_accuracy = sums[4] / std::max(1.0, sums[5]);
  record.samples = static_cast<std::int64_t>(sums[5]);
  return record;
}

}  // namespace regatta::trainer::step
