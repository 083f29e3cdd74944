#include "trainer/bench/bench_step.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_system.h"
#include "base/json.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trainer/bench/bench_seed.h"
#include "trainer/model/bert.h"
#include "trainer/model/initial_weights.h"
#include "trainer/samples/random_samples.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::bench {
namespace {

// VmHWM of this process in bytes; 0 where /proc does not tell.
std::int64_t peak_resident_bytes() {
  try {
    for (const std::string& line :
         base::split(base::posix_file_system().read("/proc/self/status", 1 << 20U), '\n')) {
      if (line.rfind("VmHWM:", 0) == 0) return 1024 * std::atoll(line.c_str() + 6);
    }
  } catch (const base::Error&) {  // a figure less, nothing worse
  }
  return 0;
}

struct Timing {
  double seconds = 0, forward = 0, backward = 0, optimizer = 0;
  contract::BatchSizes sizes;
};

class StepBench {
 public:
  StepBench(device::Device& device, const base::Clock& clock, const contract::LengthTable& lengths,
            const BenchStepOptions& options)
      : device_(device),
        clock_(clock),
        samples_(samples::random_samples(lengths, options.shape,
                                         std::int64_t{options.samples} * options.steps)),
        options_(options),
        model_(device, options.shape, model_options(device, options)),
        optimizer_(device, communicator_, model_.table(), step::whole_state(model_.table()),
                   optimizer_config(options), 1.0) {
    const std::vector<float> weights =
        model::initial_weights(model_.table(), kSeed, options.threads);
    device_.copy_to_device(0, model_.parameters(), weights.data());
    model_.renew_compute_copy();
    device_.synchronize();
  }

  // Steps below 0 warm up. With `phases` the device is waited for after each.
  Timing run(int step, bool phases) {
    const Work work = work_of(step);
    Timing timing;
    timing.sizes = work.sizes;
    const double start = clock_.monotonic_seconds();
    double mark = start;
    enqueue(work, [&](double Timing::*phase) {
      if (!phases) return;
      device_.synchronize();
      const double now = clock_.monotonic_seconds();
      timing.*phase += now - mark;
      mark = now;
    });
    device_.synchronize();
    timing.seconds = clock_.monotonic_seconds() - start;
    return timing;
  }

  // Seconds of the first `steps` steps together. Waiting: for each step's end before the next is
  // enqueued, as training does to read its results; otherwise the host runs ahead, and the device
  // always has work (and may read the scalars of a later step, which take no other time).
  double seconds_of(int steps, bool waiting) {
    std::vector<Work> works;
    for (int step = 0; step < steps; ++step) works.push_back(work_of(step));
    device_.synchronize();
    const double start = clock_.monotonic_seconds();
    for (const Work& work : works) {
      enqueue(work, [](double Timing::*) {});
      if (waiting) device_.wait_host(device_.record(0));
    }
    device_.synchronize();
    return clock_.monotonic_seconds() - start;
  }

 private:
  struct Work {
    int number = 0;  // of the step, from 1
    std::vector<samples::PackedBatch> batches;
    contract::BatchSizes sizes;
  };

  Work work_of(int step) {
    Work work;
    work.number = step + options_.warmup_steps + 1;
    const int most = options_.micro > 0 ? options_.micro : options_.samples;
    for (int begin = 0; begin < options_.samples; begin += most) {
      std::vector<samples::Sample> samples;
      std::vector<std::int32_t> ordinals;
      for (int ordinal = begin; ordinal < std::min(begin + most, options_.samples); ++ordinal) {
        ordinals.push_back(ordinal);
        samples.push_back(
            samples_.at(std::int64_t{std::max(step, 0)} * options_.samples + ordinal));
        const std::int64_t length = std::ssize(samples.back().ids);
        work.sizes.tokens += length;
        work.sizes.squared_tokens += length * length;
      }
      work.batches.push_back(samples::collate(samples, ordinals));
      work.sizes.samples += work.batches.back().samples();
      work.sizes.masked += work.batches.back().masked();
    }
    return work;
  }

  static contract::OptimizerConfig optimizer_config(const BenchStepOptions& options) {
    contract::OptimizerConfig config;
    config.kind = options.optimizer;
    config.learning_rate = 1e-4;
    return config;
  }

  static model::BertOptions model_options(const device::Device& device,
                                          const BenchStepOptions& options) {
    contract::RunConfig config;
    config.dtype = options.precision;
    config.token_bucket = options.token_bucket;
    config.graphs = options.graphs;
    config.data.max_length = options.shape.max_positions;
    config.dropout = config.attention_dropout = options.dropout;
    config.seed = kSeed;
    return step::bert_options(config, device);
  }

