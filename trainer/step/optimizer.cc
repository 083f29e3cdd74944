#include "trainer/step/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/portable_math.h"

namespace regatta::trainer::step {
namespace {

using model::kCompute;

bool is_whole(const std::vector<StatePiece>& pieces, const contract::TensorTable& table) {
  return pieces.size() == 1 && pieces[0].arena_begin == 0 && pieces[0].size == table.arena_size;
}

std::int64_t state_size(const std::vector<StatePiece>& pieces) {
  return pieces.empty() ? 0 : pieces.back().state_begin + pieces.back().size;
}

// What lies in the piece of each tensor, relative to it.
std::vector<device::OptimizerTensor> tensors_in(const StatePiece& piece,
                                                const contract::TensorTable& table,
                                                const std::vector<float>& factors) {
  std::vector<device::OptimizerTensor> tensors;
  const std::int64_t piece_end = piece.arena_begin + piece.size;
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const contract::TensorEntry& tensor = table.tensors[i];
    const std::int64_t begin = std::max(tensor.offset, piece.arena_begin);
    const std::int64_t end = std::min(tensor.offset + tensor.size, piece_end);
    if (begin >= end) continue;
    tensors.push_back({begin - piece.arena_begin, end - begin, tensor.weight_decay,
                       tensor.trust_ratio, factors.empty() ? 1.0F : factors[i],
                       static_cast<std::int64_t>(i)});
  }
  return tensors;
}

}  // namespace

std::vector<StatePiece> whole_state(const contract::TensorTable& table) {
  return {{0, table.arena_size, 0}};
}

std::vector<StatePiece> sharded_state(const contract::TensorTable& table,
                                      const std::vector<topology::plan::Bucket>& buckets,
                                      const ranks::Communicator& communicator) {
  std::vector<StatePiece> pieces;
  std::int64_t state_end = 0;
  for (const topology::plan::Bucket& bucket : buckets) {
    base::check(bucket.begin_tensor >= 0 && bucket.begin_tensor < bucket.end_tensor &&
                    static_cast<std::size_t>(bucket.end_tensor) <= table.tensors.size(),
                "a bucket holds tensors of the table");
    const contract::TensorEntry& first =
        table.tensors[static_cast<std::size_t>(bucket.begin_tensor)];
    const contract::TensorEntry& last =
        table.tensors[static_cast<std::size_t>(bucket.end_tensor) - 1];
    const std::int64_t size = last.offset + last.size - first.offset;
    const std::int64_t count = communicator.part_count(size);
    if (count == 0) continue;
    const std::int64_t begin =
        (state_end + ranks::kPartAlignment - 1) / ranks::kPartAlignment * ranks::kPartAlignment;
    pieces.push_back({first.offset + communicator.part_begin(size), count, begin});
    state_end = begin + count;
  }
  return pieces;
}

StageState stage_state(const contract::TensorTable& table, const contract::StageTensors& stage,
                       bool adds) {
  const auto begin_of = [&table](int tensor) {
    return static_cast<std::size_t>(tensor) == table.tensors.size()
               ? table.arena_size
               : table.tensors[static_cast<std::size_t>(tensor)].offset;
  };
  StageState state;
  state.adds = adds;
  const std::int64_t size = begin_of(stage.end) - begin_of(stage.begin);
  state.pieces.push_back({begin_of(stage.begin), size, 0});
  if (stage.tied >= 0) {
    state.pieces.push_back({begin_of(stage.tied), table.arena_size - begin_of(stage.tied), size});
  }
  return state;
}

// Ranks of the same place in their nodes hold the same part: the first node's add theirs.
Optimizer::Share Optimizer::share_of(const std::vector<StatePiece>& pieces,
                                     const contract::TensorTable& table,
                                     const ranks::Communicator& communicator) {
  return {is_whole(pieces, table) ? Holds::Whole : Holds::Parts, pieces.size(),
          communicator.rank() < communicator.parts()};
}

Optimizer::Optimizer(device::Device& device, ranks::Communicator& communicator,
                     const contract::TensorTable& table, std::vector<StatePiece> pieces,
                     const contract::OptimizerConfig& config, double clip_norm,
                     const std::vector<float>& factors)
    : Optimizer(device, communicator, table, pieces, config, clip_norm, factors,
                share_of(pieces, table, communicator)) {}

