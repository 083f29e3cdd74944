// `regatta advise`: how many ranks and what batch would reach a run's target soonest, or cheapest.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/advise/advice_text.h"
#include "orchestrator/cli/advise_run.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/experiment_runs.h"
#include "orchestrator/cli/input.h"
#include "orchestrator/cli/interrupt.h"
#include "orchestrator/cli/run_file_paths.h"
#include "orchestrator/cli/step_model_options.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/simulate/described_run.h"
#include "orchestrator/text/terminal.h"

namespace regatta::orchestrator::cli {
namespace {

using advise::Candidate;
using trainer::contract::LengthTable;
using trainer::contract::RunConfig;

enum class AdviceFormat { Plain, Data, Rows, Markdown, Picture };

struct AdviseOptions {
  std::string run_file;  // "-": stdin
  std::string cluster;   // what topology/sources/read_any.h knows
  std::string nodes;     // to describe; empty: kUsualNodes
  std::string ranks;     // to probe; empty: the run file's
  std::string batches;   // empty: about the run file's
  std::string run;       // an earlier one, at the controller
  std::optional<double> noise, noise_low, noise_high;
  std::optional<double> samples;  // to the target, with the run file's batch
  std::string lengths;
  std::vector<std::string> measured;  // logs of nccl-tests on such machines
  int vocabulary = 0;
  plan::GivenFigures given;
  bool sharp = false;
  bool probe = false;
  int probe_steps = 0;  // 0: kUsualProbeSteps
  std::string id;       // of the probe
  advise::Objective objective = advise::Objective::TimeToAccuracy;
  AdviceFormat format = AdviceFormat::Plain;
};

constexpr const char* kUsualNodes = "1..16";
constexpr int kUsualProbeSteps = 30;
constexpr int kSimulatedSteps = 50;
constexpr int kMostBatch = 1 << 20;      // as in run files
constexpr std::size_t kMostCounts = 64;  // of nodes, ranks or batches
constexpr int kLeastProbeSteps = 24;     // ten looks at the noise, and as many other steps
constexpr int kMostProbeSteps = 100'000;
constexpr int kIdBytes = 3;

[[noreturn]] void misuse(const std::string& what) { throw UsageError(what); }

// "1,2,4", "1..64" (doubled from one to the other, and that too), or both.
std::vector<int> counts_of(const std::string& text, const char* option, int most) {
  std::set<int> counts;
  const auto number = [&](const std::string& part) {
    const auto value = base::parse_integer(part);
    if (!value || *value < 1 || *value > most) {
      misuse(std::string(option) + " is '" + base::printable(text) + "'; use numbers from 1 to " +
             std::to_string(most) + " as 1,2,4 or 1..64");
    }
    return static_cast<int>(*value);
  };
  for (const std::string& part : base::split(text, ',')) {
    const std::size_t dots = part.find("..");
    const int first = number(part.substr(0, dots));
    const int last = dots == std::string::npos ? first : number(part.substr(dots + 2));
    if (last < first)
      misuse(std::string(option) + " counts down in '" + base::printable(part) + "'");
    for (std::int64_t count = first; count < last; count *= 2)
      counts.insert(static_cast<int>(count));
    counts.insert(last);
  }
  if (counts.size() > kMostCounts) {
    misuse(std::string(option) + " takes at most " + std::to_string(kMostCounts) + " numbers");
  }
  return {counts.begin(), counts.end()};
}

std::vector<int> batches_of(const AdviseOptions& options, const RunConfig& file) {
  if (!options.batches.empty()) return counts_of(options.batches, "--batches", kMostBatch);
  std::vector<int> batches;
  constexpr int kSmallest = -2, kLargest = 4;  // powers of two about the run file's
  for (int power = kSmallest; power <= kLargest; ++power) {
    const std::int64_t batch =
        power < 0 ? file.batch_size >> -power : static_cast<std::int64_t>(file.batch_size) << power;
    if (batch >= 1 && batch <= kMostBatch) batches.push_back(static_cast<int>(batch));
  }
  return batches;
}

void check_options(const AdviseOptions& options) {
  if (options.cluster.empty() == !options.probe) {
    misuse(options.probe ? "--probe measures the machines of the controller, --cluster describes "
                           "others; give one of them"
                         : "advise needs machines: --cluster FILE, or --probe for those of the "
                           "controller");
  }
  if (options.run_file == "-" && options.cluster == "-") {
    misuse("run file and cluster cannot both be stdin; name a file");
  }
  const bool describes = !options.nodes.empty() || !options.measured.empty() || options.sharp ||
                         !options.lengths.empty() || options.vocabulary > 0 ||
                         options.given.efficiency || options.given.overhead_seconds;
  if (options.probe && describes) {
    misuse(
        "--nodes, --measured, --sharp, --lengths, --vocabulary, --efficiency and "
        "--overhead-seconds are of --cluster; --probe measures");
  }
  if (!options.probe &&
      (!options.ranks.empty() || !options.id.empty() || options.probe_steps > 0)) {
    misuse("--ranks, --probe-steps and --id are of --probe; --nodes is of --cluster");
  }
  if ((options.noise_low || options.noise_high) && !options.noise) {
    misuse("--noise-low and --noise-high are the ends of --noise-scale, which is missing");
  }
  if (options.noise && options.noise_low.value_or(*options.noise) > *options.noise) {
    misuse("--noise-low is above --noise-scale");
  }
  if (options.noise && options.noise_high.value_or(*options.noise) < *options.noise) {
    misuse("--noise-high is below --noise-scale");
  }
}

class Advisor {
 public:
  Advisor(const AdviseOptions& options, const ClientOptions& client)
      : options_(options), client_(client) {}

