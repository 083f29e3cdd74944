#include "orchestrator/sbatch_command.h"

#include <pwd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "orchestrator/client.h"
#include "orchestrator/slurm/sbatch_additions.h"
#include "orchestrator/slurm/sbatch_options.h"
#include "orchestrator/slurm/sbatch_script.h"
#include "orchestrator/slurm/slurm_commands.h"

namespace regatta::orchestrator {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostScriptBytes = std::uint64_t{64} << 20U;  // slurmctld takes 4 MB
constexpr double kControllerSeconds = 2;  // that a submission waits for a controller
constexpr double kTestSeconds = 20;       // and for `sbatch --test-only`
constexpr double kLookupSeconds = 60;     // for slurmctld to answer again
constexpr double kSettledSeconds = 5;     // after which a job that it does not show is none
constexpr auto kLookupPause = std::chrono::seconds(1);
constexpr int kSignalCode = 128;

void tell(const std::string& text) { std::cerr << "regatta: " << text << "\n"; }

// The script that sbatch will read, as far as it can be known.
struct Source {
  std::string name;                  // for findings
  std::string text;                  // empty: --wrap, or not readable
  std::optional<std::string> input;  // what stood on stdin, which is read only once
};

bool is_script(const std::string& word) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(word, error)) return false;
  try {
    return base::posix_file_system().read_at(word, 0, 2) == "#!";
  } catch (const base::Error&) {
    return false;
  }
}

