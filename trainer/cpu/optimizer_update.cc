#include "trainer/cpu/optimizer_update.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace regatta::trainer::cpu {
namespace {

// What gradients are multiplied by: to undo the loss scale, and to keep the norm's limit.
struct StepFactors {
  float scale = 1, limit = 1;
};
StepFactors factors_of(const float* scalars, float squared_norm) {
  const float scale = scalars[device::kInverseLossScale], most = scalars[device::kClipNorm];
  const float norm = std::sqrt(squared_norm) * scale;
  return {scale, most > 0 && norm > most ? most / norm : 1.0F};
}

AdamRange range_of(const device::OptimizerUpdate& op, const device::OptimizerTensor& tensor) {
  return {op.parameters.floats() + tensor.offset, op.gradients.floats() + tensor.offset,
          op.first_moment.floats() + tensor.offset, op.second_moment.floats() + tensor.offset,
          tensor.size};
}
AdamRange part_of(const AdamRange& range, std::int64_t begin, std::int64_t end) {
  return {range.parameters + begin, range.gradients + begin, range.first + begin,
          range.second + begin, end - begin};
}

// What `one` makes of each chunk [begin, end) of `count` elements, in order.
template <typename Result, typename One>
std::vector<Result> of_chunks(base::ThreadPool& pool, std::int64_t count, One one) {
  std::vector<Result> results(static_cast<std::size_t>((count + kElements - 1) / kElements));
  pool.parallel_for(count, kElements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kElements) {
      results[static_cast<std::size_t>(i / kElements)] = one(i, std::min(end, i + kElements));
    }
  });
  return results;
}

// Stores the moments of a tensor; ‖w‖² and ‖u‖².
SquaredNorms lamb_moments(const OptimizerContext& context, const AdamConstants& constants,
                          const AdamRange& tensor) {
  SquaredNorms total;
  for (const SquaredNorms& chunk : of_chunks<SquaredNorms>(
           context.pool, tensor.size, [&](std::int64_t begin, std::int64_t end) {
             return context.kernels.lamb_moments(constants, part_of(tensor, begin, end));
           })) {
    total.parameters += chunk.parameters;
    total.update += chunk.update;
  }
  return total;
}

void lamb_step(const OptimizerContext& context, const AdamConstants& constants,
               const AdamRange& tensor, bool trust_ratio, const SquaredNorms& norms, float rate) {
  const bool scaled = trust_ratio && norms.parameters > 0 && norms.update > 0;
  const double ratio = scaled ? std::sqrt(norms.parameters / norms.update) : 1.0;
  const auto step = static_cast<float>(static_cast<double>(rate) * ratio);
  context.pool.parallel_for(tensor.size, kElements, [&](std::int64_t begin, std::int64_t end) {
    context.kernels.lamb_step(constants, part_of(tensor, begin, end), step);
  });
}

void update_tensor(const OptimizerContext& context, const AdamConstants& constants,
                   const device::OptimizerUpdate& op, const device::OptimizerTensor& tensor,
                   float rate) {
  const AdamRange range = range_of(op, tensor);
  // No step of 0, which may change a zero's sign, or a weight to NaN.
  const bool moves = tensor.learning_rate != 0;
  if (!op.lamb && !moves) {
    static_cast<void>(lamb_moments(context, constants, range));  // AdamW's are the same
    return;
  }
  if (!op.lamb) {
    context.pool.parallel_for(tensor.size, kElements, [&](std::int64_t begin, std::int64_t end) {
      context.kernels.adamw(constants, part_of(range, begin, end), rate);
    });
    return;
  }
  const auto sums = [&] { return op.tensor_norms.floats() + 2 * tensor.number; };
  switch (op.part) {
    case device::UpdatePart::Whole: {
      const SquaredNorms norms = lamb_moments(context, constants, range);
      if (moves) lamb_step(context, constants, range, tensor.trust_ratio, norms, rate);
      return;
    }
    case device::UpdatePart::Moments: {
      const SquaredNorms norms = lamb_moments(context, constants, range);
      sums()[0] += static_cast<float>(norms.parameters);
      sums()[1] += static_cast<float>(norms.update);
      return;
    }
    case device::UpdatePart::Weights:
      if (!moves) return;
      lamb_step(context, constants, range, tensor.trust_ratio,
                {static_cast<double>(sums()[0]), static_cast<double>(sums()[1])}, rate);
      return;
  }
}

}  // namespace

void sum_of_squares(const OptimizerContext& context, const device::View& x,
                    const device::View& result) {
  double total = 0;
  for (const double chunk :
       of_chunks<double>(context.pool, x.size, [&](std::int64_t begin, std::int64_t end) {
         return context.kernels.sum_of_squares(x.floats() + begin, end - begin);
       })) {
    total += chunk;
  }
  result.floats()[0] = static_cast<float>(total);
}

void limit_norm(const OptimizerContext& context, const device::View& x,
                const device::View& squared_norm, const device::View& limit) {
  const float norm = std::sqrt(squared_norm.floats()[0]);
  const float most = limit.floats()[0];
  if (!std::isfinite(norm) || !(norm > 0 && norm > most)) return;
  context.pool.parallel_for(x.size, kElements, [&](std::int64_t begin, std::int64_t end) {
    context.kernels.scale(x.floats() + begin, end - begin, most / norm);
  });
}

void add_noise_sums(const OptimizerContext& context, const device::NoiseSums& op) {
  const StepFactors factors = factors_of(op.scalars.floats(), op.squared_norm.floats()[0]);
  const float correction = op.scalars.floats()[device::kBiasCorrection2];
  NoiseConstants constants;
  constants.scale = factors.scale;
  constants.part_to_rest = op.part_to_rest;
  constants.decay = op.beta2 / correction;
  constants.weight = (1.0F - op.beta2) / correction * factors.limit * factors.limit;
  constants.epsilon = op.epsilon;
  FourSums totals{};
  for (const FourSums& chunk :
       of_chunks<FourSums>(context.pool, op.mean.size, [&](std::int64_t begin, std::int64_t end) {
         return context.kernels.noise_sums(constants, op, begin, end);
       })) {
    for (std::size_t k = 0; k < totals.size(); ++k) totals[k] += chunk[k];
  }
  for (std::size_t k = 0; k < totals.size(); ++k) {
    op.sums.floats()[k] += static_cast<float>(totals[k]);
  }
}

bool update(const OptimizerContext& context, const device::OptimizerUpdate& op) {
  const float squared_norm = op.squared_norm.floats()[0];
  if (!std::isfinite(squared_norm)) return false;
  const float* scalars = op.scalars.floats();
  const StepFactors factors = factors_of(scalars, squared_norm);
  AdamConstants constants;
  constants.factor = factors.limit * factors.scale;
  constants.beta1 = op.beta1;
  constants.beta2 = op.beta2;
  constants.epsilon = op.epsilon;
  constants.correction1 = scalars[device::kBiasCorrection1];
  constants.correction2 = scalars[device::kBiasCorrection2];
  for (std::int64_t i = 0; i < op.tensor_count; ++i) {
    const device::OptimizerTensor& tensor = op.tensors[i];
    constants.weight_decay = tensor.weight_decay ? op.weight_decay : 0.0F;
    update_tensor(context, constants, op, tensor,
                  scalars[device::kLearningRate] * tensor.learning_rate);
  }
  return op.part != device::UpdatePart::Moments;
}

}  // namespace regatta::trainer::cpu
