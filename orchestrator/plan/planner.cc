#include "orchestrator/plan/planner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/plan/cluster_machines.h"
#include "orchestrator/plan/layouts.h"
#include "orchestrator/plan/plan_decisions.h"
#include "orchestrator/plan/plan_seats.h"
#include "topology/nccl/allocation.h"
#include "topology/plan/bucket_choice.h"
#include "topology/plan/tuning.h"

namespace regatta::orchestrator::plan {
namespace {

using topology::graph::Graph;
using topology::graph::Kind;
using topology::graph::VertexIndex;
using topology::nccl::CalibratedModel;
using topology::nccl::Collective;
using topology::nccl::CommunicationCurve;
using trainer::contract::RunConfig;

// How wrong a curve may be that was measured on these machines: what is left of the error by the
// public logs, half of each predicting the other (tests/topology/nccl/measured_curve_test.cc).
constexpr double kMeasuredError = 0.1;
constexpr int kMostRanks = 1 << 16;
constexpr int kMostChannels = 64;

[[noreturn]] void fail(const std::string& message) { throw base::Error(base::Code::User, message); }

class Planner {
 public:
  explicit Planner(const PlanRequest& request)
      : request_(request),
        config_(request.config),
        figures_(request.figures),
        lengths_(longest_lengths(request.config)) {
    figures_.efficiency = request.given.efficiency.value_or(kUsualEfficiency);
    figures_.overhead_seconds = request.given.overhead_seconds.value_or(figures_.overhead_seconds);
  }

  // A layout that is only compared with another one's asks for no comparison of its own.
  Planner(const PlanRequest& request, bool compares) : Planner(request) { compares_ = compares; }

  PlanReport plan() {
    if (config_.ranks < 1 || config_.ranks > kMostRanks) {
      fail("cannot plan " + std::to_string(config_.ranks) + " ranks; use 1 to " +
           std::to_string(kMostRanks));
    }
    if (const auto refusal = trainer::contract::refuse_parallel(config_); has_stages() && refusal) {
      fail("cannot plan the run: " + refusal->key + " " + refusal->message);
    }
    take_lengths();
    const bool has_machines = !request_.machines.of_kind(Kind::Gpu).empty();
    if (has_stages() && !has_machines) {
      fail(
          "a run with pipeline stages is planned by a model of its machines, and none are known; "
          "give a cluster (--cluster)");
    }
    if (has_machines) survey();
    if (!figures_.slowdown) figures_.slowdown = kSlowdown;
    const topology::plan::StepInputs inputs = plan_inputs(config_, figures_);
    report_.inputs = inputs;
    report_.overhead_seconds = figures_.overhead_seconds;
    if (config_.ranks == 1) {
      report_.plan = topology::plan::default_plan(static_cast<int>(inputs.tensors.size()));
      report_.plan.timeline =
          topology::plan::run_step(inputs, report_.plan.buckets, CommunicationCurve({{1, 0}}));
      return std::move(report_);
    }
    if (has_stages()) {
      plan_stages();
    } else if (has_machines) {
      plan_by_model(inputs);
    } else {
      plan_by_measurement(inputs);
    }
    return std::move(report_);
  }

 private:
  // Padding costs nothing here, so the mean counts.
  void take_lengths() {
    if (request_.lengths) lengths_ = *request_.lengths;
    if (!request_.lengths || figures_.mean_tokens > 0) return;
    constexpr int kPoints = 1000;
    double sum = 0, squares = 0;
    for (int i = 0; i < kPoints; ++i) {
      const auto length = static_cast<double>(std::min<std::int64_t>(
          request_.lengths->quantile((i + 0.5) / kPoints), config_.data.max_length));
      sum += length;
      squares += length * length;
    }
    figures_.mean_tokens = sum / kPoints;
    figures_.mean_squared_tokens = squares / kPoints;
  }

