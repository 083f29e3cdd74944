// `regatta platform …`: what a machine can do, measured by regatta-train and kept by the
// controller.
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/usage_error.h"
#include "orchestrator/runs/trainer_program.h"
#include "orchestrator/slurm/node_table.h"
#include "orchestrator/text/terminal.h"
#include "trainer/contract/platform_bench.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using trainer::contract::PlatformBench;

std::string text_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

PlatformBench read_bench(const base::Path& path) {
  // One byte more than a bench may have, so that a longer one is told.
  const std::string text =
      base::posix_file_system().read_at(path, 0, trainer::contract::kMostBenchBytes + 1);
  return trainer::contract::parse_platform_bench(std::string_view(text), path.string());
}

// The scheduler's name of this machine.
std::string node_here(const site::ProgramEnvironment& environment) {
  const auto slurm = environment.whole.find("SLURMD_NODENAME");
  return slurm != environment.whole.end() && !slurm->second.empty() ? slurm->second
                                                                    : slurm::this_machine().name;
}

Json keep_bench(const Client& client, const std::string& node, const PlatformBench& bench) {
  return client.post("/nodes/" + path_part(node) + "/benches",
                     base::json_text(trainer::contract::to_json(bench)),
                     {{"Content-Type", "application/json"}});
}

void tell_kept(const Json& answer) {
  std::cout << base::printable(text_in(answer, "node")) << ": bench "
            << base::printable(text_in(answer, "id")) << " of "
            << text::local_date(answer.value("at", Json())) << " is kept\n"
            << std::flush;
}

// A path for one file, which is gone in the end.
class ResultFile {
 public:
  ResultFile()
      : path_(std::filesystem::temp_directory_path() /
              ("regatta-platform-" + base::random_hex(8) + ".json")) {}
  ~ResultFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;
  [[nodiscard]] const base::Path& path() const { return path_; }

 private:
  base::Path path_;
};

class PlatformMeasure : public Command {
 public:
  explicit PlatformMeasure(const Program& program)
      : Command({"bench",
                 Group::Machines,
                 "measure what this machine can do; 2 minutes, in which it had better do nothing "
                 "else",
                 {"platform bench --out here.json", "platform bench --keep",
                  "platform bench --seconds 30 --directory /scratch -o json"}}),
        environment_(program.environment),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options.add("--seconds", &seconds_, "about how long to measure").range = {1, 3600};
    options.add("--directory", ValueKind::Directory, &directory_,
                "where storage is measured; nothing stays there");
    options.add("--out", ValueKind::File, &out_, "write the bench to this file, too");
    options.add("--keep", &keep_, "have the controller keep it with the node");
    options.add("--node", &node_,
                "with --keep: the node's name (default: SLURMD_NODENAME, else this machine's)");
    options.add("--trainer", ValueKind::File, &trainer_,
                "regatta-train (default: beside this program, or in PATH)");
    add_client_options(options, &client_);
  }

  int run() override {
    if (!node_.empty() && !keep_) throw UsageError("--node is for --keep; add it, or leave it out");
    // Two minutes are not to be lost to a controller that is not there.
    const std::string node = node_.empty() ? node_here(environment_) : node_;
    if (keep_) (void)client_.connect().get("/nodes/" + path_part(node) + "/benches");
    const ResultFile result;
    base::Command command;
    command.arguments = {
        runs::find_trainer(trainer_, environment_.program, environment_.path).string(),
        "bench",
        "platform",
        "--seconds=" + base::json_text(Json(seconds_)),
        "--directory=" + directory_,
        "--out=" + result.path().string()};
    const base::Output output = base::run_in_place(command);
    if (output.exit.code != 0) {
      return output.exit.code ? *output.exit.code : 128 + output.exit.signal.value_or(0);
    }
    const PlatformBench bench = read_bench(result.path());
    const Json json = trainer::contract::to_json(bench);
    if (!out_.empty()) {
      base::replace_file(base::posix_file_system(), out_, base::json_text(json, 2) + "\n");
    }
    const Json answer = keep_ ? keep_bench(client_.connect(), node, bench) : json;
    if (!client_.output.print(answer) && keep_) tell_kept(answer);
    return 0;
  }

 private:
  site::ProgramEnvironment environment_;
  ClientOptions client_;
  double seconds_ = 120;
  std::string directory_ = ".", out_, node_, trainer_;
  bool keep_ = false;
};

