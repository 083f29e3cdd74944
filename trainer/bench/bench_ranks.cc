#include "trainer/bench/bench_ranks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file_system.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trainer/bench/bench_seed.h"
#include "trainer/device/unfused_device.h"
#include "trainer/model/initial_weights.h"
#include "trainer/ranks/borrowed_communicator.h"
#include "trainer/run/launcher.h"
#include "trainer/run/stop_signals.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::bench {
namespace {

// What a rank measures of a step; doubles, so that it travels as it is.
struct Measured {
  double seconds = 0, exposed = 0, first_ready = 0, utilisation = 0, imbalance = 0;
  double data = 0, forward = 0, backward = 0, reduce = 0, optimizer = 0;
};

Measured measured(const contract::StepRecord& record) {
  Measured step;
  step.seconds = record.seconds;
  step.exposed = record.exposed_seconds;
  if (!record.bucket_launched.empty()) step.first_ready = record.bucket_launched.front();
  step.utilisation = (record.forward_seconds + record.backward_seconds + record.reduce_seconds +
                      record.optimizer_seconds - record.exposed_seconds) /
                     record.seconds;
  step.imbalance = record.imbalance;
  step.data = record.data_seconds;
  step.forward = record.forward_seconds;
  step.backward = record.backward_seconds;
  step.reduce = record.reduce_seconds;
  step.optimizer = record.optimizer_seconds;
  return step;
}

// Of all ranks, in their order.
template <typename Number>
std::vector<Number> gathered(ranks::HostCollectives& host, const std::vector<Number>& mine) {
  std::vector<Number> all(mine.size() * static_cast<std::size_t>(host.ranks()));
  host.all_gather(mine.data(), static_cast<std::int64_t>(mine.size() * sizeof(Number)), all.data());
  return all;
}

// `all`: rank after rank, each with the same steps.
BenchFigures figures_of(const std::vector<Measured>& all, std::size_t steps) {
  // Of each step, what the rank measured that the others waited for.
  std::vector<Measured> slowest(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(steps));
  BenchFigures figures;
  figures.imbalance = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Measured& step = slowest[i % steps];
    const double first_ready = std::max(step.first_ready, all[i].first_ready);
    if (all[i].exposed < step.exposed) step = all[i];
    step.first_ready = first_ready;
    figures.utilisation += all[i].utilisation / static_cast<double>(all.size());
    figures.imbalance += all[i].imbalance / static_cast<double>(all.size());
  }
  const auto median = [&](auto&& value) {
    std::vector<double> values;
    for (const Measured& step : slowest) values.push_back(value(step));
    return base::median(std::move(values));
  };
  const auto of = [&](double Measured::*value) {
    return median([value](const Measured& step) { return step.*value; });
  };
  figures.seconds = of(&Measured::seconds);
  figures.exposed_seconds = of(&Measured::exposed);
  figures.computed_seconds = median([](const Measured& m) { return m.seconds - m.exposed; });
  figures.first_ready_seconds = of(&Measured::first_ready);
  figures.data = of(&Measured::data);
  figures.forward = of(&Measured::forward);
  figures.backward = of(&Measured::backward);
  figures.reduce = of(&Measured::reduce);
  figures.optimizer = of(&Measured::optimizer);
  return figures;
}

// Of the steps 1 to `steps`, that with the most tokens: it makes memory as large as it will be.
std::int64_t largest_step(const BenchWay& way, int steps) {
  std::int64_t most = 0, found = 1;
  for (std::int64_t step = 1; step <= steps; ++step) {
    std::int64_t tokens = 0;
    for (std::int64_t i = 0; i < way.config.batch_size; ++i) {
      tokens += way.samples.length((step - 1) * way.config.batch_size + i);
    }
    if (tokens > most) found = step;
    most = std::max(most, tokens);
  }
  return found;
}

}  // namespace

contract::ModelShape bench_shape(const std::string& model) {
  if (model != kSmallEmbedding) {
    contract::ModelShape shape = contract::preset_shape(model);
    shape.vocabulary = 30522;
    return shape;
  }
  contract::ModelShape shape;
  shape.layers = 8;
  shape.hidden = 256;
  shape.heads = 4;
  shape.feed_forward = 1024;
  shape.vocabulary = 2048;
  shape.max_positions = 128;
  return shape;
}

int on_ranks(const contract::RunConfig& config, const BenchPlace& place,
             const std::function<void(plugins::RankGroup& group)>& body) {
  const std::optional<ranks::RankPlace> rank = ranks::rank_place(place.variables);
  if (config.ranks > 1) run::catch_stop_signals();
  if (!rank && config.ranks > 1) {
    return run::launch_ranks(
        {run::mpirun_of(place.variables), place.device.program, place.arguments, config.ranks});
  }
  run::stop_with_launcher(place.variables);
  plugins::RankGroup group(base::posix_file_system(), base::Path("."), config, rank,
                           {place.device.program, place.device.plugin_directory}, place.variables);
  try {
    body(group);
  } catch (...) {
    group.abandon();
    throw;
  }
  return run::rank_exit_code(place.variables, group.rank(), 0);
}

