// `regatta diff`: what a job or a run was made of, beside what is there now.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file_system.h"
#include "base/json.h"
#include "base/process.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/sbatch_freeze.h"
#include "orchestrator/frozen/changes.h"
#include "orchestrator/frozen/freeze.h"
#include "orchestrator/frozen/frozen_job.h"
#include "orchestrator/site/site_defaults.h"
#include "orchestrator/text/terminal.h"
#include "trainer/contract/environment_file.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 20U;
constexpr double kPatchSeconds = 60;  // of one file
constexpr int kNothing = 0;
constexpr int kSomething = 1;

struct DiffOptions {
  std::string run;   // a job's number, a frozen tree's name, or a run's id or name
  std::string file;  // a run file to compare the run's own with; empty: none
  bool names_only = false;
};

const char* name_of(frozen::Change::Kind kind) {
  switch (kind) {
    case frozen::Change::Kind::Changed:
      return "changed";
    case frozen::Change::Kind::Gone:
      return "gone";
    case frozen::Change::Kind::New:
      return "new";
  }
  return "";
}

// The tree that the run's newest attempt ran in, by the job that its trainer noted.
std::optional<base::Path> tree_of_run(const base::Path& store, const base::Path& run) {
  base::FileSystem& files = base::posix_file_system();
  const std::vector<std::string> attempts = files.list(run / "attempts");
  for (auto name = attempts.rbegin(); name != attempts.rend(); ++name) {
    const base::Path path = run / "attempts" / *name / trainer::contract::kEnvironmentFile;
    if (!files.exists(path)) continue;
    const std::string job = trainer::contract::slurm_job_of_environment(
        files.read_at(path, 0, trainer::contract::kMostEnvironmentBytes + 1));
    if (!job.empty()) return frozen::find_frozen(store, job);
  }
  return std::nullopt;
}

void print_patch(const frozen::Change& change) {
  const std::string none = "/dev/null";
  base::Command command;
  command.arguments = {"diff",
                       "-u",
                       "--label=frozen/" + change.path,
                       "--label=now/" + change.path,
                       change.frozen.empty() ? none : change.frozen.string(),
                       change.now.empty() ? none : change.now.string()};
  const base::Output output = base::run(command, kPatchSeconds);
  for (const std::string& line : base::split(output.text, '\n')) {
    if (!line.empty()) std::cout << base::printable(line) << "\n";
  }
}

void print_text(const frozen::FrozenJob& job, const frozen::Changes& found,
                const DiffOptions& options) {
  const std::string root = base::printable(job.root.string());
  std::cerr << "regatta: " << job.name << ", tree " << job.tree << ", " << job.files.size()
            << " files of " << root
            << (job.commit ? (job.at_commit ? " of commit " : " beside commit ") + *job.commit : "")
            << ", frozen " << text::local_date(Json(job.made)) << "\n";
  if (found.root_is_gone) std::cerr << "regatta: " << root << " is gone\n";
  for (const std::string& path : found.touched) {
    std::cerr << "regatta: " << base::printable(path)
              << " in the frozen tree was changed after it was frozen\n";
  }
  for (const frozen::Change& change : found.changes) {
    std::cout << name_of(change.kind) << "  " << base::printable(change.path) << "\n";
    if (!options.names_only && change.kind == frozen::Change::Kind::Changed) print_patch(change);
  }
  if (found.changes.empty()) std::cerr << "regatta: nothing has changed since\n";
}

Json json_of(const frozen::FrozenJob& job, const frozen::Changes& found) {
  Json json;
  json["frozen"] = job.name;
  json["made"] = job.made;
  json["tree"] = job.tree;
  json["root"] = base::printable(job.root.string());
  json["commit"] = job.commit ? Json(*job.commit) : Json();
  json["at_commit"] = job.at_commit;
  json["changes"] = Json::array();
  for (const frozen::Change& change : found.changes) {
    json["changes"].push_back(
        {{"path", base::printable(change.path)}, {"change", name_of(change.kind)}});
  }
  json["touched"] = Json::array();
  for (const std::string& path : found.touched) json["touched"].push_back(base::printable(path));
  return json;
}

int diff_of_tree(const base::Path& folder, const ClientOptions& client,
                 const DiffOptions& options) {
  const frozen::FrozenJob job = frozen::read_frozen_job(base::posix_file_system(), folder);
  const frozen::Changes found = frozen::changes_since(job, folder);
  if (!client.output.print(json_of(job, found))) print_text(job, found, options);
  return found.changes.empty() && found.touched.empty() ? kNothing : kSomething;
}

// "/optimizer/name" → value, of every leaf.
Json leaves_of(const Json& config) { return config.flatten(); }

std::string key_of(std::string pointer) {
  std::replace(pointer.begin(), pointer.end(), '/', '.');
  return pointer.substr(pointer.empty() ? 0 : 1);
}