  // The exit code; there is no report where it is kInterrupted.
  int run(advise::Report* report) {
    file_ = trainer::contract::parse_run_config(read_input(options_.run_file, kMaxRunFile),
                                                input_name(options_.run_file));
    if (trainer::contract::grows(file_)) {
      throw base::Error(
          base::Code::User,
          "batch.growth: advice compares batches that stay as they are; leave it out");
    }
    report->objective = options_.objective;
    take_earlier_run();
    if (!options_.probe) refuse_unknown_noise();  // before anything is simulated
    const int code = options_.probe ? measure() : reckon();
    if (code == kInterrupted) return code;
    const advise::Noise noise = settle_noise(report);
    const advise::Target target = settle_target(report);
    report->advice = advise::advise(candidates_, noise, target, std::max(1, file_.base_batch));
    report->title = title_;
    report->target = target_words();
    report->notes = std::move(notes_);
    add_notes(report);
    return code;
  }

 private:
  void refuse_unknown_noise() const {
    if (options_.noise || (earlier_ && earlier_->noise)) return;
    const std::string unknown = options_.probe
                                    ? "the probe's steps tell no noise scale; more of them "
                                      "(--probe-steps) may"
                                    : "the gradient's noise scale is not known";
    throw base::Error(base::Code::User, (earlier_ ? earlier_->why_no_noise : unknown) +
                                            "; name an earlier run with --run, or give "
                                            "--noise-scale");
  }
  void take_earlier_run() {
    if (options_.run.empty()) return;
    RunConfig config = file_;
    make_data_absolute(folder(), &config);
    earlier_ = earlier_run(client_.connect(), options_.run, config);
    if (earlier_->differences.empty()) return;
    notes_.push_back(earlier_->id + " differs from the run file in " +
                     base::join(earlier_->differences, ", ") +
                     ": its noise scale and samples count as far as that does not matter");
  }
  // On machines that are described.
  int reckon() {
    const auto dataset = plan::take_dataset(options_.run_file, options_.vocabulary, &file_);
    if (file_.evaluate_samples == 0 && dataset) {
      file_.evaluate_samples =
          static_cast<int>(std::min<std::int64_t>(dataset->evaluation_samples, 1 << 30));
    }
    const plan::Cluster cluster =
        plan::Cluster::read(read_input(options_.cluster), input_name(options_.cluster));
    const LengthTable lengths =
        options_.lengths.empty()
            ? plan::longest_lengths(file_)
            : LengthTable::parse(read_input(options_.lengths), options_.lengths);
    std::vector<topology::nccl::NcclTestLog> logs;
    for (const std::string& log : options_.measured) {
      logs.push_back(topology::nccl::parse_nccl_tests_log(read_input(log), log));
    }
    plan::PeakShare share;
    const std::string& nodes_text = options_.nodes.empty() ? kUsualNodes : options_.nodes;
    for (const int nodes : counts_of(nodes_text, "--nodes", plan::Cluster::kMostNodes)) {
      const plan::Machines machines = cluster.machines(nodes, file_.ranks_per_node);
      for (const int batch : batches_of(options_, file_)) {
        if (batch < machines.ranks()) {
          leave_out(machines.ranks(), batch, "there are fewer samples than ranks");
          continue;
        }
        simulate::DescribedRun run{simulate::with_ranks_and_batch(file_, machines.ranks(), batch),
                                   machines, lengths, logs, options_.sharp};
        try {
          candidates_.push_back(simulated(run, &share));
        } catch (const base::Error& error) {
          // Stages and micro-batches do not go with every batch.
          if (error.code() != base::Code::User || file_.parallel.pipeline < 2) throw;
          leave_out(machines.ranks(), batch, error.what());
        }
      }
      title_ = file_.name + " on nodes of " + std::to_string(machines.ranks_per_node) + " " +
               machines.gpu_model;
    }
    for (const std::string& line : plan::step_basis(
             file_, options_.given,
             options_.lengths.empty() ? std::nullopt : std::optional<LengthTable>(lengths))) {
      notes_.push_back(line);
    }
    if (left_out_ > 0) {
      notes_.push_back(base::plural(left_out_, "row") + " left out, the first: " + first_left_out_);
    }
    notes_.push_back(plan::share_sentence(share) +
                     base::formatted("; times are given for %.3g to %.3g %%", 100 * share.low,
                                     100 * share.high));
    if (!candidates_.empty()) return 0;
    throw base::Error(base::Code::User, "there is nothing to choose from: " + first_left_out_);
  }
  void leave_out(int ranks, int batch, const std::string& why) {
    if (left_out_++ == 0) {
      first_left_out_ =
          base::plural(ranks, "rank") + " with a batch of " + std::to_string(batch) + ": " + why;
    }
  }
  [[nodiscard]] Candidate simulated(const simulate::DescribedRun& run,
                                    plan::PeakShare* share) const {
    plan::StepModel model =
        plan::step_model(run.config, run.machines.gpu_model, run.machines.device,
                         run.machines.nodes, options_.given);
    *share = model.share;
    simulate::SimulationInputs inputs = simulate::simulation_inputs(run, model, kSimulatedSteps);
    const simulate::Simulation simulation = simulate::simulate_steps(inputs);
    const auto step_with = [&](double efficiency) {
      if (efficiency == model.share.value) return simulation.mean.step;
      inputs.compute.efficiency = efficiency;
      return simulate::simulate_steps(inputs).mean.step;
    };
    Candidate candidate;
    candidate.nodes = run.machines.nodes;
    candidate.ranks = run.machines.ranks();
    candidate.batch = run.config.batch_size;
    const double step = simulation.mean.step;
    candidate.step_seconds = {step, std::min(step, step_with(model.share.high)),
                              std::max(step, step_with(model.share.low))};
    candidate.evaluation_seconds = simulation.evaluation_seconds;
    candidate.evaluate_every = run.config.evaluate_every;
    return candidate;
  }
  // Here, by short runs.
  int measure() {
    ProbePlan plan;
    plan.file = file_;
    make_data_absolute(folder(), &plan.file);
    if (plan.file.from) settle_start(folder(), &*plan.file.from);
    plan.ranks = options_.ranks.empty() ? std::vector<int>{file_.ranks}
                                        : counts_of(options_.ranks, "--ranks", kMostBatch);
    const std::vector<int> batches = batches_of(options_, file_);
    // A line needs two; what lies between is on it.
    plan.batches = {batches.front()};
    if (batches.size() > 1) plan.batches.push_back(batches.back());
    plan.steps = options_.probe_steps > 0 ? options_.probe_steps : kUsualProbeSteps;
    plan.id = options_.id.empty() ? base::random_hex(kIdBytes) : options_.id;
    plan.go_on = "the same command with --id " + plan.id + " goes on";
    Probed probed = probe(client_.connect(), plan);
    if (probed.code == kInterrupted) return probed.code;
    for (const std::string& line : probed.left_out) notes_.push_back(line);
    probed_noise_ = probed.noise;
    const advise::MeasuredSteps steps(probed.steps);
    for (const int ranks : steps.ranks()) {
      for (const int batch : batches) {
        if (batch < ranks) continue;
        candidates_.push_back(steps.candidate(ranks, batch));
        candidates_.back().evaluate_every =
            simulate::with_ranks_and_batch(file_, ranks, batch).evaluate_every;
      }
    }
    title_ = file_.name + " on the controller's machines";
    notes_.push_back("steps are as in " + base::plural(probed.steps.size(), "short run") +
                     " (tag probe-" + plan.id + ")" +
                     (plan.batches.size() > 1
                          ? ", on a line between the batches tried"
                          : ", and as long for each sample with other batches"));
    return probed.code;
  }
  advise::Noise settle_noise(advise::Report* report) const {
    if (options_.noise) {
      report->noise_from = "given by --noise-scale";
      const double given = *options_.noise;
      return {given, options_.noise_low.value_or(given), options_.noise_high.value_or(given)};
    }
    if (earlier_ && earlier_->noise) {
      report->noise_from = "of run " + earlier_->id;
      return *earlier_->noise;
    }
    if (probed_noise_) {
      report->noise_from = "of the probe, so of the run's beginning";
      return *probed_noise_;
    }
    refuse_unknown_noise();
    return {};
  }
  advise::Target settle_target(advise::Report* report) {
    if (options_.samples) {
      report->target_from = "given by --samples-to-target";
      return {*options_.samples, file_.batch_size};
    }
    if (earlier_ && earlier_->target) {
      report->target_from = "as in run " + earlier_->id;
      return *earlier_->target;
    }
    if (earlier_) notes_.push_back(earlier_->why_no_target);
    report->target_from = "assumed: those of the run file's steps";
    notes_.push_back(
        "how many samples the target takes is assumed, so only what rows have to each other is "
        "told; name a run that met it with --run, or give --samples-to-target");
    return {static_cast<double>(file_.steps) * file_.batch_size, file_.batch_size};
  }
  [[nodiscard]] std::string target_words() const {
    if (!file_.target) return "the run";
    std::string words = trainer::contract::metric_of(file_);
    if (file_.target->value) words += " " + base::short_number(*file_.target->value);
    if (file_.target->times_baseline) {
      words += " of " + base::short_number(*file_.target->times_baseline) + " times the baseline";
    }
    return words;
  }
  static void add_notes(advise::Report* report) {
    const advise::Advice& advice = report->advice;
    report->notes.push_back(
        "the noise scale grows while a run trains; what is told holds as far as it is that of the "
        "whole run, and with a learning rate that suits each batch");
    const int batch = advice.rows[advice.best_for(report->objective).expected].of.batch;
    const auto [least, most] = std::minmax_element(
        advice.rows.begin(), advice.rows.end(),
        [](const advise::Row& a, const advise::Row& b) { return a.of.batch < b.of.batch; });
    if (least->of.batch < most->of.batch && (batch == least->of.batch || batch == most->of.batch)) {
      report->notes.push_back("the best batch is the " +
                              std::string(batch == most->of.batch ? "largest" : "smallest") +
                              " that was compared; give --batches that go further");
    }
    constexpr int kFar = 4;
    if (batch > kFar * advice.target.batch || batch * kFar < advice.target.batch) {
      report->notes.push_back("a batch of " + std::to_string(batch) + " is far from the " +
                              std::to_string(advice.target.batch) +
                              " that the samples are known for; try it before you rely on it");
    }
    report->notes.push_back(
        "queue, start and checkpoints are not counted, nor whether a batch fits a device's memory "
        "(`regatta submit --dry-run` tells)");
  }

