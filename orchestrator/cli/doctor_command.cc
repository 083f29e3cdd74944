// `regatta doctor`: reads what the user names and prints what the doctor finds.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/input.h"
#include "orchestrator/cli/machines.h"
#include "orchestrator/cli/output.h"
#include "orchestrator/text/findings.h"
#include "topology/doctor/doctor.h"
#include "topology/sources/read_any.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using topology::graph::Finding;
using topology::graph::Kind;
using topology::graph::Severity;

struct DoctorOptions {
  std::vector<std::string> files;  // any that topology/sources/read_any.h knows; "-": stdin
  std::string job;                 // a run file, for the variables that it sets; empty: none
  bool list = false;               // only say what is checked
  Output output{};
};

bool concerns_nccl(const std::string& name) {
  return name.rfind("NCCL_", 0) == 0 || name == "CUDA_LAUNCH_BLOCKING";
}

// The run file's first: it wins over what the job inherits from the shell.
std::vector<topology::doctor::Setting> settings(const DoctorOptions& options,
                                                const site::ProgramEnvironment& environment) {
  std::vector<topology::doctor::Setting> found;
  if (!options.job.empty()) {
    const std::string source = input_name(options.job);
    const trainer::contract::RunConfig run =
        trainer::contract::parse_run_config(read_input(options.job), source);
    if (run.slurm) {
      for (const auto& [name, value] : run.slurm->environment) {
        // Which GPUs it sees is Slurm's to say, so that is a fault in a run file only.
        if (concerns_nccl(name) || name == "CUDA_VISIBLE_DEVICES") {
          found.push_back({name, value, source + " slurm.environment"});
        }
      }
    }
  }
  for (const auto& [name, value] : environment.whole) {
    const bool overridden = std::any_of(
        found.begin(), found.end(), [&name = name](const auto& each) { return each.name == name; });
    if (concerns_nccl(name) && !overridden) found.push_back({name, value, "this shell"});
  }
  return found;
}

int list_checks(const Output& output) {
  Json checks = Json::array();
  for (const topology::doctor::CheckInfo& check : topology::doctor::list_checks()) {
    if (output.is_text()) {
      std::cout << check.id << " (" << topology::graph::name_of(check.severity)
                << "): " << check.what << "\n  why: " << check.why << "\n  do: " << check.remedy
                << "\n";
    }
    checks.push_back({{"id", check.id},
                      {"severity", topology::graph::name_of(check.severity)},
                      {"what", check.what},
                      {"why", check.why},
                      {"remedy", check.remedy}});
  }
  (void)output.print({{"checks", std::move(checks)}});
  std::cout << std::flush;
  return 0;
}

std::string cost_text(const Finding& finding) {
  if (!finding.cost_gb_per_s) return "";
  char text[120];
  std::snprintf(text, sizeof text, "  costs about %.3g GB/s", *finding.cost_gb_per_s);
  std::string words = text;
  if (finding.cost_milliseconds) {
    std::snprintf(text, sizeof text, ", %.3g ms for a gradient of BERT-Large",
                  *finding.cost_milliseconds);
    words += text;
  }
  return words + "\n";
}

std::string finding_text(const Finding& finding) {
  std::string text = std::string(topology::graph::name_of(finding.severity)) + " " + finding.id +
                     ": " + base::printable(finding.words) + "\n";
  for (const topology::graph::Evidence& each : finding.evidence) {
    text += "  " + base::printable(each.path) + ": " + base::printable(each.value) + "\n";
  }
  return text + cost_text(finding) + "  do: " + base::printable(finding.remedy) + "\n";
}

Json summary(const topology::graph::Graph& graph, const std::vector<Finding>& findings) {
  const auto found = [&](Severity severity) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& finding) { return finding.severity == severity; });
  };
  return {{"nodes", graph.of_kind(Kind::Node).size()},
          {"gpus", graph.of_kind(Kind::Gpu).size()},
          {"nics", graph.of_kind(Kind::Nic).size()},
          {"switches", graph.of_kind(Kind::FabricSwitch).size()},
          {"errors", found(Severity::Error)},
          {"warnings", found(Severity::Warning)},
          {"notes", found(Severity::Note)}};
}

