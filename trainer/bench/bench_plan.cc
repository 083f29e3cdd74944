#include "trainer/bench/bench_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/statistics.h"
#include "topology/nccl/communication_curve.h"
#include "topology/plan/bucket_choice.h"
#include "topology/plan/step_gantt.h"
#include "topology/plan/step_timeline_json.h"
#include "trainer/bench/bench_comm.h"
#include "trainer/samples/random_samples.h"
#include "trainer/step/buckets.h"

namespace regatta::trainer::bench {
namespace {

using Json = nlohmann::ordered_json;
using topology::nccl::CommunicationCurve;
using topology::plan::Bucket;
using topology::plan::StepInputs;

constexpr std::int64_t kStandardBytes = std::int64_t{25} << 20;
// How far off a curve may be that was measured a moment ago, on ranks that did nothing else.
constexpr double kCurveError = 0.1;
constexpr int kWarmUps = 2;  // steps of each run

// Shares of what backward takes.
struct LinkShape {
  const char* name;
  double latency;  // of each collective
  double bytes;    // of all gradients together
};
constexpr LinkShape kLinks[] = {
    {"none", 0, 0}, {"balanced", 0, 1}, {"latency", 0.15, 0.2}, {"slow", 0.02, 2}};

std::optional<ranks::LinkModel> link_of(const PlanCase& tried, const StepMarks& marks,
                                        double bytes) {
  if (tried.given) return tried.given;
  for (const LinkShape& shape : kLinks) {
    if (tried.link != shape.name) continue;
    if (shape.bytes <= 0) return std::nullopt;
    const double backward = marks.backward - marks.forward;
    return ranks::LinkModel{shape.latency * backward, bytes / (shape.bytes * backward)};
  }
  throw base::Error(base::Code::User,
                    "there is no link '" + tried.link + "'; use none, balanced, latency or slow");
}

struct Cut {
  std::string name;
  std::vector<Bucket> buckets;
  std::unique_ptr<BenchRun> run{};
  int taken = 0;                               // steps
  std::vector<double> seconds{}, predicted{};  // of each round

  [[nodiscard]] double step_seconds() { return run->marks(++taken).step; }
  // Measured / predicted, of each round.
  [[nodiscard]] std::vector<double> ratios() const {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < seconds.size(); ++i) ratios.push_back(seconds[i] / predicted[i]);
    return ratios;
  }
};

// Everything about one case.
struct Trial {
  contract::TensorTable table;
  BenchWay way;                      // over the real link; buckets as announced
  std::unique_ptr<BenchRun> marked;  // of that
  int marked_steps = 0;              // taken
  StepInputs inputs;
  std::optional<ranks::LinkModel> link;
  std::optional<CommunicationCurve> curve;
  topology::plan::Plan plan;
  std::vector<Cut> cuts;      // the standard first, the planned second
  std::vector<double> again;  // 25 MB a second time, of each round

