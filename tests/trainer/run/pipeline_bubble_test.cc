// The bubble of real ranks on this machine's CPU beside the one that `regatta simulate` predicts of
// the same model, lengths and layout.
//
// The measurement says something only where every rank has a core to itself: as many usable cores
// as ranks, nearly idle before the run, and nobody else's work beside it (/proc/stat, less what the
// ranks took). Else it is skipped, and says why; the prediction is compared with the trainer's own,
// which needs no clock, on any machine.
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/statistics.h"
#include "base/thread_pool.h"
#include "orchestrator/simulate/simulation.h"
#include "tests/shared_data.h"
#include "tests/trainer/run/run_process.h"
#include "trainer/contract/length_table.h"
#include "trainer/samples/sampler.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

// Seconds of all cores together that were busy or stolen since the machine started.
double busy_seconds() {
  std::istringstream line(file_text("/proc/stat"));
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0,
         stolen = 0;
  line >> name >> user >> nice >> system >> idle >> waiting >> interrupts >> soft >> stolen;
  return (user + nice + system + interrupts + soft + stolen) /
         static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double own_seconds() {
  rusage usage{};
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    ::getrusage(who, &usage);
    for (const timeval& each : {usage.ru_utime, usage.ru_stime}) {
      seconds += static_cast<double>(each.tv_sec) + 1e-6 * static_cast<double>(each.tv_usec);
    }
  }
  return seconds;
}

// What a container's quota leaves of the cores; as many as there are without one.
double cores_of_quota() {
  std::istringstream line(file_text("/sys/fs/cgroup/cpu.max"));
  double quota = 0, period = 0;
  return line >> quota >> period && period > 0 ? quota / period : base::usable_cores();
}

// Cores that others keep busy, since it was made.
class OtherWork {
 public:
  [[nodiscard]] double cores() const {
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start_;
    return std::max(0.0, busy_seconds() - busy_ - (own_seconds() - own_)) / wall.count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double busy_ = busy_seconds(), own_ = own_seconds();
};

class PipelineBubble : public RunProcess {
 protected:
  static constexpr int kSteps = 40, kMicro = 8;
  static constexpr double kMostOtherWork = 0.15;  // cores

  static contract::RunConfig config_of(int stages, int micro_batches) {
    const std::string text =
        "model: {preset: tiny, layers: 4, hidden: 128, heads: 2, feed_forward: 512, "
        "max_positions: 64}\ndata: {path: " +
        dataset_->string() +
        ", max_length: 48}\nbatch: {size: " + std::to_string(kMicro * micro_batches) +
        ", micro: " + std::to_string(kMicro) +
        "}\nevaluate: {every: 1000, samples: 16}\ncheckpoint: {every: 1000}\nthreads: 1\nsteps: " +
        std::to_string(kSteps) +
        "\ndevice: cpu\nstatistics: {every: 0}\nranks: " + std::to_string(stages) +
        "\nparallel: {pipeline: " + std::to_string(stages) + "}\n";
    return contract::parse_run_config(text, "run.yaml");
  }

  // Of the run's own samples.
  static contract::LengthTable lengths_of(const contract::RunConfig& config) {
    const data::Dataset dataset = data::Dataset::open(*dataset_);
    const samples::SampleSource source(dataset, data::Split::Training, config.data, config.seed);
    const samples::SampleStream stream = samples::stream_of(source);
    std::map<std::int32_t, int> counts;
    for (std::int64_t i = 0; i < std::int64_t{kSteps} * config.batch_size; ++i) {
      ++counts[stream.length(i)];
    }
    std::string text;
    for (const auto& [length, count] : counts) {
      const std::string tokens = std::to_string(length);
      text += tokens + "," + tokens + "," + std::to_string(count) + "\n";
    }
    return contract::LengthTable::parse(text, "lengths of the run");
  }

  // A device whose time is FLOPs alone, and links that take none: the bubble is a share, so that no
  // speed counts.
  static orchestrator::simulate::Simulation predicted(contract::RunConfig config) {
    config.model.vocabulary = static_cast<int>(data::Dataset::open(*dataset_).vocabulary().size());
    orchestrator::simulate::SimulationInputs inputs;
    inputs.lengths = lengths_of(config);
    inputs.stage_network = orchestrator::plan::no_stage_network(config.parallel.pipeline);
    inputs.compute.peak_flops = 1e12;
    inputs.config = config;
    return orchestrator::simulate::simulate_steps(inputs);
  }

  void compare(int stages, int micro_batches) {
    const contract::RunConfig config = config_of(stages, micro_batches);
    const orchestrator::simulate::Simulation simulated = predicted(config);
    const double prediction = simulated.stages->bubble;
    const double cores = std::min<double>(base::usable_cores(), cores_of_quota());
    const OtherWork before;
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const double busy_before = before.cores();
    const base::Path run = make_run("stages", contract::to_json(config));
    const OtherWork beside;
    ASSERT_EQ(run_to_end(run), 0) << log_of(run);
    const double busy_beside = beside.cores();

    std::vector<double> measured, by_flops;
    for (const contract::StepRecord& step : records_of<contract::StepRecord>(run)) {
      by_flops.push_back(step.bubble_predicted.value());
      if (step.step > 5) measured.push_back(step.bubble.value());
      EXPECT_NEAR(step.bubble_even.value(), (stages - 1.0) / micro_batches, 1e-12);
    }
    ASSERT_EQ(by_flops.size(), static_cast<std::size_t>(kSteps));
    double mean = 0;
    for (const double each : by_flops) mean += each / kSteps;
    EXPECT_NEAR(prediction / mean, 1, 0.05) << "the trainer's own, of the very same samples";

    const double median = base::percentile(measured, 0.5);
    std::printf(
        "%d stages, %d micro-batches: bubble %.1f %% predicted, %.1f %% measured; %.1f "
        "cores, others used %.2f before and %.2f beside\n",
        stages, micro_batches, 100 * prediction, 100 * median, cores, busy_before, busy_beside);
    std::string why;
    if (cores < stages) {
      why = "needs a core for each of " + std::to_string(stages) + " ranks, and there are " +
            std::to_string(static_cast<int>(cores)) +
            ": stages that share a core have another "
            "bubble";
    } else if (std::max(busy_before, busy_beside) > kMostOtherWork) {
      why = "needs an idle machine, and others used " + std::to_string(busy_before) +
            " cores before and " + std::to_string(busy_beside) + " beside the run";
    }
    if (!why.empty()) {
      ASSERT_FALSE(required("cores")) << "REQUIRE=cores, but the measurement " << why;
      GTEST_SKIP() << "the measured bubble was not compared: it " << why;
    }
    EXPECT_NEAR(median / prediction, 1, 0.15);
  }
};

TEST_F(PipelineBubble, OfTwoStagesIsAsSimulated) { compare(2, 4); }

TEST_F(PipelineBubble, OfFourStagesIsAsSimulated) { compare(4, 8); }

}  // namespace
}  // namespace regatta::tests