  // done(phase) is called behind each phase.
  template <typename Done>
  void enqueue(const Work& work, const Done& done) {
    model_.zero_gradients();
    model_.reset_statistics();
    for (const samples::PackedBatch& batch : work.batches) {
      model_.upload(batch, static_cast<std::int32_t>(work.number),
                    {work.sizes.masked, work.sizes.samples});
      model_.forward(model::Mode::Training);
      done(&Timing::forward);
      model_.backward();
      done(&Timing::backward);
    }
    optimizer_.begin(model_, {work.number, 1e-4});
    optimizer_.update(model_);
    done(&Timing::optimizer);
  }

  device::Device& device_;
  const base::Clock& clock_;
  samples::SampleStream samples_;
  const BenchStepOptions& options_;
  model::Bert model_;
  ranks::SingleCommunicator communicator_;
  step::Optimizer optimizer_;
};

// Share of the time for which a device that is not the host has nothing to do between steps.
double idle_share(StepBench& bench, int steps) {
  constexpr int kRounds = 3;
  double waiting = 0;
  double ahead = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double one = bench.seconds_of(steps, true);
    const double other = bench.seconds_of(steps, false);
    waiting = round == 0 ? one : std::min(waiting, one);
    ahead = round == 0 ? other : std::min(ahead, other);
  }
  return std::max(0.0, 1 - ahead / waiting);
}

}  // namespace

std::string bench_step(device::Device& device, const base::Clock& clock,
                       const contract::LengthTable& lengths, const BenchStepOptions& options) {
  StepBench bench(device, clock, lengths, options);
  for (int step = -options.warmup_steps; step < 0; ++step) (void)bench.run(step, false);
  if (device.token_bucket() > 1) {
    // A device that likes buckets times products and records repeats at a shape's first two uses.
    for (int step = 0; step < 2 * options.steps; ++step) {
      (void)bench.run(step % options.steps, false);
    }
  }
  Timing sum;
  std::vector<double> seconds;
  for (int step = 0; step < options.steps; ++step) {
    const Timing timing = bench.run(step, false);
    seconds.push_back(timing.seconds);
    sum.seconds += timing.seconds;
    sum.sizes.samples += timing.sizes.samples;
    sum.sizes.tokens += timing.sizes.tokens;
    sum.sizes.squared_tokens += timing.sizes.squared_tokens;
    sum.sizes.masked += timing.sizes.masked;
  }
  const int phase_steps = std::max(1, options.steps / 5);
  Timing phases;
  for (int step = 0; step < phase_steps; ++step) {
    const Timing timing = bench.run(step, true);
    phases.forward += timing.forward / phase_steps;
    phases.backward += timing.backward / phase_steps;
    phases.optimizer += timing.optimizer / phase_steps;
    phases.seconds += timing.seconds / phase_steps;
  }
  nlohmann::ordered_json json;
  json["benchmark"] = "step";
  json["model"] = options.model_name;
  json["parameters"] = contract::make_tensor_table(options.shape).parameter_count;
  json["vocabulary"] = options.shape.vocabulary;
  json["lengths"] = options.lengths_name;
  json["mean_length"] =
      static_cast<double>(sum.sizes.tokens) / static_cast<double>(sum.sizes.samples);
  json["device"] = device.description();
  json["dtype"] = contract::name_of(options.precision);
  json["gelu"] = options.shape.gelu == contract::Gelu::Tanh ? "tanh" : "erf";
  json["attention"] = options.attention_name;
  json["graphs"] = options.graphs;
  json["micro"] = options.micro;
  json["threads"] = options.threads;
  json["optimizer"] = options.optimizer == contract::OptimizerKind::Lamb ? "lamb" : "adamw";
  json["dropout"] = options.dropout;
  json["samples_per_step"] = options.samples;
  json["steps"] = options.steps;
  json["tokens_per_second"] = static_cast<double>(sum.sizes.tokens) / sum.seconds;
  json["samples_per_second"] = static_cast<double>(sum.sizes.samples) / sum.seconds;
  json["gflop_per_second"] = contract::training_flops(options.shape, sum.sizes) / sum.seconds / 1e9;
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  json["step_seconds"] = {{"median", base::median(seconds)}, {"least", *least}, {"most", *most}};
  json["phase_seconds"] = {{"forward", phases.forward},
                           {"backward", phases.backward},
                           {"optimizer", phases.optimizer},
                           {"step", phases.seconds}};
  // The host has no gaps of its own to measure.
  if (!device.is_on_host()) json["idle_share"] = idle_share(bench, std::min(options.steps, 5));
  json["peak_device_bytes"] = device.peak_bytes();
  json["peak_resident_bytes"] = peak_resident_bytes();
  return base::json_text(json, 2) + "\n";
}

}  // namespace regatta::trainer::bench
