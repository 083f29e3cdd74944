// `regatta simulate`: what a run would take on machines that are described.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/input.h"
#include "orchestrator/cli/step_model_options.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/plan/step_model.h"
#include "orchestrator/simulate/described_run.h"
#include "orchestrator/simulate/mlperf_study.h"
#include "orchestrator/simulate/simulation_text.h"
#include "topology/plan/step_gantt.h"

namespace regatta::orchestrator::cli {
namespace {

using trainer::contract::LengthTable;
using trainer::contract::RunConfig;

enum class SimulateFormat { Table, SimulationJson };
enum class Gantt { None, Text, Svg };

struct SimulateOptions {
  std::string run_file;               // "-": stdin
  std::string cluster;                // what topology/sources/read_any.h knows
  std::vector<int> nodes = {1};       // numbers of nodes to compare
  std::string lengths;                // a table of lengths; empty: all as long as data.max_length
  std::vector<std::string> measured;  // logs of nccl-tests on such machines
  int samples_per_rank = 0;           // 0: the run's batch, whatever the number of ranks
  std::optional<double> samples_to_converge;  // else the run's steps
  double samples_deviation = 0;               // of that, over runs
  double mtbf_hours = 0;                      // of a node; 0: none fails
  double restart_seconds = 300;
  double checkpoint_seconds = 0;  // that training pauses for each
  int vocabulary = 0;             // 0: of the run file, or of its dataset
  plan::GivenFigures given;
  bool sharp = false;  // reductions in the network
  int steps = 200;     // that are simulated
  std::optional<std::uint64_t> seed;
  SimulateFormat format = SimulateFormat::Table;
  Gantt gantt = Gantt::None;
  std::string study;  // "mlperf"; empty: none
};

constexpr std::size_t kMostCounts = 64;  // of nodes to compare
constexpr int kMostBatch = 1 << 20;      // as in run files
constexpr double kSecondsOfHour = 3600;

[[noreturn]] void fail(const std::string& what) { throw base::Error(base::Code::User, what); }
[[noreturn]] void misuse(const std::string& what) { throw UsageError(what); }

LengthTable lengths_of(const SimulateOptions& options, const RunConfig& config) {
  if (!options.lengths.empty()) {
    return LengthTable::parse(read_input(options.lengths), options.lengths);
  }
  return plan::longest_lengths(config);
}

void check_options(const SimulateOptions& options) {
  if (options.run_file.empty() || options.cluster.empty()) {
    misuse("simulate needs a run file and --cluster, or --study mlperf");
  }
  if (options.run_file == "-" && options.cluster == "-") {
    misuse("run file and cluster cannot both be stdin; name a file");
  }
  if (options.nodes.empty() || options.nodes.size() > kMostCounts) {
    misuse("--nodes takes 1 to " + std::to_string(kMostCounts) + " numbers of nodes");
  }
  if (options.gantt != Gantt::None && options.format == SimulateFormat::SimulationJson) {
    misuse("--gantt draws a picture, which -o json does not have; leave one of them out");
  }
}

plan::StepModel model_of(const SimulateOptions& options, const RunConfig& config,
                         const plan::Machines& machines) {
  return plan::step_model(config, machines.gpu_model, machines.device, machines.nodes,
                          options.given);
}

RunConfig config_on(const RunConfig& file, const SimulateOptions& options, int ranks) {
  if (trainer::contract::grows(file)) {
    fail(
        "batch.growth: a simulated run has one batch size; leave it out, and simulate each "
        "batch.size by itself");
  }
  if (options.samples_per_rank > kMostBatch / ranks) {
    fail("a batch of " + std::to_string(options.samples_per_rank) + " samples on each of " +
         std::to_string(ranks) + " ranks is above " + std::to_string(kMostBatch) +
         "; lower --samples-per-rank");
  }
  const int batch =
      options.samples_per_rank == 0 ? file.batch_size : options.samples_per_rank * ranks;
  return simulate::with_ranks_and_batch(file, ranks, batch);
}

simulate::RunForecast forecast(const SimulateOptions& options, const RunConfig& file,
                               const RunConfig& config, const simulate::Simulation& simulation,
                               int nodes) {
  simulate::RunForecastInputs inputs;
  inputs.step_seconds = simulation.mean.step;
  inputs.batch = config.batch_size;
  inputs.samples =
      options.samples_to_converge.value_or(static_cast<double>(file.steps) * file.batch_size);
  inputs.samples_deviation = options.samples_deviation;
  inputs.evaluate_every = config.evaluate_every;
  inputs.evaluation_seconds = simulation.evaluation_seconds;
  inputs.checkpoint_every = config.checkpoint_every;
  inputs.checkpoint_seconds = options.checkpoint_seconds;
  if (options.mtbf_hours > 0) {
    inputs.failures_per_second = nodes / (options.mtbf_hours * kSecondsOfHour);
  }
  inputs.restart_seconds = options.restart_seconds;
  inputs.seed = config.seed;
  return simulate::forecast_run(inputs);
}

simulate::SimulatedRun run_on(const plan::Machines& machines, const SimulateOptions& options,
                              const RunConfig& file, const LengthTable& lengths,
                              const std::vector<topology::nccl::NcclTestLog>& logs) {
  const RunConfig config = config_on(file, options, machines.ranks());
  const plan::StepModel model = model_of(options, config, machines);
  const simulate::SimulationInputs inputs = simulate::simulation_inputs(
      {config, machines, lengths, logs, options.sharp}, model, options.steps);
  simulate::SimulatedRun run;
  run.nodes = machines.nodes;
  run.is_measured = inputs.network.measured;
  run.simulation = simulate::simulate_steps(inputs);
  if (!model.share.fitted) {
    const auto samples_with = [&](double efficiency) {
      simulate::SimulationInputs other = inputs;
      other.compute.efficiency = efficiency;
      return simulate::simulate_steps(other).samples_per_second;
    };
    run.samples_range =
        simulate::SamplesRange{samples_with(model.share.low), samples_with(model.share.high)};
  }
  run.forecast = forecast(options, file, config, run.simulation, machines.nodes);
  return run;
}

std::string title(const RunConfig& config, const plan::Machines& machines) {
  const trainer::contract::ModelShape& model = config.model;
  return config.name + ": BERT " + std::to_string(model.layers) + " x " +
         std::to_string(model.hidden) + " on nodes of " + std::to_string(machines.ranks_per_node) +
         " " + machines.gpu_model;
}

std::vector<std::string> notes(const SimulateOptions& options, const RunConfig& config,
                               const LengthTable& lengths,
                               const std::vector<simulate::SimulatedRun>& runs) {
  const simulate::SimulatedRun& last = runs.back();
  std::vector<std::string> notes = plan::step_basis(
      config, options.given,
      options.lengths.empty() ? std::nullopt : std::optional<LengthTable>(lengths));
  std::vector<std::string> measured;
  for (const simulate::SimulatedRun& run : runs) {
    if (run.is_measured) measured.push_back(std::to_string(run.nodes));
  }
  notes.push_back(measured.empty()
                      ? "the times of collectives are modelled (NCCL's cost model), not "
                        "measured on these machines; give a log with --measured"
                      : "the times of collectives were measured on " + base::join(measured, ", ") +
                            " nodes, and are modelled (NCCL's cost model) on others");
  if (last.simulation.stages) {
    notes.push_back(
        "what travels between stages takes as long as NCCL's model has a broadcast between two "
        "ranks, since it has no send; stages have not been tried on GPUs yet");
  }
  if (config.evaluate_samples == 0) {
    notes.push_back(
        "evaluations are assumed to take no time, as nobody knows how many samples they have; set "
        "evaluate.samples, or name a dataset of a task");
  }
  if (options.checkpoint_seconds == 0) {
    notes.push_back("checkpoints are assumed to take no time; set --checkpoint-seconds");
  }
  if (options.mtbf_hours == 0) {
    notes.push_back("no node is assumed to fail; set --mtbf-hours");
  } else if (options.checkpoint_seconds > 0) {
    const double best = simulate::best_checkpoint_interval(
        options.checkpoint_seconds, last.nodes / (options.mtbf_hours * kSecondsOfHour));
    notes.push_back("on " + std::to_string(last.nodes) + " nodes a checkpoint every " +
                    base::human_seconds(best) + ", " +
                    std::to_string(std::max(1LL, std::llround(best / last.simulation.mean.step))) +
                    " steps, would lose the least time");
  }
  if (!options.samples_to_converge) {
    notes.push_back(
        "the target is assumed to be reached after the run's steps; set "
        "--samples-to-converge");
  }
  notes.push_back("buckets of the last row: " + last.simulation.plan.why);
  return notes;
}

int print_simulation(const SimulateOptions& options) {
  if (!options.study.empty()) {
    const simulate::MlperfStudy study = simulate::study_mlperf(simulate::mlperf_rows());
    std::cout << (options.format == SimulateFormat::SimulationJson ? simulate::mlperf_json(study)
                                                                   : simulate::mlperf_text(study))
              << std::flush;
    return 0;
  }
  check_options(options);
  const std::string source = input_name(options.run_file);
  RunConfig file = trainer::contract::parse_run_config(read_input(options.run_file), source);
  const auto dataset = plan::take_dataset(options.run_file, options.vocabulary, &file);
  if (file.evaluate_samples == 0 && dataset) {  // all that there are
    file.evaluate_samples = static_cast<int>(
        std::min<std::int64_t>(dataset->evaluation_samples, std::numeric_limits<int>::max()));
  }
  if (options.seed) file.seed = *options.seed;
  const plan::Cluster cluster =
      plan::Cluster::read(read_input(options.cluster), input_name(options.cluster));
  const LengthTable lengths = lengths_of(options, file);
  std::vector<topology::nccl::NcclTestLog> logs;
  for (const std::string& log : options.measured) {
    logs.push_back(topology::nccl::parse_nccl_tests_log(read_input(log), log));
  }
  simulate::SimulationReport report;
  for (const int nodes : options.nodes) {
    const plan::Machines machines = cluster.machines(nodes, file.ranks_per_node);
    report.title = title(file, machines);
    const plan::StepModel model = model_of(options, file, machines);
    report.share = model.share;
    report.peak_flops = model.compute.peak_flops;
    report.runs.push_back(run_on(machines, options, file, lengths, logs));
  }
  const bool is_measured =
      std::any_of(report.runs.begin(), report.runs.end(),
                  [](const simulate::SimulatedRun& run) { return run.is_measured; });
  if (!options.measured.empty() && !is_measured) {
    fail(
        "no log of --measured has the run's collective on one of these numbers of nodes; give "
        "--nodes that were measured, or leave --measured out");
  }
  const simulate::SimulatedRun& last = report.runs.back();
  report.notes = notes(options, file, lengths, report.runs);
  if (options.gantt == Gantt::Svg) {
    std::cout << topology::plan::gantt_svg(last.simulation.timeline);
  } else if (options.format == SimulateFormat::SimulationJson) {
    std::cout << simulate::simulation_json(report);
  } else {
    std::cout << simulate::simulation_text(report);
    if (options.gantt == Gantt::Text) {
      std::cout << "\n"
                << last.nodes << " nodes: " << topology::plan::gantt_text(last.simulation.timeline);
    }
  }
  std::cout << std::flush;
  return 0;
}

class Simulate : public Command {
 public:
  Simulate()
      : Command({"simulate",
                 Group::Plans,
                 "predict how long a run would take on described machines",
                 {"simulate run.yaml --cluster cluster.yaml --nodes 1,2,4",
                  "simulate run.yaml --cluster cluster.yaml --mtbf-hours 1000 "
                  "--checkpoint-seconds 2",
                  "simulate --study mlperf"}}) {}