// Values of slurm.environment may be passwords, and the controller does not send them.
bool is_withheld(const std::string& pointer) {
  return pointer.rfind("/slurm/environment/", 0) == 0;
}

int diff_of_file(const Json& run, const ClientOptions& client, const DiffOptions& options,
                 const site::ProgramEnvironment& environment) {
  const std::string text = base::posix_file_system().read(options.file, kMostFileBytes);
  trainer::contract::RunConfig config = trainer::contract::parse_run_config(text, options.file);
  const base::Path folder = base::Path(options.file).parent_path();
  const auto absolute = [&](const std::string& path) {
    return std::filesystem::absolute(folder / path).lexically_normal().string();
  };
  trainer::contract::change_data_paths(&config.data, absolute);
  if (config.from) config.from->path = absolute(config.from->path);
  if (run.value("scheduler", Json()) == "slurm") {  // as the file would be submitted now
    config = site::with_defaults(std::move(config),
                                 site::read_defaults(site::defaults_places(environment)))
                 .config;
  }
  const Json then = leaves_of(run.at("config"));
  const Json now = leaves_of(base::parse_json<Json>(trainer::contract::to_json(config)));
  std::set<std::string> pointers;
  for (const auto& leaf : then.items()) pointers.insert(leaf.key());
  for (const auto& leaf : now.items()) pointers.insert(leaf.key());
  Json changes = Json::array();
  for (const std::string& pointer : pointers) {
    const Json was = then.contains(pointer) ? then[pointer] : Json();
    const Json is = now.contains(pointer) ? now[pointer] : Json();
    if (is_withheld(pointer) ? then.contains(pointer) == now.contains(pointer) : was == is)
      continue;
    changes.push_back({{"key", key_of(pointer)},
                       {"run", is_withheld(pointer) ? Json() : was},
                       {"file", is_withheld(pointer) ? Json() : is}});
  }
  if (client.output.print({{"run", run.at("id")}, {"changes", changes}})) {
    return changes.empty() ? kNothing : kSomething;
  }
  for (const Json& change : changes) {
    std::cout << base::printable(change["key"].get<std::string>()) << ": "
              << base::printable(base::json_text(change["run"])) << " -> "
              << base::printable(base::json_text(change["file"])) << "\n";
  }
  if (changes.empty()) std::cerr << "regatta: the run and the file are the same\n";
  return changes.empty() ? kNothing : kSomething;
}

// 0 where nothing has changed, 1 where something has. Code::NotFound where nothing was frozen.
int compare(const ClientOptions& client, const DiffOptions& options,
            const site::ProgramEnvironment& environment) {
  const base::Path store = frozen_store(environment);
  if (options.file.empty()) {
    if (const auto folder = frozen::find_frozen(store, options.run)) {
      return diff_of_tree(*folder, client, options);
    }
  }
  Json run;
  try {
    run = client.connect().get("/runs/" + path_part(options.run));
  } catch (const base::Error& error) {
    if (!options.file.empty()) throw;
    throw base::Error(error.code() == base::Code::NotFound ? error.code() : base::Code::NotFound,
                      "'" + base::printable(options.run) + "' is not a job that was frozen in " +
                          base::printable(store.string()) + ", and as a run: " + error.what());
  }
  if (!options.file.empty()) return diff_of_file(run, client, options, environment);
  const base::Path directory = run.at("directory").get<std::string>();
  if (const auto folder = tree_of_run(store, directory)) {
    return diff_of_tree(*folder, client, options);
  }
  throw base::Error(base::Code::NotFound, "nothing was frozen for this run but " +
                                              base::printable((directory / "run.json").string()) +
                                              "; `" +
                                              base::shown_command("regatta diff", options.run) +
                                              " FILE` compares that with a run file");
}

class Diff : public Command {
 public:
  explicit Diff(const Program& program)
      : Command({"diff",
                 Group::Runs,
                 "say what has changed since a job's files were frozen; exit code 1 if something "
                 "has",
                 {"diff 4711", "diff demo --names-only", "diff demo run.yaml"}}),
        environment_(program.environment),
        client_(ClientOptions::of(program)) {}

  void add_options(OptionList& options) override {
    options
        .add("run", ValueKind::Run, &options_.run,
             "a job's number, the name that --freeze printed, or a run's id or name")
        .is_required = true;
    options.add("file", ValueKind::RunFile, &options_.file,
                "a run file to compare with the run's own");
    options.add("--names-only", &options_.names_only, "without the lines that changed");
    add_client_options(options, &client_);
  }
  int run() override { return compare(client_, options_, environment_); }

 private:
  site::ProgramEnvironment environment_;
  ClientOptions client_;
  DiffOptions options_;
};

}  // namespace

std::unique_ptr<Command> diff_command(const Program& program) {
  return std::make_unique<Diff>(program);
}

}  // namespace regatta::orchestrator::cli