  // Which machines, and how fast one of their GPUs is.
  void survey() {
    choice_ = choose_nodes(request_.machines, config_);
    topology_ = topology::graph::fingerprint(request_.machines, choice_.nodes);
    const VertexIndex gpu = request_.machines.below(choice_.nodes.front(), Kind::Gpu).front();
    const std::string model = topology::graph::text_of(
        request_.machines, request_.machines.vertex(gpu).facts, topology::graph::key::kModel);
    const DeviceFigures* const device = device_ = device_figures(model);
    take_model(
        step_model(config_, model, device, static_cast<int>(choice_.nodes.size()), request_.given));
    report_.machines = base::plural(config_.ranks, "rank") + " on " +
                       base::plural(choice_.nodes.size(), "node") + " of " +
                       std::to_string(choice_.ranks_per_node) + " " +
                       (model.empty() ? "GPUs" : base::printable(model));
    if (config_.ranks == 1) return;
    allocation_ =
        topology::nccl::allocation_of(request_.machines, choice_.nodes, choice_.ranks_per_node);
    model_.emplace(topology::nccl::CostModel(allocation_));
    for (const MeasuredLog& measured : request_.measured) {
      if (measured.log.collective && !measured.way) logs_.push_back(measured.log);
      if (!has_stages()) take(measured);
    }
    if (figures_.slowdown) return;
    figures_.slowdown = slowdown_of(
        model_->model(),
        config_.sharding.optimizer ? Collective::ReduceScatter : Collective::AllReduce, device);
  }

  // The same step that `regatta simulate` reckons with.
  void take_model(const StepModel& model) {
    ComputeFigures compute = model.compute;
    if (figures_.peak_flops > 0) compute.peak_flops = figures_.peak_flops;
    if (figures_.memory_bytes_per_second > 0) {
      compute.memory_bytes_per_second = figures_.memory_bytes_per_second;
    }
    figures_.peak_flops = compute.peak_flops;
    figures_.memory_bytes_per_second = compute.memory_bytes_per_second;
    figures_.efficiency = compute.efficiency;
    figures_.overhead_seconds = model.overhead_seconds;
    compute_ = compute;
    trainer::contract::BatchSizes sizes = mean_sizes(config_, figures_);
    const double slowest = slowest_rank();
    for (std::int64_t* count :
         {&sizes.samples, &sizes.tokens, &sizes.squared_tokens, &sizes.masked}) {
      *count = std::llround(static_cast<double>(*count) * slowest);
    }
    const ComputeSeconds seconds =
        compute_seconds(config_.model, sizes, compute, config_.micro_batch_size);
    figures_.compute_seconds = seconds.forward + seconds.backward;
    if (config_.buckets.by != trainer::contract::BucketPolicy::Plan) {
      report_.notes.emplace_back(
          "the trainer cuts gradient buckets as the run file says (buckets.by); with 'buckets: "
          "{by: "
          "plan}' it cuts them as planned here");
    }
    report_.basis = step_basis(config_, request_.given, request_.lengths);
    report_.basis.insert(report_.basis.begin(),
                         (model.share.fitted ? "" : "NOT FITTED: ") + share_sentence(model.share));
  }

  // Its share of the mean, as the run file balances: the slowest rank decides a step.
  [[nodiscard]] double slowest_rank() const {
    if (config_.ranks == 1 || config_.batch_size < config_.ranks) return 1;
    return imbalance_of(config_, config_.balance.strategy, choice_.ranks_per_node, lengths_);
  }

  void plan_by_model(const topology::plan::StepInputs& inputs) {
    if (config_.device == trainer::contract::DeviceKind::Cpu) {
      report_.notes.emplace_back(
          "the run is for the CPU, and the plan for GPUs: set device to cuda or auto");
    }
    const CalibratedModel& model = *model_;
    const double bytes = bytes_of(inputs);
    topology::plan::TuneOptions tuning;
    tuning.most_bytes = static_cast<std::uint64_t>(bytes);
    const topology::plan::TunerTable tuner = topology::plan::tune(model, tuning);
    const DecisionInputs decisions{config_,
                                   figures_,
                                   choice_.ranks_per_node,
                                   curve_of(model, Collective::AllReduce, bytes, tuner),
                                   curve_of(model, Collective::ReduceScatter, bytes, tuner),
                                   curve_of(model, Collective::AllGather, bytes, tuner),
                                   allocation_,
                                   request_.lengths};
    choose(inputs, decisions);
    compare(report_.plan.timeline->step_seconds);
    report_.plan.tuner = tuner;
    report_.example_csv =
        topology::plan::to_example_csv(topology::plan::with_own_choices(tuner, model.model()));
    place();
  }

  void place() {
    report_.plan.topology = topology_;
    report_.plan.seats = seats_of(request_.machines, choice_.nodes, choice_.ranks_per_node);
    report_.plan.placement = placement_of(request_.machines, choice_.nodes);
  }

  [[nodiscard]] bool has_stages() const { return config_.parallel.pipeline > 1; }