  // Of each round.
  [[nodiscard]] std::vector<double> gains() const {
    std::vector<double> gains;
    for (std::size_t i = 0; i < again.size(); ++i) {
      gains.push_back(2 * cuts[1].seconds[i] / (cuts[0].seconds[i] + again[i]));
    }
    return gains;
  }
};

StepMarks median_marks(const std::vector<StepMarks>& all) {
  const auto median = [&](auto&& of) {
    std::vector<double> values;
    for (const StepMarks& marks : all) values.push_back(of(marks));
    return base::median(std::move(values));
  };
  StepMarks marks;
  marks.forward = median([](const StepMarks& m) { return m.forward; });
  marks.backward = median([](const StepMarks& m) { return m.backward; });
  marks.sums = median([](const StepMarks& m) { return m.sums; });
  marks.step = median([](const StepMarks& m) { return m.step; });
  for (std::size_t i = 0; i < all.front().ready.size(); ++i) {
    marks.ready.push_back(median([i](const StepMarks& m) { return m.ready[i]; }));
  }
  return marks;
}

CommunicationCurve measured_curve(RankBench& bench, const std::optional<ranks::LinkModel>& link,
                                  std::int64_t bytes) {
  constexpr int kRounds = 5;
  constexpr std::int64_t kLeast = 4096;
  constexpr double kFactor = 4;
  const std::unique_ptr<ranks::Communicator> communicator = bench.communicator(link);
  const std::vector<CommRow> rows = measure_collective(
      bench.device(), *communicator, bench.clock(), topology::nccl::Collective::AllReduce,
      comm_sizes(topology::nccl::Collective::AllReduce, {std::min(kLeast, bytes), bytes, kFactor},
                 communicator->parts()),
      kRounds);
  std::vector<CommunicationCurve::Point> samples;
  for (const CommRow& row : rows) {
    for (const double seconds : row.seconds) {
      samples.push_back({static_cast<double>(row.bytes), seconds});
    }
  }
  return CommunicationCurve::measured(std::move(samples));
}

Trial planned_trial(RankBench& bench, const contract::LengthTable& lengths, const PlanCase& tried) {
  const contract::ModelShape shape = bench_shape(tried.model);
  Trial trial;
  trial.table = contract::make_tensor_table(shape);
  trial.way.config = bench.config(shape, tried.samples);
  trial.way.buckets = step::buckets_as_announced(trial.table);
  trial.way.samples = samples::random_samples(lengths, shape, tried.samples);
  const int steps = 2 * tried.rounds + kWarmUps;
  trial.marked = bench.open(trial.way, steps);
  std::vector<StepMarks> marks;
  for (int i = 0; i < kWarmUps + tried.rounds; ++i) {
    StepMarks more = trial.marked->marks(++trial.marked_steps);
    if (i >= kWarmUps) marks.push_back(std::move(more));
  }
  trial.inputs = measured_inputs(trial.table, median_marks(marks));
  const std::int64_t bytes = trial.inputs.tensors.back().end_byte;
  trial.link = link_of(tried, median_marks(marks), static_cast<double>(bytes));
  trial.curve = measured_curve(bench, trial.link, bytes);
  topology::plan::ChoiceOptions options;
  options.curve_error = kCurveError;
  trial.plan =
      topology::plan::plan_buckets(trial.inputs, *trial.curve, bench.group().ranks(), options);
  const auto add = [&](const char* name, std::vector<Bucket> buckets) {
    BenchWay way = trial.way;
    way.link = trial.link;
    way.buckets = buckets;
    trial.cuts.push_back({name, std::move(buckets), bench.open(way, steps)});
    for (int i = 0; i < kWarmUps; ++i) (void)trial.cuts.back().step_seconds();
  };
  add("25 MB", step::buckets_of_bytes(trial.table, kStandardBytes));
  add("planned", trial.plan.buckets);
  add("one bucket", step::buckets_of_bytes(trial.table, 0));
  add("a layer", step::buckets_per_layer(trial.table));
  return trial;
}

// One step of each, backwards in every other round.
void run_round(int round, Trial* trial) {
  StepInputs inputs;
  std::vector<std::function<void()>> turns;
  turns.emplace_back(
      [&] { inputs = measured_inputs(trial->table, trial->marked->marks(++trial->marked_steps)); });
  for (Cut& cut : trial->cuts) {
    turns.emplace_back([&cut] { cut.seconds.push_back(cut.step_seconds()); });
  }
  turns.emplace_back([&] { trial->again.push_back(trial->cuts[0].step_seconds()); });
  if (round % 2 == 1) std::reverse(turns.begin(), turns.end());
  for (const auto& turn : turns) turn();
  for (Cut& cut : trial->cuts) {
    cut.predicted.push_back(
        topology::plan::run_step(inputs, cut.buckets, *trial->curve).step_seconds);
  }
}

std::string name_of(const PlanCase& tried) { return tried.given ? "given" : tried.link; }

Json to_json(const PlanCase& tried, const Trial& trial) {
  Json json;
  json["model"] = tried.model;
  json["parameters"] = trial.table.parameter_count;
  json["samples"] = tried.samples;
  json["rounds"] = tried.rounds;
  json["link"] = name_of(tried);
  if (trial.link) {
    json["link_gb_per_s"] = trial.link->bytes_per_second / 1e9;
    json["link_latency_us"] = trial.link->latency_seconds * 1e6;
  }
  json["forward_seconds"] = trial.inputs.forward_seconds;
  json["compute_seconds"] = trial.inputs.compute_seconds;
  json["tail_seconds"] = trial.inputs.tail_seconds;
  for (const CommunicationCurve::Point& point : trial.curve->points()) {
    json["curve"].push_back({{"bytes", point.bytes}, {"seconds", point.seconds}});
  }
  json["why"] = trial.plan.why;
  json["timeline"] = topology::plan::json_of(*trial.plan.timeline);
  for (const Cut& cut : trial.cuts) {
    json["cuts"].push_back({{"name", cut.name},
                            {"buckets", cut.buckets.size()},
                            {"predicted_seconds", base::median(cut.predicted)},
                            {"seconds", base::median(cut.seconds)},
                            {"ratio", base::median(cut.ratios())}});
  }
  const Cut& planned = trial.cuts[1];
  const std::vector<double> gains = trial.gains();
  json["ratio_to_prediction"] = base::median(planned.ratios());
  json["ratio_to_prediction_noise"] = noise_of_median(planned.ratios());
  json["ratio_to_plan"] = base::median(planned.seconds) / trial.plan.timeline->step_seconds;
  json["planned_to_standard"] = base::median(gains);
  json["planned_to_standard_noise"] = noise_of_median(gains);
  json["ratio_to_prediction_of_rounds"] = planned.ratios();
  json["planned_to_standard_of_rounds"] = gains;
  return json;
}

std::string to_text(const PlanCase& tried, const Trial& trial) {
  char line[200];
  std::string text = tried.model + ", link: " + name_of(tried);
  if (trial.link) {
    std::snprintf(line, sizeof line, " (%.4g GB/s, %.4g ms a collective)",
                  trial.link->bytes_per_second / 1e9, 1e3 * trial.link->latency_seconds);
    text += line;
  }
  text += "\n" + trial.plan.why + "\npredicted " +
          topology::plan::gantt_text(*trial.plan.timeline) +
          "cut         buckets  predicted, ms  measured, ms  ratio\n";
  for (const Cut& cut : trial.cuts) {
    std::snprintf(line, sizeof line, "%-11s %7zu  %13.1f  %12.1f  %5.3f\n", cut.name.c_str(),
                  cut.buckets.size(), 1e3 * base::median(cut.predicted),
                  1e3 * base::median(cut.seconds), base::median(cut.ratios()));
    text += line;
  }
  std::snprintf(line, sizeof line,
                "measured / predicted %.3f ± %.3f; planned / 25 MB %.3f ± %.3f\n\n",
                base::median(trial.cuts[1].ratios()), noise_of_median(trial.cuts[1].ratios()),
                base::median(trial.gains()), noise_of_median(trial.gains()));
  return text + line;
}

}  // namespace