RankBench::RankBench(plugins::RankGroup& group, base::Clock& clock, const RankBenchOptions& options)
    : group_(group), clock_(clock), options_(options) {
  if (options_.threads == 0) {
    options_.threads = std::max(1, options_.cores / group.ranks_per_node());
  }
  getloadavg(&load_, 1);
  device_ = plugins::make_device({options_.device, options_.precision, options_.attention,
                                  options_.threads, group.local_rank()},
                                 options_.place);
  communicator_ = &group_.communicator(*device_, !device_->is_on_host());
}

RankBench::~RankBench() = default;

contract::RunConfig RankBench::config(const contract::ModelShape& shape, int samples) const {
  contract::RunConfig config;
  config.name = "bench";
  config.model = shape;
  config.data.max_length = shape.max_positions;
  config.optimizer.learning_rate = 1e-4;
  config.optimizer.schedule = contract::ScheduleKind::Constant;
  config.batch_size = samples;
  config.seed = kSeed;
  config.device = options_.device;
  config.dtype = options_.precision;
  config.attention = options_.attention;
  config.threads = options_.threads;
  config.ranks = group_.ranks();
  config.ranks_per_node = group_.ranks_per_node();
  config.guard.replay_every = 0;  // one step in 200, which would be one of a few here
  return config;
}

device::Device& RankBench::device_of(const BenchWay& way) {
  if (way.fused) return *device_;
  if (unfused_ == nullptr) {
    // Sums over several ranks belong to the device that they were made for.
    if (!device_->is_on_host() && group_.ranks() == 1) {
      reference_ = plugins::make_device(
          {options_.device, options_.precision, contract::AttentionKind::Reference,
           options_.threads, group_.local_rank()},
          options_.place);
    }
    unfused_ = device::make_unfused_device(reference_ != nullptr ? *reference_ : *device_);
  }
  return *unfused_;
}

std::unique_ptr<ranks::Communicator> RankBench::communicator(
    const std::optional<ranks::LinkModel>& link) {
  std::unique_ptr<ranks::Communicator> borrowed =
      std::make_unique<ranks::BorrowedCommunicator>(*communicator_);
  return link ? ranks::make_delayed_communicator(std::move(borrowed), clock_, *link)
              : std::move(borrowed);
}

std::unique_ptr<BenchRun> RankBench::open(const BenchWay& way, int steps) {
  contract::RunConfig config = way.config;
  config.steps = steps;
  topology::plan::Plan plan;
  plan.ranks = config.ranks;
  plan.buckets = way.buckets;
  step::TrainLoopOptions options;
  options.local_flags = [] {
    step::StepFlags flags;
    flags.stop = run::take_requests().stop;
    return flags;
  };
  std::unique_ptr<ranks::Communicator> ranks = communicator(way.link);
  auto loop = std::make_unique<step::TrainLoop>(device_of(way), *ranks, clock_, config, plan,
                                                way.samples, std::move(options));
  if (group_.rank() == 0 && weights_of_ != contract::model_fingerprint(config.model)) {
    weights_ = model::initial_weights(loop->model().table(), config.seed, options_.threads);
    weights_of_ = contract::model_fingerprint(config.model);
  }
  step::TrainingState start;
  start.parameters = weights_;
  loop->load(start);
  return std::make_unique<BenchRun>(std::move(ranks), std::move(loop));
}

BenchFigures RankBench::run(const BenchWay& way, int steps) {
  const std::unique_ptr<BenchRun> run = open(way, steps);
  if (device_of(way).token_bucket() > 1) {
    // Such a device times products and records repeats at a shape's first two uses.
    for (int step = 0; step < 2 * steps; ++step) (void)run->take(step % steps + 1);
  } else {
    (void)run->take(largest_step(way, steps));
  }
  std::vector<Measured> mine;
  for (int step = 1; step <= steps; ++step) mine.push_back(measured(run->take(step)));
  return figures_of(gathered(group_.host(), mine), mine.size());
}

BenchRun::BenchRun(std::unique_ptr<ranks::Communicator> communicator,
                   std::unique_ptr<step::TrainLoop> loop)
    : communicator_(std::move(communicator)), loop_(std::move(loop)) {}

BenchRun::~BenchRun() = default;

contract::StepRecord BenchRun::take(std::int64_t step) {
  contract::StepRecord taken = loop_->step(step);
  if (loop_->agreed().stop) throw base::Error(base::Code::User, "stopped by a signal");
  return taken;
}

StepMarks BenchRun::marks(std::int64_t step) {
  const contract::StepRecord record = take(step);
  const double forward = record.data_seconds + record.forward_seconds;
  const double backward = forward + record.backward_seconds;
  std::vector<double> mine{forward, backward, backward + record.reduce_seconds, record.seconds};
  mine.insert(mine.end(), record.bucket_launched.begin(), record.bucket_launched.end());
  const std::vector<double> all = gathered(communicator_->host(), mine);
  for (std::size_t i = 0; i < all.size(); ++i) {
    double& last = mine[i % mine.size()];
    last = std::max(last, all[i]);
  }
  return {mine[0], mine[1], mine[2], mine[3], {mine.begin() + 4, mine.end()}};
}

void RankBench::describe(nlohmann::ordered_json* json) const {
  (*json)["ranks"] = group_.ranks();
  (*json)["threads_per_rank"] = options_.threads;
  (*json)["cores"] = options_.cores;
  (*json)["device"] = device_->description();
  (*json)["dtype"] = contract::name_of(options_.precision);
  (*json)["load_average_before"] = load_;
}

}  // namespace regatta::trainer::bench