  [[nodiscard]] LayoutInputs layout_inputs() const {
    return {config_, lengths_, compute_, figures_.overhead_seconds, allocation_, device_, logs_};
  }

  // Layouts side by side. data_parallel: the step of a run without stages; nothing: there is none.
  void compare(std::optional<double> data_parallel) {
    if (!compares_) return;
    const Layouts layouts = compare_layouts(layout_inputs(), data_parallel);
    for (topology::plan::PlanDecision& decision : decide_layout(config_, layouts)) {
      report_.plan.decisions.push_back(std::move(decision));
    }
    settle_layout(&report_.plan.decisions);
    report_.notes.insert(report_.notes.end(), layouts.left_out.begin(), layouts.left_out.end());
  }

  // Each stage has its own cut, and NCCL chooses: its tuner is for communicators of all ranks.
  void plan_stages() {
    const LayoutInputs inputs = layout_inputs();
    const PipelineModel model = pipeline_model(inputs);
    const RankLayout layout = layout_of(inputs, model);
    topology::plan::Plan& plan = report_.plan;
    plan.ranks = config_.ranks;
    plan.buckets = model.buckets();
    plan.why = "each stage has its own cut; of the first: " + model.buckets_why();
    plan.measured = model.inputs().network.sums.measured;
    plan.timeline = model.mean_timeline();
    stretch_to(layout.step_seconds, &*plan.timeline);
    report_.stages = stages_text(model.inputs().stages, layout);
    report_.basis.emplace_back(
        "what travels between stages takes as long as NCCL's model has a broadcast between two "
        "ranks, since it has no send");
    for (const MeasuredLog& measured : request_.measured) {
      if (plan.measured) break;
      leave_out(measured, "it is not of sums among the " + base::plural(layout.data, "replica") +
                              " of a stage");
    }
    place();
    compare(data_parallel_seconds());
  }

  // Drawn micro-batches are uneven, so their steps are longer than the one of mean samples.
  static void stretch_to(double step_seconds, topology::plan::StepTimeline* timeline) {
    const double before = timeline->step_seconds - timeline->tail_seconds;
    const double times = before > 0 ? (step_seconds - timeline->tail_seconds) / before : 1;
    for (double* const each : {&timeline->forward_seconds, &timeline->compute_seconds,
                               &timeline->exposed_seconds, &timeline->communication_seconds}) {
      *each *= times;
    }
    for (topology::plan::BucketSpan& span : timeline->buckets) {
      for (double* const each : {&span.ready_seconds, &span.start_seconds, &span.end_seconds}) {
        *each *= times;
      }
    }
    timeline->step_seconds = step_seconds;
  }

  // What the same run would take without stages; nothing where it can not be.
  std::optional<double> data_parallel_seconds() const {
    if (!compares_ || config_.batch_size < config_.ranks) return std::nullopt;
    PlanRequest request = request_;
    request.config.parallel = {};
    return Planner(request, false).plan().plan.timeline->step_seconds;
  }

  // Without a model of the machines there is only what was measured, for as many ranks.
  void plan_by_measurement(const topology::plan::StepInputs& inputs) {
    std::map<Collective, CommunicationCurve> curves;
    for (const MeasuredLog& measured : request_.measured) {
      const topology::nccl::NcclTestLog& log = measured.log;
      if (!log.collective || measured.way) {
        leave_out(measured, "no known collective, or NCCL's algorithm was forced");
      } else if (log.ranks != config_.ranks) {
        leave_out(measured, "it was measured on " + base::plural(log.ranks, "rank"));
      } else {
        curves.insert_or_assign(*log.collective, measured_curve(log));
        measured_ = true;
      }
    }
    const auto sum = curves.find(Collective::AllReduce);
    if (sum == curves.end()) {
      fail(
          "nothing is known of the machines; give a cluster (--cluster), or an all-reduce "
          "measured on " +
          base::plural(config_.ranks, "rank") + " (--measured)");
    }
    report_.machines = base::plural(config_.ranks, "rank") + ", as measured";
    const auto part = [&](Collective collective) {
      const auto found = curves.find(collective);
      // An all-reduce is both parts, one after the other.
      return found != curves.end() ? found->second : sum->second.scaled(0.5, 0.5);
    };
    const int per_node = config_.ranks_per_node > 0 ? config_.ranks_per_node : config_.ranks;
    choose(inputs, {config_, figures_, per_node, sum->second, part(Collective::ReduceScatter),
                    part(Collective::AllGather), std::nullopt, request_.lengths});
  }