std::vector<std::string> plan_links() {
  std::vector<std::string> names;
  for (const LinkShape& shape : kLinks) names.emplace_back(shape.name);
  return names;
}

StepInputs measured_inputs(const contract::TensorTable& table, const StepMarks& marks) {
  const std::vector<Bucket> groups = step::buckets_as_announced(table);
  base::check(marks.ready.size() == groups.size(), "each group's ready time was measured");
  StepInputs inputs;
  inputs.forward_seconds = marks.forward;
  inputs.compute_seconds = marks.backward;
  inputs.tail_seconds = std::max(0.0, marks.step - marks.sums);
  double ready = 0;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    // Medians of different steps, so that one may cross another.
    ready = std::min(std::max(ready, marks.ready[group]), marks.backward);
    for (int i = groups[group].begin_tensor; i < groups[group].end_tensor; ++i) {
      const contract::TensorEntry& tensor = table.tensors[static_cast<std::size_t>(i)];
      inputs.tensors.push_back(
          {kElementBytes * tensor.offset, kElementBytes * (tensor.offset + tensor.size), ready});
    }
  }
  return inputs;
}

double noise_of_median(const std::vector<double>& values) {
  constexpr double kDeviation = 1.4826;  // of a normal distribution, by its median deviation
  constexpr double kOfMedian = 1.2533;   // deviation of the median by that of the mean: √(π/2)
  const double median = base::median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - median));
  return 2 * kOfMedian * kDeviation * base::median(std::move(distances)) /
         std::sqrt(static_cast<double>(values.size()));
}

PlanBench bench_plan(RankBench& bench, const contract::LengthTable& lengths,
                     const std::vector<PlanCase>& cases) {
  if (bench.group().ranks() == 1 || !bench.device().is_on_host()) {
    throw base::Error(base::Code::User,
                      "plans are tried on two or more ranks of the CPU, where the host sees when "
                      "gradients are ready; ask for --ranks 2");
  }
  Json json;
  json["benchmark"] = "plan";
  bench.describe(&json);
  PlanBench result;
  for (const PlanCase& tried : cases) {
    Trial trial = planned_trial(bench, lengths, tried);
    for (int round = 0; round < tried.rounds; ++round) run_round(round, &trial);
    json["cases"].push_back(to_json(tried, trial));
    result.text += to_text(tried, trial);
  }
  result.json = base::json_text(json, 2) + "\n";
  return result;
}

}  // namespace regatta::trainer::bench
