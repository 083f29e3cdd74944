// Benchmarks of whole steps on several ranks: how their processes start and join, and how they
// train on random samples for a while, one way after another.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "topology/plan/plan.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_config.h"
#include "trainer/device/device.h"
#include "trainer/plugins/make_device.h"
#include "trainer/plugins/rank_group.h"
#include "trainer/ranks/delayed_communicator.h"
#include "trainer/samples/sample_stream.h"

namespace regatta::trainer::step {
class TrainLoop;
}

namespace regatta::trainer::bench {

struct BenchPlace {
  plugins::DevicePlace device;
  ranks::Variables variables;
  std::vector<std::string> arguments;  // of this process, to start others like it
  std::string commit{};                // that the program was built from; empty: not known
};

// Calls body on each of config.ranks ranks: in this process, if it is one of them or the only one;
// else in others, which it starts. Returns the exit code of the process.
[[nodiscard]] int on_ranks(const contract::RunConfig& config, const BenchPlace& place,
                           const std::function<void(plugins::RankGroup& group)>& body);

// A model whose embeddings are 8 % of the parameters, so that little of its gradient is ready last:
// 8 layers × 256, 2,048 pieces, 128 positions.
constexpr const char* kSmallEmbedding = "small-embedding";
// That, or a preset with Google's 30,522 pieces. Throws Code::User for another name.
[[nodiscard]] contract::ModelShape bench_shape(const std::string& model);

// A way to train.
struct BenchWay {
  contract::RunConfig config;  // complete, but for steps
  std::vector<topology::plan::Bucket> buckets;
  samples::SampleStream samples;         // repeats after config.batch_size · steps
  bool fused = true;                     // else: unfused_device.h
  std::optional<ranks::LinkModel> link;  // artificial, behind the real one
};

// When things are over in a step, in seconds since its start; of the rank that is last.
struct StepMarks {
  double forward = 0, backward = 0, sums = 0, step = 0;
  std::vector<double> ready;  // each bucket's gradients; none on one rank
};

// A run of its own, from the first weights, step by step; several may stand side by side, so that
// their steps can take turns. Calls are collective.
class BenchRun {
 public:
  // `loop` sums with `communicator`.
  BenchRun(std::unique_ptr<ranks::Communicator> communicator,
           std::unique_ptr<step::TrainLoop> loop);
  ~BenchRun();
  // Takes optimizer step `step`. Throws Code::User when a signal asked to stop.
  contract::StepRecord take(std::int64_t step);
  // The same; of all ranks.
  [[nodiscard]] StepMarks marks(std::int64_t step);

 private:
  std::unique_ptr<ranks::Communicator> communicator_;
  std::unique_ptr<step::TrainLoop> loop_;
};

// Medians over steps, of the rank that waits least for communication and for others: the slowest to
// compute, which the others wait for.
struct BenchFigures {
  double seconds = 0;
  double exposed_seconds = 0;
  double computed_seconds = 0;     // seconds − exposed_seconds
  double first_ready_seconds = 0;  // since the step's start: all ranks have begun the first bucket
  double utilisation = 0;          // share in which a rank computed; mean over ranks and steps
  double imbalance = 1;            // of tokens; mean over steps
  double data = 0, forward = 0, backward = 0, reduce = 0, optimizer = 0;  // seconds
};

struct RankBenchOptions {
  contract::DeviceKind device = contract::DeviceKind::Cpu;
  contract::Precision precision = contract::Precision::Float32;
  contract::AttentionKind attention = contract::AttentionKind::Automatic;
  plugins::DevicePlace place;
  int cores = 1;    // of this machine
  int threads = 0;  // per rank; 0: the machine's cores shared out, at least 1
};

// What the ways of one benchmark share: ranks, device, first weights. Calls are collective.
class RankBench {
 public:
  // Everything passed by reference outlives the bench. Throws what make_device and bert_options do.
  RankBench(plugins::RankGroup& group, base::Clock& clock, const RankBenchOptions& options);
  ~RankBench();

  [[nodiscard]] plugins::RankGroup& group() { return group_; }
  [[nodiscard]] const device::Device& device() const { return *device_; }
  [[nodiscard]] device::Device& device() { return *device_; }
  [[nodiscard]] const base::Clock& clock() const { return clock_; }
  // What a way sums with: the ranks' communicator, behind a link if there is one. The bench
  // outlives it.
  [[nodiscard]] std::unique_ptr<ranks::Communicator> communicator(
      const std::optional<ranks::LinkModel>& link);
  // What ways start from: ranks, device, threads, length, optimizer.
  [[nodiscard]] contract::RunConfig config(const contract::ModelShape& shape, int samples) const;

  // Of steps 1 to `steps`; nothing is warmed up yet. The bench outlives it.
  [[nodiscard]] std::unique_ptr<BenchRun> open(const BenchWay& way, int steps);
  // A run of its own, from the first weights: a step, or (where steps are replayed) two passes, to
  // warm up, then `steps` measured ones. Throws Code::User when a signal asked to stop.
  [[nodiscard]] BenchFigures run(const BenchWay& way, int steps);

  // Of this machine, before the benchmark began.
  [[nodiscard]] double load_average() const { return load_; }
  // Machine, ranks and load at the start, for results.
  void describe(nlohmann::ordered_json* json) const;

 private:
  [[nodiscard]] device::Device& device_of(const BenchWay& way);

  plugins::RankGroup& group_;
  base::Clock& clock_;
  RankBenchOptions options_;
  double load_ = 0;
  std::unique_ptr<device::Device> device_, reference_, unfused_;
  ranks::Communicator* communicator_ = nullptr;
  std::string weights_of_;
  std::vector<float> weights_;  // rank 0
};

}  // namespace regatta::trainer::bench
