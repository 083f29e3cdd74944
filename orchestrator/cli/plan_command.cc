// `regatta plan`: reads a run file and descriptions of machines, and prints or writes the plan.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "base/error.h"
#include "base/file_system.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/input.h"
#include "orchestrator/cli/machines.h"
#include "orchestrator/cli/plan_text.h"
#include "orchestrator/cli/step_model_options.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/plan/run_plan.h"
#include "orchestrator/site/site_defaults.h"
#include "topology/sources/cluster_file.h"
#include "topology/sources/nccl_xml.h"

namespace regatta::orchestrator::cli {
namespace {

using topology::graph::Graph;
using trainer::contract::RunConfig;

enum class PlanFormat : std::uint8_t { Text, Explain, PlanJson, Env, Csv, Xml, Run };

struct PlanOptions {
  std::string file;                   // the run file; "-": stdin
  std::vector<std::string> clusters;  // any that topology/sources/read_any.h knows
  int nodes = 0;                      // of the described kind to plan for; 0: as many as described
  bool live = false;                  // this machine
  std::vector<std::string> srun;      // options; not empty: the nodes that it gives
  std::string nvml_library = "libnvidia-ml.so.1";
  std::vector<std::string> measured;  // logs of nccl-tests or of `regatta-train bench comm`
  std::string lengths;                // a table of sample lengths; empty: all of max_length
  int vocabulary = 0;                 // 0: of the run file, or of its dataset
  std::string ranks;                  // a number, or "all": of every GPU; empty: the run file's
  plan::GivenFigures given;
  std::optional<double> slowdown{};  // nothing: by the channels that NCCL takes
  std::string runs;                  // whose earlier runs count; empty: $REGATTA_RUNS, or none
  std::string directory;             // where plan.json and plan.tuner go; empty: nowhere
  PlanFormat format = PlanFormat::Text;
};

Graph machines(const PlanOptions& options, const site::ProgramEnvironment& environment) {
  if (options.nodes == 0) {
    return machines_of({options.clusters, options.srun, options.live, options.nvml_library},
                       environment, "plan");
  }
  if (options.clusters.size() != 1 || options.live || !options.srun.empty()) {
    throw UsageError("--nodes is for one cluster description; name one with --cluster");
  }
  const std::string& file = options.clusters.front();
  return topology::sources::generate(topology::sources::parse_cluster(read_input(file), file),
                                     options.nodes);
}

void take_ranks(const PlanOptions& options, const Graph& machines, RunConfig* config) {
  if (options.ranks.empty()) return;
  const auto gpus = static_cast<std::int64_t>(machines.of_kind(topology::graph::Kind::Gpu).size());
  const auto ranks =
      options.ranks == "all" ? std::optional(gpus) : base::parse_integer(options.ranks);
  if (!ranks || *ranks < 1) {
    throw UsageError(options.ranks == "all" && gpus == 0
                         ? "no GPU is known for --ranks all; give --cluster"
                         : "--ranks is '" + base::printable(options.ranks) +
                               "'; use a number above 0, or all");
  }
  if (*ranks > std::int64_t{config->batch_size} * config->parallel.pipeline) {
    throw base::Error(base::Code::User, std::to_string(*ranks) + " ranks are more than the " +
                                            std::to_string(config->batch_size) +
                                            " samples of a step; raise batch.size, or plan for "
                                            "fewer");
  }
  config->ranks = static_cast<int>(*ranks);
  config->parallel.data = 0;  // as many replicas as there are then
  const bool fits = config->ranks_per_node > 0 && config->ranks % config->ranks_per_node == 0;
  if (options.ranks == "all" || !fits) config->ranks_per_node = 0;
  if (!config->slurm) return;
  trainer::contract::SlurmResources& slurm = *config->slurm;
  if (config->ranks % slurm.ranks_per_node != 0) {
    throw base::Error(base::Code::User,
                      options.ranks + " ranks are not a multiple of the " +
                          std::to_string(slurm.ranks_per_node) +
                          " on a node that slurm.ranks_per_node has; change one of them");
  }
  slurm.max_nodes = slurm.min_nodes = config->ranks / slurm.ranks_per_node;
}

// A plan for fewer ranks than somebody has in mind; empty: for as many as there are GPUs, or as
// the run file was made for.
std::string ranks_note(const PlanOptions& options, const plan::PlanRequest& request) {
  const auto gpus = static_cast<int>(request.machines.of_kind(topology::graph::Kind::Gpu).size());
  const int ranks = request.config.ranks;
  if (!options.ranks.empty() || ranks >= gpus || (ranks > 1 && options.nodes == 0)) return "";
  const std::string all = std::to_string(gpus);
  const std::string note = "the run file has " + base::plural(ranks, "rank") + ", for " +
                           std::to_string(ranks) + " of " + all + " GPUs; 'ranks: " + all +
                           "' in it uses all of them";
  return note + (gpus > request.config.batch_size ? ", if its batch has as many samples"
                                                  : ", and --ranks all plans for that");
}

// own_vocabulary: what the run file has, 0 where it leaves that to its dataset.
plan::PlanRequest request_of(const PlanOptions& options,
                             const site::ProgramEnvironment& environment, int* own_vocabulary) {
  plan::PlanRequest request;
  const std::string source = input_name(options.file);
  request.config = trainer::contract::parse_run_config(read_input(options.file), source);
  *own_vocabulary = request.config.model.vocabulary;
  (void)plan::take_dataset(options.file, options.vocabulary, &request.config);
  request.machines = machines(options, environment);
  take_ranks(options, request.machines, &request.config);
  for (const std::string& file : options.measured) {
    request.measured.push_back(read_measured(file));
  }
  if (!options.lengths.empty()) {
    request.lengths =
        trainer::contract::LengthTable::parse(read_input(options.lengths), options.lengths);
  }
  const auto runs = options.runs.empty() ? site::default_runs_directory(environment)
                                         : std::optional<base::Path>(options.runs);
  if (runs) {
    request.stored = topology::plan::list_stored_plans(base::posix_file_system(),
                                                       *runs / topology::plan::kPlansFolder);
  }
  request.given = options.given;
  request.figures.slowdown = options.slowdown;
  return request;
}

// Variables for NCCL where no plug-in can be loaded, over the sizes of the buckets.
std::string environment_text(const topology::plan::Plan& plan) {
  auto variables = plan.placement.environment;
  if (plan.timeline && !plan.timeline->buckets.empty()) {
    const auto [least, most] =
        std::minmax_element(plan.timeline->buckets.begin(), plan.timeline->buckets.end(),
                            [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    variables.merge(topology::plan::nccl_variables(plan.tuner,
                                                   static_cast<std::uint64_t>(least->bytes),
                                                   static_cast<std::uint64_t>(most->bytes)));
  }
  if (variables.empty())
    return "# no variable: NCCL's own choices stay, since nothing else is faster by more than the "
           "model's error\n";
  std::string text;
  for (const auto& [name, value] : variables) text += "export " + name + "='" + value + "'\n";
  return text;
}

std::string xml_text(const plan::PlanRequest& request) {
  const plan::NodeChoice choice = plan::choose_nodes(request.machines, request.config);
  return topology::sources::write_nccl_xml(request.machines, choice.nodes.front());
}

// As planned, but for the vocabulary.
std::string run_text(const plan::PlanRequest& request, const plan::PlanReport& report,
                     int own_vocabulary) {
  RunConfig config = request.config;
  config.model.vocabulary = own_vocabulary;
  return planned_run_file(config, report.plan);
}

std::string plan_as(PlanFormat format, const plan::PlanRequest& request,
                    const plan::PlanReport& report, int own_vocabulary) {
  switch (format) {
    case PlanFormat::Text:
      return plan_table(report);
    case PlanFormat::Explain:
      return plan_sentences(report);
    case PlanFormat::PlanJson:
      return topology::plan::to_json(report.plan);
    case PlanFormat::Env:
      return environment_text(report.plan);
    case PlanFormat::Csv:
      return report.example_csv;
    case PlanFormat::Xml:
      return xml_text(request);
    case PlanFormat::Run:
      return run_text(request, report, own_vocabulary);
  }
  return "";
}

// Not what it lies in: a mistyped path would become a tree of folders.
void make_directory(const base::Path& directory) {
  std::error_code error;
  std::filesystem::create_directory(directory, error);
  if (!error) return;
  throw base::Error(base::Code::User, "cannot make the directory " +
                                          base::printable(directory.string()) + ": " +
                                          error.message() + "; choose another --directory");
}

int make_plan(const PlanOptions& options, const site::ProgramEnvironment& environment) {
  int own_vocabulary = 0;
  const plan::PlanRequest request = request_of(options, environment, &own_vocabulary);
  plan::PlanReport report = plan::plan_run(request);
  if (const std::string note = ranks_note(options, request); !note.empty()) {
    const bool is_shown =
        options.format == PlanFormat::Text || options.format == PlanFormat::Explain;
    if (is_shown) {
      report.notes.insert(report.notes.begin(), note);
    } else {
      std::cerr << "regatta: " << note << "\n";
    }
  }
  if (!options.directory.empty()) {
    base::FileSystem& files = base::posix_file_system();
    make_directory(options.directory);
    for (const auto& [name, text] : plan::plan_files(report.plan)) {
      base::replace_file(files, base::Path(options.directory) / name, text);
    }
  }
  std::cout << plan_as(options.format, request, report, own_vocabulary) << std::flush;
  return 0;
}

class PlanCommand : public Command {
 public:
  explicit PlanCommand(const Program& program)
      : Command({"plan",
                 Group::Plans,
                 "choose gradient buckets, GPUs and NCCL settings for a run, with the reasons",
                 {"plan run.yaml --live", "plan run.yaml --cluster dgx.yaml --nodes 8 --ranks all",
                  "plan run.yaml --cluster dgx.yaml --explain --directory plan"}}),
        environment_(program.environment) {}

  void add_options(OptionList& options) override {
    options
        .add("file", ValueKind::RunFile, &options_.file, "the run file, YAML or JSON; - for stdin")
        .is_required = true;
    add_machines(options);
    add_model(options);
    options.add("--runs", ValueKind::Directory, &options_.runs,
                "the runs directory, whose earlier runs count (default: REGATTA_RUNS, or what "
                "`regatta config show` says)");
    options.add("--directory", ValueKind::Directory, &options_.directory,
                "write plan.json and plan.tuner there; made if it is missing");
    const auto explain = [this] { options_.format = PlanFormat::Explain; };
    options.add("--explain", std::function<void()>(explain), "the same as --output explain");
    const Choices<PlanFormat> formats{
        {"text", PlanFormat::Text},     {"explain", PlanFormat::Explain},
        {"json", PlanFormat::PlanJson}, {"env", PlanFormat::Env},
        {"csv", PlanFormat::Csv},       {"xml", PlanFormat::Xml},
        {"run", PlanFormat::Run}};
    options.choose("-o,--output", &options_.format, formats,
                   "a table; sentences; plan.json; variables of NCCL for a shell; NCCL's example "
                   "tuner's file; NCCL's topology file; the run file with the plan's choices");
  }
  int run() override { return make_plan(options_, environment_); }

 private:
  void add_machines(OptionList& options) {
    options.add("--cluster", ValueKind::File, &options_.clusters,
                "the machines, a file that `regatta topo` reads; repeatable");
    options.add("--nodes", &options_.nodes, "plan for N nodes of the described kind").range = {
        1, 8192};
    options.add("--live", &options_.live, "plan for this machine");
    add_srun(options, &options_.srun);
    options.add("--measured", ValueKind::File, &options_.measured,
                "a log of nccl-tests or of `regatta-train bench comm` on these machines; "
                "repeatable");
    options.add("--ranks", &options_.ranks,
                "plan for N ranks instead of the run file's; all: one for each GPU");
    add_nvml_library(options, &options_.nvml_library);
  }
  void add_model(OptionList& options) {
    add_lengths(options, &options_.lengths);
    add_vocabulary(options, &options_.vocabulary);
    add_given_figures(options, &options_.given);
    options
        .add("--slowdown", &options_.slowdown,
             "fraction by which computing slows during collectives (default: from NCCL's use "
             "of the GPU)")
        .range = {0, 10};
  }

  site::ProgramEnvironment environment_;
  PlanOptions options_;
};

}  // namespace

std::unique_ptr<Command> plan_command(const Program& program) {
  return std::make_unique<PlanCommand>(program);
}

}  // namespace regatta::orchestrator::cli