  void choose(const topology::plan::StepInputs& inputs, const DecisionInputs& decisions) {
    topology::plan::ChoiceOptions options;
    if (measured_) options.curve_error = kMeasuredError;
    report_.plan = topology::plan::plan_buckets(
        inputs, config_.sharding.optimizer ? decisions.reduce_scatter : decisions.all_reduce,
        config_.ranks, options);
    report_.plan.measured = measured_;
    take_stored(inputs,
                config_.sharding.optimizer ? decisions.reduce_scatter : decisions.all_reduce);
    report_.plan.decisions = decide(decisions, report_.plan);
  }

  // What the first steps of an earlier run found counts more than any prediction.
  void take_stored(const topology::plan::StepInputs& inputs, const CommunicationCurve& curve) {
    const std::string model = trainer::contract::model_fingerprint(config_.model);
    const topology::plan::StoredPlan* best = nullptr;
    // What was found on such machines, before what was found nobody knows where; then the newest.
    const auto rank = [&](const topology::plan::StoredPlan& stored) {
      return std::pair(stored.key.topology == topology_, stored.utc_seconds);
    };
    for (const topology::plan::StoredPlan& stored : request_.stored) {
      const bool is_gpu = stored.key.communicator.rfind("NCCL", 0) == 0;
      const bool fits =
          stored.key.model == model && stored.key.ranks == config_.ranks &&
          (stored.key.topology.empty() || topology_.empty() || stored.key.topology == topology_) &&
          (choice_.ranks_per_node == 0 || stored.key.ranks_per_node == choice_.ranks_per_node) &&
          is_gpu == (config_.device != trainer::contract::DeviceKind::Cpu) &&
          stored.plan.buckets.back().end_tensor == static_cast<int>(inputs.tensors.size());
      if (fits && (best == nullptr || rank(stored) > rank(*best))) best = &stored;
    }
    if (best == nullptr) return;
    topology::plan::Plan& plan = report_.plan;
    plan.buckets = best->plan.buckets;
    plan.measured = true;
    plan.cut.clear();
    plan.why =
        "an earlier run tried it on " + base::printable(best->key.device) + ": " + best->plan.why;
    plan.timeline = topology::plan::run_step(inputs, plan.buckets, curve);
    for (const topology::plan::Alternative& tried : best->plan.alternatives) {
      plan.alternatives.push_back(tried);
      plan.alternatives.back().name += ", tried";
      if (tried.name == best->plan.cut) plan.cut = plan.alternatives.back().name;
    }
  }

  void take(const MeasuredLog& measured) {
    if (!measured.log.collective) {
      leave_out(measured, "not a collective that NCCL tunes");
    } else if (const auto why = topology::nccl::misfit(model_->model(), measured.log)) {
      leave_out(measured, *why);
    } else {
      topology::nccl::CurveKey key;
      key.collective = *measured.log.collective;
      key.way = measured.way;
      const bool is_first =
          taken_.emplace(key.collective, key.way ? name_of_way(*key.way) : "").second;
      if (!is_first) {
        report_.notes.push_back(measured.name + " takes the place of an earlier log of the same");
      }
      model_->add(topology::nccl::MeasuredCurve::fit(model_->model(), key,
                                                     topology::nccl::samples_of(measured.log)));
      measured_ = measured_ || (key.collective == Collective::AllReduce && !key.way);
    }
  }

  static std::string name_of_way(const topology::nccl::Way& way) {
    return std::string(topology::nccl::name_of(way.algorithm)) + "/" +
           topology::nccl::name_of(way.protocol) + "/" + std::to_string(way.channels);
  }

  void leave_out(const MeasuredLog& measured, const std::string& why) {
    report_.notes.push_back(measured.name + " was left out: " + why);
  }

  static CommunicationCurve measured_curve(const topology::nccl::NcclTestLog& log) {
    std::vector<CommunicationCurve::Point> points;
    for (const topology::nccl::Sample& sample : topology::nccl::samples_of(log)) {
      points.push_back({static_cast<double>(sample.bytes), 1e-6 * sample.us});
    }
    return CommunicationCurve::measured(std::move(points));
  }

  static double bytes_of(const topology::plan::StepInputs& inputs) {
    return static_cast<double>(inputs.tensors.back().end_byte - inputs.tensors.front().begin_byte);
  }