std::string counted(const Json& number, const char* what) {
  return base::plural(number.get<std::int64_t>(), what);
}

std::string summary_text(const Json& of) {
  return counted(of["nodes"], "node") + ", " + counted(of["gpus"], "GPU") + ", " +
         counted(of["nics"], "NIC") + ", " + counted(of["switches"], "switch") + ": " +
         counted(of["errors"], "error") + ", " + counted(of["warnings"], "warning") + ", " +
         counted(of["notes"], "note") + "\n";
}

// 0: nothing wrong, or notes only; 1: warnings or errors.
int examine(const DoctorOptions& options, const site::ProgramEnvironment& environment) {
  if (options.list) return list_checks(options.output);
  topology::graph::Graph graph;
  std::vector<topology::doctor::TopologyFile> files;
  std::vector<topology::doctor::HostState> hosts;
  std::vector<Finding> findings;
  std::vector<topology::doctor::Setting> variables = settings(options, environment);
  std::vector<topology::sources::Reading> readings;
  for (const std::string& file : options.files) {
    readings.push_back(topology::sources::read_any(read_input(file), input_name(file)));
  }
  if (options.files.empty()) {
    const topology::sources::Capture here = probe_here("libnvidia-ml.so.1", environment);
    for (const std::string& note : here.notes) {
      std::cerr << "regatta doctor: " << base::printable(note) << "\n";
    }
    readings.push_back(
        topology::sources::read_any(topology::sources::to_json(here), "this machine"));
    readings.back().settings.clear();  // they are this shell's
  }
  for (topology::sources::Reading& reading : readings) {
    if (graph.vertices().empty()) {
      graph = std::move(reading.graph);
    } else {
      graph.merge(reading.graph);
    }
    std::move(reading.topology_files.begin(), reading.topology_files.end(),
              std::back_inserter(files));
    std::move(reading.settings.begin(), reading.settings.end(), std::back_inserter(variables));
    std::move(reading.hosts.begin(), reading.hosts.end(), std::back_inserter(hosts));
    std::move(reading.findings.begin(), reading.findings.end(), std::back_inserter(findings));
  }
  for (Finding& finding : topology::doctor::diagnose(
           {graph, std::move(variables), std::move(hosts), std::move(files)})) {
    findings.push_back(std::move(finding));
  }
  const Json counts = summary(graph, findings);
  Json list = Json::array();
  for (const Finding& finding : findings) list.push_back(text::finding_json(finding));
  if (!options.output.print({{"summary", counts}, {"findings", std::move(list)}})) {
    for (const Finding& finding : findings) std::cout << finding_text(finding) << "\n";
    std::cout << summary_text(counts) << std::flush;
  }
  return counts["errors"] != 0 || counts["warnings"] != 0 ? 1 : 0;
}

class Doctor : public Command {
 public:
  explicit Doctor(const Program& program)
      : Command(
            {"doctor",
             Group::Machines,
             "say what is wrong with machines, fabric and settings; exit code 1 if something is",
             {"doctor", "doctor --job run.yaml", "doctor node1.json node2.json ibnet.txt"}}),
        environment_(program.environment) {}

  void add_options(OptionList& options) override {
    options.add("file", ValueKind::File, &options_.files,
                "what `regatta topo` reads, or nccl.conf; - for stdin; none: this machine");
    options.add("--job", ValueKind::RunFile, &options_.job,
                "a run file, for the variables that it sets");
    options.add("--list", &options_.list, "list the checks: what each finds, why, what to do");
    options_.output.add_option(options);
  }
  int run() override { return examine(options_, environment_); }

 private:
  site::ProgramEnvironment environment_;
  DoctorOptions options_;
};

}  // namespace

std::unique_ptr<Command> doctor_command(const Program& program) {
  return std::make_unique<Doctor>(program);
}

}  // namespace regatta::orchestrator::cli
