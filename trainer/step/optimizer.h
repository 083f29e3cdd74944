#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/plan/plan.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/stage_cut.h"
#include "trainer/model/bert.h"
#include "trainer/ranks/communicator.h"
#include "trainer/step/granule_sums.h"

namespace regatta::trainer::step {

// Which part of the optimizer's state a rank holds: of every bucket, the communicator's part.
// Pieces follow one another in the moments, each from a multiple of kPartAlignment elements on.
struct StatePiece {
  std::int64_t arena_begin = 0;  // element of the arena
  std::int64_t size = 0;
  std::int64_t state_begin = 0;  // element of this rank's moments
};
// Whole: one piece, the arena.
[[nodiscard]] std::vector<StatePiece> whole_state(const contract::TensorTable& table);
// A bucket reaches from its first tensor to the end of its last; a part without elements is left
// out.
[[nodiscard]] std::vector<StatePiece> sharded_state(
    const contract::TensorTable& table, const std::vector<topology::plan::Bucket>& buckets,
    const ranks::Communicator& communicator);

// What a rank of a pipeline stage holds: its tensors whole, as one piece, and the word embedding as
// the decoder's weight as another. Sums over the arena are then made over stages.
struct StageState {
  std::vector<StatePiece> pieces;
  std::size_t counted = 1;  // of the pieces, from the first: the decoder's weight counts where it
                            // is the embedding
  bool adds = true;         // this rank's sums: of a stage's ranks, which hold the same, one's
};
[[nodiscard]] StageState stage_state(const contract::TensorTable& table,
                                     const contract::StageTensors& stage, bool adds);

// What a rank holds where no bit may depend on it: granules that follow one another (shard_sums.h).
struct GranuleState {
  std::int64_t arena_begin = 0, size = 0;
};

// AdamW or LAMB over the flat arena, with global-norm clipping folded into the update. Owns the
// moments of its pieces.
class Optimizer {
 public:
  // Moments start at zero. factors: learning_rate_factors() of the table (schedule.h); empty: 1 for
  // all. `communicator` sums norms over ranks where pieces are not the whole.
  Optimizer(device::Device& device, ranks::Communicator& communicator,
            const contract::TensorTable& table, std::vector<StatePiece> pieces,
            const contract::OptimizerConfig& config, double clip_norm,
            const std::vector<float>& factors = {});
  // The same of a stage.
  Optimizer(device::Device& device, ranks::Communicator& communicator,
            const contract::TensorTable& table, const StageState& stage,
            const contract::OptimizerConfig& config, double clip_norm,
            const std::vector<float>& factors);

  // The same of granules: norms are sums over granules, whoever holds them.
  Optimizer(device::Device& device, ranks::Communicator& communicator,
            const contract::TensorTable& table, const GranuleState& granules,
            const contract::OptimizerConfig& config, double clip_norm,
            const std::vector<float>& factors);

  [[nodiscard]] const std::vector<StatePiece>& pieces() const { return pieces_; }
  // Without what another stage counts: those of a checkpoint.
  [[nodiscard]] std::vector<StatePiece> counted_pieces() const {
    return {pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(counted_)};
  }
  // Of this rank's pieces, at their state_begin; zeros between.
  [[nodiscard]] device::View first_moment() const { return first_moment_.view(); }
  [[nodiscard]] device::View second_moment() const { return second_moment_.view(); }

  struct Step {
    std::int64_t number = 1;  // 1 is the first
    double learning_rate = 0;
    double loss_scale = 1;  // that the gradients carry
  };
  // Enqueues what an update begins with: the step's scalars, and Σ g² of the model's summed
  // gradients. One call between two synchronisations: the scalars' host copy is reused.
  void begin(const model::Bert& model, const Step& step);
  // Then, before the update: enqueues device::NoiseSums over all ranks' pieces into `sums`, float32
  // [4]. `difference` lies as the moments do; the mean is the summed gradient, which is 0 where
  // parameters are frozen.
  void sum_noise(const model::Bert& model, device::View difference, double part_to_rest,
                 device::View sums);
  // Enqueues the update of the model's parameters within the pieces (and, where the pieces are the
  // whole, of the copy that products read).
  void update(const model::Bert& model);
  // Enqueues the copy of Σ g² of the last step, over all ranks' pieces, to the host.
  void read_squared_norm(float* value);

 private:
  enum class Holds { Whole, Parts, Stage };
  struct Share {
    Holds holds = Holds::Whole;
    std::size_t counted = 0;
    bool adds = true;
  };
  Optimizer(device::Device& device, ranks::Communicator& communicator,
            const contract::TensorTable& table, std::vector<StatePiece> pieces,
            const contract::OptimizerConfig& config, double clip_norm,
            const std::vector<float>& factors, const Share& share);
  [[nodiscard]] static Share share_of(const std::vector<StatePiece>& pieces,
                                      const contract::TensorTable& table,
                                      const ranks::Communicator& communicator);

  // Sums over the ranks that hold the parts of one whole. Hierarchical: those of one node.
  void sum_over_parts(device::View x);
  void sum_squares(const model::Bert& model);
  void update_pieces(const model::Bert& model, device::UpdatePart part);
  void update_lamb_by_granules(const model::Bert& model);
  [[nodiscard]] device::OptimizerUpdate update_of(const model::Bert& model,
                                                  std::size_t piece) const;

  device::Device& device_;
  ranks::Communicator& communicator_;
  contract::OptimizerConfig config_;
  double clip_norm_;
  std::vector<StatePiece> pieces_;
  Holds holds_;
  std::size_t counted_;  // pieces, from the first, that this rank's sums are of
  bool adds_;            // to sums over ranks
  std::vector<std::vector<device::OptimizerTensor>> tensors_;  // of each piece
  device::DeviceMemory first_moment_, second_moment_, scalars_, squared_norm_, piece_norms_,
      tensor_norms_;
  device::HostMemory host_scalars_;
  std::optional<GranuleSums> granules_;
  std::vector<device::OptimizerTensor> cells_;  // of granules: the one piece's, for LAMB's moments
};

}  // namespace regatta::trainer::step