  [[nodiscard]] base::Path folder() const {
    return options_.run_file == "-" ? base::Path(".") : base::Path(options_.run_file).parent_path();
  }

  const AdviseOptions& options_;
  const ClientOptions& client_;
  RunConfig file_;
  std::optional<EarlierRun> earlier_;
  std::optional<advise::Noise> probed_noise_;
  std::vector<Candidate> candidates_;
  int left_out_ = 0;  // rows of a cluster
  std::string first_left_out_, title_;
  std::vector<std::string> notes_;
};

void print_report(const advise::Report& report, AdviceFormat format) {
  switch (format) {
    case AdviceFormat::Plain:
      return print(advise::advice_text(report));
    case AdviceFormat::Data:
      return print_json(advise::advice_json(report));
    case AdviceFormat::Rows:
      return print(advise::advice_csv(report));
    case AdviceFormat::Markdown:
      return print(advise::advice_markdown(report));
    case AdviceFormat::Picture:
      return print(advise::advice_svg(report));
  }
}

class Advise : public Command {
 public:
  explicit Advise(const Program& program)
      : Command({"advise",
                 Group::Plans,
                 "advise how many nodes and what batch reach the target soonest, or cheapest",
                 {"advise run.yaml --cluster cluster.yaml --nodes 1..64 --run pilot",
                  "advise run.yaml --cluster cluster.yaml --noise-scale 1500 --objective gpu-hours",
                  "advise run.yaml --probe --ranks 1,2,4 --batches 16,64,256",
                  "advise run.yaml --cluster cluster.yaml --noise-scale 1500 -o svg"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options
        .add("run-file", ValueKind::RunFile, &options_.run_file,
             "the run file, YAML or JSON; - for stdin")
        .is_required = true;
    add_machines(options);
    add_evidence(options);
    options.choose("--objective", &options_.objective,
                   {{"tta", advise::Objective::TimeToAccuracy},
                    {"gpu-hours", advise::Objective::GpuHours},
                    {"goodput", advise::Objective::Goodput}},
                   "what is best: least time to the target, fewest GPU-hours until it, or most "
                   "samples/s × statistical efficiency");
    options.choose("-o,--output", &options_.format,
                   {{"text", AdviceFormat::Plain},
                    {"json", AdviceFormat::Data},
                    {"csv", AdviceFormat::Rows},
                    {"markdown", AdviceFormat::Markdown},
                    {"svg", AdviceFormat::Picture}},
                   "for people, for programs, for a document, or as a picture");
    add_server_options(options, &client_);
  }

  int run() override {
    check_options(options_);
    advise::Report report;
    const int code = Advisor(options_, client_).run(&report);
    if (code != kInterrupted) print_report(report, options_.format);
    return code;
  }

 private:
  void add_machines(OptionList& options) {
    options.add("--cluster", ValueKind::File, &options_.cluster,
                "a cluster description, or another file that `regatta topo` reads; - for stdin");
    options.add("--nodes", &options_.nodes,
                "numbers of nodes to compare: 1,2,4 or 1..64 (default: 1..16)");
    options.add("--batches", &options_.batches,
                "global batches to compare: 64,256 or 64..4096 (default: a quarter of the run "
                "file's to sixteen times it)");
    options.add("--probe", &options_.probe,
                "measure steps and noise scale by short runs, one after the other, at the "
                "controller");
    options.add("--ranks", &options_.ranks,
                "numbers of ranks to probe: 1,2,4 (default: the run file's)");
    options.add("--probe-steps", &options_.probe_steps, "steps of each short run (default: 30)")
        .range = {kLeastProbeSteps, kMostProbeSteps};
    options
        .add("--id", checked_id(&options_.id), "go on with this probe, or begin it under this name")
        .type = "ID";
    options.add("--measured", ValueKind::File, &options_.measured,
                "a log of nccl-tests, used for the numbers of nodes that it fits; repeatable");
    options.add("--sharp", &options_.sharp, "assume in-network reduction (SHARP)");
    add_lengths(options, &options_.lengths);
    add_vocabulary(options, &options_.vocabulary);
    add_given_figures(options, &options_.given);
  }
  void add_evidence(OptionList& options) {
    constexpr double kLeast = 1e-3, kMost = 1e12;
    options.add("--run", ValueKind::Run, &options_.run,
                "an earlier run, whose noise scale counts, and its samples to the target if it met "
                "the run file's");
    options.add("--noise-scale", &options_.noise, "gradient noise scale in samples").range = {
        kLeast, kMost};
    options.add("--noise-low", &options_.noise_low, "its lower end").range = {0, kMost};
    options.add("--noise-high", &options_.noise_high, "its upper end").range = {kLeast, kMost};
    options
        .add(
            "--samples-to-target", &options_.samples,
            "samples that the target takes with the run file's batch (default: those of its steps)")
        .range = {1, kMost};
  }

  AdviseOptions options_;
  ClientOptions client_;
};

}  // namespace

std::unique_ptr<Command> advise_command(const Program& program) {
  return std::make_unique<Advise>(program);
}

}  // namespace regatta::orchestrator::cli