// sbatch looks where it is called, and then in PATH.
base::Path place_of(const std::string& script, const Environment& environment) {
  std::error_code error;
  if (script.find('/') != std::string::npos || std::filesystem::exists(script, error))
    return script;
  for (const std::string& folder : base::split(environment.path, ':')) {
    const base::Path path = base::Path(folder) / script;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return script;
}

Source read_source(const SbatchCommand& asked, const Environment& environment) {
  if (find_option(asked.options, "wrap") != nullptr) return {"--wrap", "", std::nullopt};
  if (!asked.script) {
    std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
    return {"stdin", text, text};
  }
  const base::Path path = place_of(*asked.script, environment);
  try {
    return {*asked.script, base::posix_file_system().read(path, kMostScriptBytes), std::nullopt};
  } catch (const base::Error&) {
    return {*asked.script, "", std::nullopt};  // sbatch says why it cannot read it
  }
}

// A file without a name that holds the text, to be read from its beginning.
base::UniqueFd file_of(const std::string& text) {
  base::UniqueFd file(::memfd_create("script", MFD_CLOEXEC));
  if (!file.valid()) base::throw_errno(errno, "cannot keep the script from stdin");
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(file.get(), text.data() + at, text.size() - at);
    if (wrote < 0) base::throw_errno(errno, "cannot keep the script from stdin");
    at += static_cast<std::size_t>(wrote);
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

// The first sbatch in PATH that is not this program under another name.
std::string find_sbatch(const Environment& environment) {
  for (const std::string& folder : base::split(environment.path, ':')) {
    const base::Path path = base::Path(folder.empty() ? "." : folder) / "sbatch";
    std::error_code error;
    if (::access(path.c_str(), X_OK) != 0 || std::filesystem::is_directory(path, error)) continue;
    if (!std::filesystem::equivalent(path, environment.program, error)) return path.string();
  }
  throw base::Error(base::Code::Operator,
                    "there is no sbatch in PATH; call this where Slurm's commands are installed");
}

// What the controller knows of nodes; nothing where there is none, since sbatch needs none.
std::vector<KnownNode> known_nodes(const Environment& environment) {
  const bool named = environment.server && !environment.server->empty();
  std::vector<KnownNode> nodes;
  try {
    const std::string url = named ? *environment.server : ClientOptions().server;
    const Json answer = Client(url, kControllerSeconds).get("/nodes");
    if (answer.at("scheduler") == "local") return nodes;
    for (const Json& node : answer.at("nodes")) {
      nodes.push_back({node.at("name"), node.at("usable"), node.at("suspicion"),
                       base::printable(node.at("suspicion_why").get<std::string>()),
                       node.at("partitions").get<std::vector<std::string>>()});
    }
  } catch (const base::Error& error) {
    if (named) tell("no node is avoided: " + base::printable(error.what()));
  } catch (const Json::exception&) {
    if (named) tell("no node is avoided: the controller's answer about nodes cannot be read");
    nodes.clear();
  }
  return nodes;
}

void tell_findings(const std::string& name, const std::vector<SbatchFinding>& findings) {
  for (const SbatchFinding& finding : findings) {
    const std::string place =
        finding.line == 0 ? "" : base::printable(name) + ":" + std::to_string(finding.line) + ": ";
    tell(place + finding.text);
  }
}

std::vector<std::string> command_of(const std::string& program,
                                    const std::vector<std::string>& added,
                                    const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {program};
  all.insert(all.end(), added.begin(), added.end());
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

class Submitter {
 public:
  Submitter(const std::vector<std::string>& arguments, const Environment& environment)
      : arguments_(arguments),
        environment_(environment),
        program_(find_sbatch(environment)),
        asked_(parse_sbatch_command(arguments, is_script)) {}

  int submit() {
    if (has("help")) {
      std::cout
          << "regatta sbatch [OPTIONS AND SCRIPT OF SBATCH]: sbatch, which also says what in\n"
             "the script does not do what it looks like, keeps off nodes that failed lately,\n"
             "and finds a job whose submission nobody answered.\n\n"
          << std::flush;
    }
    if (has("help") || has("usage") || has("version")) return code_of(run({}));
    source_ = read_source(asked_, environment_);
    SbatchScript script = read_sbatch_script(source_.text);
    std::vector<GivenOption> options = script.options;
    options.insert(options.end(), asked_.options.begin(), asked_.options.end());
    const bool one_job = !asked_.heterogeneous && !script.heterogeneous;
    check(&script, options);
    SbatchAdditions additions;
    if (one_job) {
      additions = sbatch_additions(options, environment_.whole, base::random_hex(8),
                                   known_nodes(environment_));
      drop_impossible(&additions);
    }
    for (const std::string& note : additions.notes) tell(note);
    const base::Output output = run(additions.arguments);
    return after(output, options, additions);
  }

 private:
  // On the command line: in a script these options mean nothing.
  [[nodiscard]] bool has(std::string_view name) const {
    return find_option(asked_.options, name) != nullptr;
  }

  void check(SbatchScript* script, const std::vector<GivenOption>& options) {
    std::vector<SbatchFinding>& findings = script->findings;
    const bool signalled =
        find_option(options, "signal") != nullptr || environment_.whole.count("SBATCH_SIGNAL") > 0;
    if (script->trainer_line != 0 && !signalled) {
      findings.push_back(
          {script->trainer_line,
           "at the job's time limit regatta-train is killed, and what it did since its "
           "last checkpoint is lost; with #SBATCH --signal=USR2@120 it saves first"});
    }
    std::error_code error;
    const auto folders = sbatch_folder_findings(options, std::filesystem::current_path(error));
    findings.insert(findings.end(), folders.begin(), folders.end());
    std::stable_sort(findings.begin(), findings.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    tell_findings(source_.name, findings);
  }

  // Nodes are left out only where Slurm says that the job can run without them.
  void drop_impossible(SbatchAdditions* additions) {
    if (!additions->avoids || has("test-only")) return;
    std::vector<std::string> added = additions->arguments;
    added.emplace_back("--test-only");
    base::Command command;
    command.arguments = command_of(program_, added, arguments_);
    const base::UniqueFd input = source_.input ? file_of(*source_.input) : base::UniqueFd();
    command.input = input.get();
    const base::Output output = base::run(command, kTestSeconds);
    if (!output.timed_out && output.exit.code == 0) return;
    additions->notes.assign(1,
                            "avoids no node: Slurm cannot say that the job would start without "
                            "those that are suspected");
    std::erase_if(additions->arguments,
                  [](const std::string& word) { return word.rfind("--exclude=", 0) == 0; });
  }

  [[nodiscard]] base::Output run(const std::vector<std::string>& added) const {
    base::Command command;
    command.arguments = command_of(program_, added, arguments_);
    const base::UniqueFd input = source_.input ? file_of(*source_.input) : base::UniqueFd();
    command.input = source_.input ? input.get() : STDIN_FILENO;
    return base::run_in_place(command);
  }

  static int code_of(const base::Output& output) {
    if (output.exit.signal) return kSignalCode + *output.exit.signal;
    return output.exit.code.value_or(1);
  }

  int after(const base::Output& output, const std::vector<GivenOption>& options,
            const SbatchAdditions& additions) {
    // A job that is told has been submitted: with --wait the code is the job's.
    const bool told = output.text.find("Submitted batch job ") != std::string::npos ||
                      parse_submitted_id(output.text).has_value();
    if (output.exit.code == 0 || told || has("test-only") || has("quiet")) return code_of(output);
    if (output.exit.signal) {
      tell("sbatch was ended by a signal, and the job may be there; `squeue --me` shows it");
      return code_of(output);
    }
    const Submission submission = submission_of(output, arguments_);
    if (const auto* const refused = std::get_if<Refused>(&submission)) {
      if (!refused->hint.empty()) tell(refused->hint);
      return code_of(output);
    }
    const bool elsewhere = find_option(options, "clusters") != nullptr ||
                           environment_.whole.count("SBATCH_CLUSTERS") > 0 ||
                           environment_.whole.count("SLURM_CLUSTERS") > 0;
    if (additions.comment.empty() || elsewhere) {
      tell(
          "sbatch got no answer, and the job may be there all the same; look with `squeue --me` "
          "before you submit it again");
      return code_of(output);
    }
    if (!look_up(additions.comment)) return code_of(output);
    if (!has("wait") && environment_.whole.count("SBATCH_WAIT") == 0) return 0;
    tell("its end is not waited for");
    return code_of(output);
  }

  // Whether the job whose answer was lost is there; it is then told as sbatch would have.
  [[nodiscard]] bool look_up(const std::string& comment) const {
    const passwd* const user = ::getpwuid(::geteuid());
    const JobQuery query{user == nullptr ? std::to_string(::geteuid()) : user->pw_name, {}, {}};
    const SlurmCommands commands({}, {}, slurm_environment(environment_.whole));
    tell("sbatch got no answer; looking for a job with the comment " + comment);
    using clock = std::chrono::steady_clock;
    const auto seconds = [](double value) { return std::chrono::duration<double>(value); };
    const auto begin = clock::now();
    std::optional<clock::time_point> first_answer;
    while (clock::now() - begin < seconds(kLookupSeconds)) {
      const Answer<Jobs> answer = commands.squeue(query);
      if (answer.value) {
        if (!first_answer) first_answer = clock::now();
        if (report(*answer.value, comment)) return true;
        if (clock::now() - *first_answer >= seconds(kSettledSeconds)) {
          tell("no job was submitted; submit it again");
          return false;
        }
      }
      std::this_thread::sleep_for(kLookupPause);
    }
    tell(
        "Slurm does not answer; before you submit it again, look whether `squeue --me -o '%i %k'` "
        "shows that comment");
    return false;
  }

  [[nodiscard]] bool report(const Jobs& jobs, const std::string& comment) const {
    // An array's tasks get ids of their own when they start, and the array's is the smallest.
    std::optional<std::int64_t> id;
    for (const JobRow& job : jobs.rows) {
      if (job.comment != comment) continue;
      const auto number = base::parse_integer(job.id);
      if (number) id = std::min(id.value_or(*number), *number);
    }
    if (!id) return false;
    tell("the job is there");
    std::cout << (has("parsable") ? "" : "Submitted batch job ") << *id << "\n" << std::flush;
    return true;
  }

  const std::vector<std::string>& arguments_;
  const Environment& environment_;
  std::string program_;
  SbatchCommand asked_;
  Source source_;
};

}  // namespace

int sbatch(const std::vector<std::string>& arguments, const Environment& environment) {
  return Submitter(arguments, environment).submit();
}

}  // namespace regatta::orchestrator