Optimizer::Optimizer(device::Device& device, ranks::Communicator& communicator,
                     const contract::TensorTable& table, const StageState& stage,
                     const contract::OptimizerConfig& config, double clip_norm,
                     const std::vector<float>& factors)
    : Optimizer(device, communicator, table, stage.pieces, config, clip_norm, factors,
                {Holds::Stage, stage.counted, stage.adds}) {}

Optimizer::Optimizer(device::Device& device, ranks::Communicator& communicator,
                     const contract::TensorTable& table, std::vector<StatePiece> pieces,
                     const contract::OptimizerConfig& config, double clip_norm,
                     const std::vector<float>& factors, const Share& share)
    : device_(device),
      communicator_(communicator),
      config_(config),
      clip_norm_(clip_norm),
      pieces_(std::move(pieces)),
      holds_(share.holds),
      counted_(share.counted),
      adds_(share.adds),
      first_moment_(device, state_size(pieces_), device::Dtype::Float32),
      second_moment_(device, state_size(pieces_), device::Dtype::Float32),
      scalars_(device, device::kStepScalars, device::Dtype::Float32),
      squared_norm_(device, 1, device::Dtype::Float32),
      host_scalars_(device, 4 * device::kStepScalars) {
  device_.fill_zero(kCompute, first_moment_.view());
  device_.fill_zero(kCompute, second_moment_.view());
  for (const StatePiece& piece : pieces_) tensors_.push_back(tensors_in(piece, table, factors));
  if (holds_ == Holds::Whole) return;
  piece_norms_ =
      device::DeviceMemory(device, static_cast<std::int64_t>(counted_), device::Dtype::Float32);
  // A stage has its tensors whole, and their norms with them.
  if (holds_ == Holds::Parts && config_.kind == contract::OptimizerKind::Lamb) {
    tensor_norms_ = device::DeviceMemory(
        device, 2 * static_cast<std::int64_t>(table.tensors.size()), device::Dtype::Float32);
  }
}

Optimizer::Optimizer(device::Device& device, ranks::Communicator& communicator,
                     const contract::TensorTable& table, const GranuleState& granules,
                     const contract::OptimizerConfig& config, double clip_norm,
                     const std::vector<float>& factors)
    : Optimizer(device, communicator, table, {{granules.arena_begin, granules.size, 0}}, config,
                clip_norm, factors, {Holds::Parts, 1, true}) {
  const bool lamb = config.kind == contract::OptimizerKind::Lamb;
  granules_.emplace(device, communicator, table,
                    GranuleSums::Held{granules.arena_begin, granules.size}, lamb);
  for (const GranuleSums::Cell& cell : granules_->cells()) {
    const contract::TensorEntry& tensor = table.tensors[static_cast<std::size_t>(cell.tensor)];
    cells_.push_back(
        {cell.begin - granules.arena_begin, cell.size, tensor.weight_decay, tensor.trust_ratio,
         factors.empty() ? 1.0F : factors[static_cast<std::size_t>(cell.tensor)], cell.number});
  }
}

void Optimizer::sum_over_parts(device::View x) {
  if (!adds_) device_.fill_zero(kCompute, x);
  communicator_.finish(kCompute, communicator_.all_reduce_sum(kCompute, x));
}

void Optimizer::sum_squares(const model::Bert& model) {
  if (holds_ == Holds::Whole) {
    device_.sum_of_squares(kCompute, model.gradients(), squared_norm_.view());
    return;
  }
  if (granules_) {
    return granules_->sum(
        1,
        [&](std::int64_t begin, std::int64_t size, device::View sum) {
          device_.sum_of_squares(kCompute, model.gradients().slice(begin, size), sum);
        },
        squared_norm_.view());
  }
  for (std::size_t i = 0; i < counted_; ++i) {
    device_.sum_of_squares(kCompute,
                           model.gradients().slice(pieces_[i].arena_begin, pieces_[i].size),
                           piece_norms_.view().slice(static_cast<std::int64_t>(i), 1));
  }
  device_.fill_zero(kCompute, squared_norm_.view());
  device_.add_column_sums(kCompute, piece_norms_.view(), 1, squared_norm_.view());
  sum_over_parts(squared_norm_.view());
}