  void add_options(OptionList& options) override {
    add_machines(options);
    add_model(options);
    add_failures(options);
    options.choose("--gantt", &options_.gantt, {{"text", Gantt::Text}, {"svg", Gantt::Svg}},
                   "text: also draw a step of the last number of nodes; svg: print only its "
                   "picture");
    options.choose("--study", &options_.study, {{"mlperf", std::string("mlperf")}},
                   "mlperf: published results beside predictions");
    options.choose("-o,--output", &options_.format,
                   {{"table", SimulateFormat::Table}, {"json", SimulateFormat::SimulationJson}},
                   "for people or for programs");
  }
  int run() override { return print_simulation(options_); }

 private:
  void add_machines(OptionList& options) {
    options.add("run-file", ValueKind::RunFile, &options_.run_file,
                "the run file, YAML or JSON; - for stdin");
    options.add("--cluster", ValueKind::File, &options_.cluster,
                "a cluster description, or another file that `regatta topo` reads; - for stdin");
    options.add("--nodes", &options_.nodes, "numbers of nodes to compare: 1,2,4");
    options.add("--measured", ValueKind::File, &options_.measured,
                "a log of nccl-tests, used for the numbers of nodes that it fits; repeatable");
    options.add("--sharp", &options_.sharp, "assume in-network reduction (SHARP)");
  }
  void add_model(OptionList& options) {
    add_lengths(options, &options_.lengths);
    add_vocabulary(options, &options_.vocabulary);
    options
        .add("--samples-per-rank", &options_.samples_per_rank,
             "batch per rank, so that the batch grows with the ranks (0: the run file's batch)")
        .range = {0, 1 << 20};
    add_given_figures(options, &options_.given);
    options.add("--steps", &options_.steps, "number of simulated steps").range = {1, 1'000'000};
    options.add("--seed", &options_.seed, "random seed (default: the run's)");
  }
  void add_failures(OptionList& options) {
    constexpr double kMost = 1e12;
    options
        .add("--samples-to-converge", &options_.samples_to_converge,
             "samples until the target is reached (default: those of the run's steps)")
        .range = {1, kMost};
    options
        .add("--samples-deviation", &options_.samples_deviation,
             "standard deviation of --samples-to-converge from run to run")
        .range = {0, kMost};
    options
        .add("--mtbf-hours", &options_.mtbf_hours,
             "mean hours between failures of one node (0: none fails)")
        .range = {0, kMost};
    options
        .add("--restart-seconds", &options_.restart_seconds,
             "seconds from a failure until training continues")
        .range = {0, kMost};
    options
        .add("--checkpoint-seconds", &options_.checkpoint_seconds,
             "seconds training pauses per checkpoint")
        .range = {0, kMost};
  }

  SimulateOptions options_;
};

}  // namespace

std::unique_ptr<Command> simulate_command(const Program& /*program*/) {
  return std::make_unique<Simulate>();
}

}  // namespace regatta::orchestrator::cli