class PlatformKeep : public Command {
 public:
  explicit PlatformKeep(const Program& program)
      : Command({"keep",
                 Group::Machines,
                 "have the controller keep benches that were measured elsewhere",
                 {"platform keep n1.json n2.json", "platform keep n1.json --node gpu-01"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    Option& files = options.add("files", ValueKind::File, &files_, "benches");
    files.is_required = true;
    files.type = "FILE";
    options.add("--node", &node_,
                "the node's name, of one file (default: the host's that the bench names)");
    add_client_options(options, &client_);
  }

  // All are read before the first is sent.
  int run() override {
    if (!node_.empty() && files_.size() > 1) {
      throw UsageError("--node is for one file; leave it out, or keep them one by one");
    }
    std::vector<PlatformBench> benches;
    for (const std::string& file : files_) benches.push_back(read_bench(file));
    const Client client = client_.connect();
    Json answers = Json::array();
    for (const PlatformBench& bench : benches) {
      answers.push_back(keep_bench(client, node_.empty() ? bench.host : node_, bench));
      if (client_.output.is_text()) tell_kept(answers.back());
    }
    (void)client_.output.print(answers);
    return 0;
  }

 private:
  ClientOptions client_;
  std::vector<std::string> files_;
  std::string node_;
};

class PlatformList : public Command {
 public:
  explicit PlatformList(const Program& program)
      : Command({"ls",
                 Group::Machines,
                 "list the benches of a node that the controller keeps",
                 {"platform ls node01", "platform ls node01 -o json"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    Option& node = options.add("node", &node_, "a node");
    node.is_required = true;
    node.type = "NODE";
    add_client_options(options, &client_, {"benches", "id", "NodeBench"});
  }

  int run() override {
    const Json answer = client_.connect().get("/nodes/" + path_part(node_) + "/benches");
    if (client_.output.print(answer)) return 0;
    std::vector<std::vector<std::string>> cells{
        {"ID", "MEASURED", "VERSION", "FIGURES", "MACHINE"}};
    for (const Json& row : answer.value("benches", Json::array())) {
      const Json bench = row.value("bench", Json::object());
      cells.push_back({text_in(row, "id"), text::local_date(row.value("at", Json())),
                       text_in(bench, "version"),
                       std::to_string(bench.value("figures", Json::array()).size()),
                       text_in(row, "machine_kind")});
    }
    if (cells.size() == 1) {
      std::cout << "no bench of " << base::printable(node_)
                << " is kept; `regatta platform bench --keep` there makes one\n";
      return 0;
    }
    std::cout << text::table(cells);
    return 0;
  }

 private:
  ClientOptions client_;
  std::string node_;
};

class PlatformRemove : public Command {
 public:
  explicit PlatformRemove(const Program& program)
      : Command({"rm",
                 Group::Machines,
                 "remove benches of a node",
                 {"platform rm node01 0123456789ab"}}),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    Option& node = options.add("node", &node_, "a node");
    node.is_required = true;
    node.type = "NODE";
    Option& ids = options.add("ids", &ids_, "ids of its benches");
    ids.is_required = true;
    ids.type = "ID";
    add_server_options(options, &client_);
  }

  int run() override {
    const Client client = client_.connect();
    for (const std::string& id : ids_) {
      (void)client.remove("/nodes/" + path_part(node_) + "/benches/" + path_part(id));
      std::cout << base::printable(node_) << ": bench " << base::printable(id) << " removed\n"
                << std::flush;
    }
    return 0;
  }

 private:
  ClientOptions client_;
  std::string node_;
  std::vector<std::string> ids_;
};

}  // namespace

std::unique_ptr<Command> platform_command(const Program& program) {
  Commands parts;
  parts.push_back(std::make_unique<PlatformMeasure>(program));
  parts.push_back(std::make_unique<PlatformKeep>(program));
  parts.push_back(std::make_unique<PlatformList>(program));
  parts.push_back(std::make_unique<PlatformRemove>(program));
  return std::make_unique<CommandFamily>(
      CommandText{
          "platform", Group::Machines, "measure what a machine can do, and compare nodes", {}},
      std::move(parts));
}

}  // namespace regatta::orchestrator::cli