device::OptimizerUpdate Optimizer::update_of(const model::Bert& model, std::size_t piece) const {
  const StatePiece& mine = pieces_[piece];
  device::OptimizerUpdate op;
  op.parameters = model.parameters().slice(mine.arena_begin, mine.size);
  op.gradients = model.gradients().slice(mine.arena_begin, mine.size);
  if (holds_ != Holds::Parts && model.compute_copy().size > 0) {
    op.compute_copy = model.compute_copy().slice(mine.arena_begin, mine.size);
  }
  op.first_moment = first_moment_.view().slice(mine.state_begin, mine.size);
  op.second_moment = second_moment_.view().slice(mine.state_begin, mine.size);
  op.tensors = tensors_[piece].data();
  op.tensor_count = static_cast<std::int64_t>(tensors_[piece].size());
  op.beta1 = static_cast<float>(config_.beta1);
  op.beta2 = static_cast<float>(config_.beta2);
  op.epsilon = static_cast<float>(config_.epsilon);
  op.weight_decay = static_cast<float>(config_.weight_decay);
  op.lamb = config_.kind == contract::OptimizerKind::Lamb;
  op.scalars = scalars_.view();
  op.squared_norm = squared_norm_.view();
  op.tensor_norms = tensor_norms_.view();
  return op;
}

void Optimizer::update_pieces(const model::Bert& model, device::UpdatePart part) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    device::OptimizerUpdate op = update_of(model, i);
    op.part = part;
    device_.update(kCompute, op);
  }
}

void Optimizer::begin(const model::Bert& model, const Step& step) {
  const auto number = static_cast<double>(step.number);
  float* scalars = host_scalars_.floats();
  std::fill(scalars, scalars + device::kStepScalars, 0.0F);
  scalars[device::kLearningRate] = static_cast<float>(step.learning_rate);
  scalars[device::kBiasCorrection1] =
      static_cast<float>(1.0 - base::portable_power(config_.beta1, number));
  scalars[device::kBiasCorrection2] =
      static_cast<float>(1.0 - base::portable_power(config_.beta2, number));
  scalars[device::kClipNorm] = static_cast<float>(clip_norm_);
  scalars[device::kInverseLossScale] = static_cast<float>(1.0 / step.loss_scale);
  device_.copy_to_device(kCompute, scalars_.view(), scalars);
  sum_squares(model);
}

void Optimizer::update(const model::Bert& model) {
  if (holds_ != Holds::Parts || config_.kind != contract::OptimizerKind::Lamb) {
    update_pieces(model, device::UpdatePart::Whole);
    return;
  }
  if (granules_) return update_lamb_by_granules(model);
  device_.fill_zero(kCompute, tensor_norms_.view());
  update_pieces(model, device::UpdatePart::Moments);
  sum_over_parts(tensor_norms_.view());
  update_pieces(model, device::UpdatePart::Weights);
}

void Optimizer::update_lamb_by_granules(const model::Bert& model) {
  device::OptimizerUpdate op = update_of(model, 0);
  op.part = device::UpdatePart::Moments;
  op.tensors = cells_.data();
  op.tensor_count = static_cast<std::int64_t>(cells_.size());
  op.tensor_norms = granules_->begin_cells();
  device_.update(kCompute, op);
  granules_->sum_cells(tensor_norms_.view());
  update_pieces(model, device::UpdatePart::Weights);
}

void Optimizer::sum_noise(const model::Bert& model, device::View difference, double part_to_rest,
                          device::View sums) {
  device::NoiseSums op;
  op.part_to_rest = static_cast<float>(part_to_rest);
  op.beta2 = static_cast<float>(config_.beta2);
  op.epsilon = static_cast<float>(config_.epsilon);
  op.scalars = scalars_.view();
  op.squared_norm = squared_norm_.view();
  op.sums = sums;
  if (granules_) {
    const std::int64_t first = pieces_[0].arena_begin;
    return granules_->sum(
        4,
        [&](std::int64_t begin, std::int64_t size, device::View sum) {
          op.difference = difference.slice(begin - first, size);
          op.mean = model.gradients().slice(begin, size);
          op.second_moment = second_moment_.view().slice(begin - first, size);
          op.sums = sum;
          device_.add_noise_sums(kCompute, op);
        },
        sums);
  }
  device_.fill_zero(kCompute, sums);
  for (std::size_t i = 0; i < counted_; ++i) {
    const StatePiece& piece = pieces_[i];
    op.difference = difference.slice(piece.state_begin, piece.size);
    op.mean = model.gradients().slice(piece.arena_begin, piece.size);
    op.second_moment = second_moment_.view().slice(piece.state_begin, piece.size);
    device_.add_noise_sums(kCompute, op);
  }
  if (holds_ != Holds::Whole) sum_over_parts(sums);
}

void Optimizer::read_squared_norm(float* value) {
  device_.copy_to_host(kCompute, value, squared_norm_.view());
}

}  // namespace regatta::trainer::step