  const PlanRequest& request_;
  const RunConfig& config_;
  PlanFigures figures_;
  trainer::contract::LengthTable lengths_;  // the request's, else all of data.max_length
  bool compares_ = true;                    // layouts
  ComputeFigures compute_;                  // of machines
  const DeviceFigures* device_ = nullptr;
  std::vector<topology::nccl::NcclTestLog> logs_;  // of NCCL's own choices
  NodeChoice choice_;
  topology::nccl::Allocation allocation_;
  std::optional<CalibratedModel> model_;  // of machines, for several ranks
  std::string topology_;                  // fingerprint of the chosen nodes; empty: not known
  bool measured_ = false;
  std::set<std::pair<Collective, std::string>> taken_;  // collectives and ways of logs
  PlanReport report_;
};

}  // namespace

MeasuredName parse_measured(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::vector<std::string> words = base::split(text.substr(0, equals), '/');
  if (equals == std::string::npos || words.size() < 2 || words.size() > 3) return {text, {}};
  const auto find = [&](const std::string& word, auto first, int count) {
    for (int i = 0; i < count; ++i) {
      const auto each = static_cast<decltype(first)>(i);
      if (word == name_of(each)) return each;
    }
    fail("'" + base::printable(text.substr(0, equals)) +
         "' is not an NCCL algorithm and protocol; use one such as Ring/Simple, Tree/LL, "
         "NVLS/Simple");
  };
  topology::nccl::Way way;
  way.algorithm = find(words[0], topology::nccl::Algorithm::Tree, topology::nccl::kAlgorithms);
  way.protocol = find(words[1], topology::nccl::Protocol::Ll, topology::nccl::kProtocols);
  if (words.size() == 3) {
    const auto channels = base::parse_integer(words[2]);
    if (!channels || *channels < 1 || *channels > kMostChannels) {
      fail("'" + base::printable(words[2]) + "' channels; use 1 to " +
           std::to_string(kMostChannels));
    }
    way.channels = static_cast<int>(*channels);
  }
  return {text.substr(equals + 1), way};
}

CommunicationCurve curve_of(const CalibratedModel& model, Collective collective, double most_bytes,
                            const topology::plan::TunerTable& tuner) {
  return CommunicationCurve::sampled(
      [&](double size) {
        const auto bytes = static_cast<std::uint64_t>(std::llround(size));
        topology::nccl::CurveKey key;
        key.collective = collective;
        for (const topology::plan::TunedRange& range : tuner.ranges) {
          if (range.collective == collective && bytes >= range.from_bytes &&
              bytes < range.to_bytes) {
            key.way = range.way;
          }
        }
        return 1e-6 * model.predict(key, bytes).us;
      },
      most_bytes);
}

NodeChoice choose_nodes(const Graph& machines, const RunConfig& config) {
  std::vector<VertexIndex> nodes;
  for (const VertexIndex node : machines.of_kind(Kind::Node)) {
    if (!machines.below(node, Kind::Gpu).empty()) nodes.push_back(node);
  }
  std::sort(nodes.begin(), nodes.end(), [&](VertexIndex a, VertexIndex b) {
    return machines.vertex(a).id < machines.vertex(b).id;
  });
  if (nodes.empty()) fail("none of the machines has a GPU");
  NodeChoice choice;
  const auto gpus = static_cast<int>(machines.below(nodes.front(), Kind::Gpu).size());
  choice.ranks_per_node =
      config.ranks_per_node > 0 ? config.ranks_per_node : std::min(gpus, config.ranks);
  if (config.ranks % choice.ranks_per_node != 0) {
    fail(std::to_string(config.ranks) + " ranks do not fill nodes of " +
         std::to_string(choice.ranks_per_node) + "; set ranks_per_node of the run");
  }
  const auto wanted = static_cast<std::size_t>(config.ranks / choice.ranks_per_node);
  for (const VertexIndex node : nodes) {
    if (choice.nodes.size() == wanted) break;
    const auto own = static_cast<int>(machines.below(node, Kind::Gpu).size());
    if (own >= choice.ranks_per_node) choice.nodes.push_back(node);
  }
  if (choice.nodes.size() < wanted) {
    fail("the run needs " + base::plural(wanted, "node") + " with " +
         base::plural(choice.ranks_per_node, "GPU") + ", and there are " +
         std::to_string(choice.nodes.size()) +
         "; name more machines, or say how many with --nodes");
  }
  return choice;
}

PlanReport plan_run(const PlanRequest& request) { return Planner(request).plan(); }

}  // namespace regatta::orchestrator::plan
