// A step of a run with pipeline stages: every stage goes through its micro-batches in the order of
// the run file (contract::pipeline_times), hidden states travel between them in float32, each
// stage's gradients are summed over its replicas beside its last backward, then what the first and
// the last stage have in common, and all ranks update together.
//
// Not modelled: sums that share links with other stages' sums or with what travels, several sends
// of one rank at a time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "orchestrator/plan/compute_model.h"
#include "orchestrator/plan/stage_network.h"
#include "topology/plan/bucket.h"
#include "topology/plan/step_timeline.h"
#include "trainer/contract/length_table.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/stage_cut.h"

namespace regatta::orchestrator::plan {

struct PipelineInputs {
  trainer::contract::RunConfig config;  // with the ranks, and stages that go with it
  std::vector<trainer::contract::Stage> stages;
  ComputeFigures compute;
  StageNetwork network;
  double mean_tokens = 0, mean_squared_tokens = 0;  // of a sample
  double overhead_seconds = 0;                      // of a step, beside all that is modelled
  // Of the whole tensor table, as the run file has them: each stage has its part. None: each stage
  // has the planner's own cut.
  std::vector<topology::plan::Bucket> buckets{};
};

// Of a run file with stages: cut by the FLOP model over these lengths, unpadded, as the trainer
// cuts by those of its first samples.
[[nodiscard]] std::vector<trainer::contract::Stage> stages_of(
    const trainer::contract::RunConfig& config, const trainer::contract::LengthTable& lengths);

// Seconds of a step, which add up to `step`.
struct PipelineParts {
  double compute = 0;    // forward and backward of the mean rank
  double bubble = 0;     // what the mean rank waits until its replica's last stage is done
  double imbalance = 0;  // what the slowest replica takes longer than the mean one
  double exposed = 0;    // sums that nothing hides, those of the two ends among them
  double tail = 0;       // norm and optimizer of the stage with most weights
  double overhead = 0;
  double step = 0;
  // As the journal's `bubble`: time without work over time with.
  [[nodiscard]] double bubble_share() const { return compute > 0 ? bubble / compute : 0; }
};

// (stages − 1) / micro-batches, what even stages and micro-batches have without a link: the
// journal's `bubble_even`.
[[nodiscard]] double even_bubble(int stages, double micro_batches);

class PipelineModel {
 public:
  // Chooses buckets for a step of mean samples. Throws what plan_inputs() throws.
  explicit PipelineModel(PipelineInputs inputs);

  // [replica][micro-batch], none empty.
  using Replicas = std::vector<std::vector<trainer::contract::BatchSizes>>;
  [[nodiscard]] PipelineParts step(const Replicas& replicas) const;

  // Of the tensor table, in its order: the stages' own cuts one after another, from the last stage
  // to the first.
  [[nodiscard]] const std::vector<topology::plan::Bucket>& buckets() const { return buckets_; }
  // Of the first stage, whose sums begin last.
  [[nodiscard]] const std::string& buckets_why() const { return why_; }
  // Of the step of mean samples, a span for each of buckets(): `compute` ends with the last stage,
  // bubble included.
  [[nodiscard]] topology::plan::StepTimeline mean_timeline() const;
  // Samples of one length are alike to all replicas.
  [[nodiscard]] Replicas mean_replicas() const;
  // From a stage to the next, of the hidden states of so many tokens. boundary < stages − 1.
  [[nodiscard]] double link_seconds(std::size_t boundary, double tokens) const;
  // Of the gradient that the first and the last stage have in common; 0: there is none.
  [[nodiscard]] double ends_seconds() const;
  // Forward alone, of packs that follow each other through the stages.
  [[nodiscard]] double evaluation_seconds(const trainer::contract::BatchSizes& pack,
                                          double packs) const;
  [[nodiscard]] const PipelineInputs& inputs() const { return inputs_; }

 private:
  // When a stage's last backward begins and ends on the slowest replica.
  struct LastBackward {
    double begin = 0, end = 0;
  };
  struct StageTimes {
    double compute = 0;   // of all ranks together
    double mean_end = 0;  // over replicas, of their last stage
    double end = 0;       // of the slowest
    std::vector<LastBackward> last;
  };
  struct Sums {
    std::vector<topology::plan::StepTimeline> stages;
    double end = 0;  // of the last, that of the two ends among them
  };
  [[nodiscard]] StageTimes times_of(const Replicas& replicas) const;
  [[nodiscard]] topology::plan::StepInputs stage_inputs(std::size_t stage,
                                                        const LastBackward& last) const;
  [[nodiscard]] Sums sums_of(const std::vector<LastBackward>& last) const;
  void cut_buckets(const std::vector<LastBackward>& last);
  [[nodiscard]] std::vector<topology::plan::Bucket> run_file_buckets(std::size_t stage) const;

  PipelineInputs inputs_;
  topology::plan::StepInputs whole_;  // of one rank with all of the model and a replica's samples
  std::vector<trainer::contract::StageTensors> tensors_;
  std::vector<std::vector<topology::plan::Bucket>> stage_buckets_;  // by the stage's own tensors
  std::vector<topology::plan::Bucket> buckets_;
  std::string why_;
  double tail_ = 0;
  double word_bytes_ = 0;  // of what both ends have in common; 0: nothing
};

}  // namespace regatta::orchestrator::plan
