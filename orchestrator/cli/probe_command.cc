// `regatta probe`: reads this machine and writes a capture. 0, also where there is no GPU: notes
// say so on stderr.
#include <iostream>

#include "base/file_system.h"
#include "base/text.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/machines.h"
#include "orchestrator/cli/output.h"
#include "topology/sources/nvml_calls.h"

namespace regatta::orchestrator::cli {
namespace {

class Probe : public Command {
 public:
  explicit Probe(const Program& program)
      : Command({"probe",
                 Group::Machines,
                 "read this machine into a capture file, which `topo`, `plan` and `doctor` read "
                 "anywhere",
                 {"probe", "probe -o node1.json"}}),
        environment_(program.environment) {}

  void add_options(OptionList& options) override {
    options.add("-o,--output", ValueKind::File, &output_, "the file; - for stdout");
    add_nvml_library(options, &nvml_library_);
    // For the child that asks NVML, and may hang.
    options.add("--nvml-calls", &nvml_calls_, "").is_hidden = true;
    options.add("--skip", &skip_, "").is_hidden = true;
  }

  int run() override {
    if (nvml_calls_) {
      return topology::sources::ask_nvml(nvml_library_, {skip_.begin(), skip_.end()},
                                         [](const std::string& line) { print(line + "\n"); });
    }
    const topology::sources::Capture capture = probe_here(nvml_library_, environment_);
    for (const std::string& note : capture.notes) {
      std::cerr << "regatta probe: " << base::printable(note) << "\n";
    }
    const std::string text = topology::sources::to_json(capture);
    if (output_ == "-") {
      print(text);
    } else {
      base::replace_file(base::posix_file_system(), output_, text);
    }
    return 0;
  }

 private:
  site::ProgramEnvironment environment_;
  std::string output_ = "-";  // where capture.json goes; "-": stdout
  std::string nvml_library_ = "libnvidia-ml.so.1";
  bool nvml_calls_ = false;        // be the child that asks NVML
  std::vector<std::string> skip_;  // calls that it leaves out
};

}  // namespace

std::unique_ptr<Command> probe_command(const Program& program) {
  return std::make_unique<Probe>(program);
}

}  // namespace regatta::orchestrator::cli
