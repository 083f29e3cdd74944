#include "orchestrator/cli/machines.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/process.h"
#include "base/text.h"
#include "orchestrator/cli/input.h"
#include "topology/sources/collect.h"
#include "topology/sources/nvml_calls.h"
#include "topology/sources/read_any.h"

namespace regatta::orchestrator::cli {
namespace {

using topology::graph::Graph;
using topology::graph::Kind;
using topology::sources::Capture;

constexpr double kStepSeconds = 120;  // for srun to get its nodes and to probe them

// As Slurm names nodes: without a domain.
std::string short_host_name() {
  const std::string name = base::host_name();
  return name.empty() ? "localhost" : name.substr(0, name.find('.'));
}

// A directory that goes with its owner.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "regatta-topo-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) base::throw_errno(errno, "cannot make " + name);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const base::Path& path() const { return path_; }

 private:
  base::Path path_;
};

// One step of `regatta probe` on every node; srun gathers a file per node.
Graph probe_allocation(const std::vector<std::string>& options,
                       const site::ProgramEnvironment& environment) {
  const TemporaryDirectory folder;
  base::Command command;
  // Busy nodes are an error after a minute, unless the user's own options say otherwise.
  command.arguments = {"srun", "--ntasks-per-node=1", "--immediate=60",
                       "--output=" + (folder.path() / "%N.json").string(),
                       "--error=" + (folder.path() / "%N.notes").string()};
  command.arguments.insert(command.arguments.end(), options.begin(), options.end());
  command.arguments.insert(command.arguments.end(), {environment.program.string(), "probe"});
  const base::Output done = base::run(command, kStepSeconds);
  if (done.timed_out || done.exit.code != 0) {
    throw base::Error(base::Code::Operator,
                      "srun " + base::join(options, " ") + ": " +
                          (done.timed_out ? "not finished after 2 minutes"
                                          : base::printable(done.errors.substr(0, 500))) +
                          "; try it by hand, or probe the nodes and give their captures");
  }
  Graph graph;
  for (const std::string& name : base::posix_file_system().list(folder.path())) {
    if (base::Path(name).extension() != ".json") continue;
    graph.merge(
        topology::sources::read_any(read_input((folder.path() / name).string()), name).graph);
  }
  if (graph.of_kind(Kind::Node).empty()) {
    throw base::Error(base::Code::Operator,
                      "srun ran, but no node was probed; check that regatta is at " +
                          environment.program.string() + " on the nodes, too");
  }
  return graph;
}

}  // namespace

void add_srun(OptionList& options, std::vector<std::string>* srun) {
  options.add("--srun", srun,
              "an option of srun: probe the nodes that srun gives, in one step; repeatable");
}

void add_nvml_library(OptionList& options, std::string* library) {
  options.add("--nvml-library", ValueKind::File, library,
              "NVIDIA's management library, to ask this machine's GPUs");
}

Capture probe_here(const std::string& nvml_library, const site::ProgramEnvironment& environment) {
  topology::sources::CollectOptions options;
  options.host = short_host_name();
  options.environment = environment.whole;
  options.nvml_child = {environment.program.string(), "probe", "--nvml-calls", "--nvml-library",
                        nvml_library};
  return topology::sources::collect(options, base::system_clock());
}

Graph machines_of(const MachineSources& sources, const site::ProgramEnvironment& environment,
                  const std::string& command) {
  const auto print_note = [&](const std::string& what) {
    std::cerr << "regatta " << command << ": " << base::printable(what) << "\n";
  };
  Graph graph;
  if (!sources.srun.empty()) graph = probe_allocation(sources.srun, environment);
  for (const std::string& file : sources.files) {
    topology::sources::Reading reading =
        topology::sources::read_any(read_input(file), input_name(file));
    for (const topology::graph::Finding& finding : reading.findings) {
      print_note(finding.words + (finding.remedy.empty() ? "" : "; " + finding.remedy));
    }
    graph.merge(reading.graph);
  }
  if (sources.here) {
    const Capture here = probe_here(sources.nvml_library, environment);
    for (const std::string& note : here.notes) print_note(note);
    graph.merge(topology::sources::replay(here).graph);
  }
  return graph;
}

plan::MeasuredLog read_measured(const std::string& text) {
  const plan::MeasuredName name = plan::parse_measured(text);
  return {text, topology::nccl::parse_nccl_tests_log(read_input(name.file), name.file), name.way};
}

}  // namespace regatta::orchestrator::cli
