// `regatta sbatch`: sbatch itself, with what a user of sbatch has to think of themselves.
//
// Its words go to sbatch as they are. What sbatch writes is written, and its exit code returned (or
// its signal taken), so that programs which call sbatch can call this. On stderr, beside: what in
// the script does not do what it looks like, what was added (sbatch/sbatch_additions.h), and what a
// refusal means. A submission whose answer was lost is looked up by its comment, never repeated; a
// job that is found is reported as sbatch reports it, with exit code 0. Code::Operator when there
// is no sbatch in PATH.
#include <signal.h>
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

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/process.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "orchestrator/cli/client_options.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/node_pages.h"
#include "orchestrator/cli/sbatch_freeze.h"
#include "orchestrator/sbatch/sbatch_additions.h"
#include "orchestrator/sbatch/sbatch_lints.h"
#include "orchestrator/sbatch/sbatch_maintenance.h"
#include "orchestrator/sbatch/sbatch_options.h"
#include "orchestrator/sbatch/sbatch_script.h"
#include "orchestrator/slurm/slurm_commands.h"

namespace regatta::orchestrator::cli {
namespace {

using Json = nlohmann::ordered_json;
using Timer = std::chrono::steady_clock;

constexpr std::uint64_t kMostScriptBytes = std::uint64_t{64} << 20U;  // slurmctld takes 4 MB
constexpr double kControllerSeconds = 2;  // that a submission waits for a controller's answer
// And for a controller that nobody has asked for a while, which must ask Slurm first.
constexpr Patience kNodesPatience = {300, 12};
constexpr std::uint64_t kWrapperBytes = 4096;  // of an sbatch in PATH, to see what it calls
constexpr double kTestSeconds = 20;            // that `sbatch --test-only` may take
constexpr double kSiteSeconds = 3;             // that a question about the site may take
constexpr double kLookupSeconds = 60;          // for slurmctld to answer again
constexpr double kSettledSeconds = 5;          // after which a job that it does not show is none
constexpr auto kLookupPause = std::chrono::milliseconds(500);
constexpr int kSignalCode = 128;
constexpr int kTokenBytes = 8;

void print_note(const std::string& text) { std::cerr << "regatta: " << text << "\n"; }

// The script that sbatch will read, as far as it can be known.
struct ScriptSource {
  std::string name;                  // for findings
  std::string text;                  // empty: --wrap, or not readable
  std::optional<std::string> input;  // what stood on stdin, which is read only once
  bool again = true;                 // sbatch can be given it a second time
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
base::Path place_of(const std::string& script, const site::ProgramEnvironment& environment) {
  std::error_code error;
  if (script.find('/') != std::string::npos || std::filesystem::exists(script, error))
    return script;
  for (const std::string& folder : base::split(environment.path, ':')) {
    const base::Path path = base::Path(folder) / script;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return script;
}

ScriptSource read_source(const sbatch::SbatchCommand& asked,
                         const site::ProgramEnvironment& environment) {
  ScriptSource source;
  if (sbatch::find_option(asked.options, "wrap") != nullptr) {
    source.name = "--wrap";
  } else if (!asked.script) {
    source.name = "stdin";
    source.text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    source.input = source.text;
  } else {
    source.name = *asked.script;
    const base::Path path = place_of(*asked.script, environment);
    std::error_code error;
    source.again = std::filesystem::is_regular_file(path, error);  // else <(a shell's pipe)
    try {
      if (source.again) source.text = base::posix_file_system().read(path, kMostScriptBytes);
    } catch (const base::Error&) {  // sbatch says why it cannot be read
      source.again = false;
    }
  }
  // A file is read from its beginning each time, an open descriptor is not.
  const sbatch::GivenOption* const exported = sbatch::find_option(asked.options, "export-file");
  if (exported != nullptr && base::parse_integer(exported->value)) source.again = false;
  return source;
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

// Whether it is this program under another name, or a script that calls it.
bool leads_back(const base::Path& path, const site::ProgramEnvironment& environment) {
  std::error_code error;
  if (std::filesystem::equivalent(path, environment.program, error)) return true;
  try {
    const std::string beginning = base::posix_file_system().read_at(path, 0, kWrapperBytes);
    return beginning.rfind("#!", 0) == 0 && beginning.find("regatta") != std::string::npos;
  } catch (const base::Error&) {
    return false;
  }
}

// The first sbatch in PATH that does not lead back here.
std::string find_sbatch(const site::ProgramEnvironment& environment) {
  for (const std::string& folder : base::split(environment.path, ':')) {
    const base::Path path = base::Path(folder.empty() ? "." : folder) / "sbatch";
    std::error_code error;
    if (::access(path.c_str(), X_OK) != 0 || std::filesystem::is_directory(path, error)) continue;
    if (!leads_back(path, environment)) return path.string();
  }
  throw base::Error(base::Code::Operator,
                    "there is no sbatch in PATH; call this where Slurm's commands are installed");
}

// What the controller knows of nodes; nothing where none is named, since sbatch needs none.
std::vector<sbatch::KnownNode> known_nodes(const site::ProgramEnvironment& environment) {
  std::vector<sbatch::KnownNode> nodes;
  if (!environment.server || environment.server->empty()) return nodes;
  try {
    const Json answer = fetch_nodes(Client(controller_address(environment), kControllerSeconds), {},
                                    kNodesPatience);
    if (answer.at("scheduler") == "local") return nodes;
    for (const Json& node : answer.at("nodes")) {
      nodes.push_back({node.at("name"), node.at("usable"), node.at("suspicion"),
                       node.at("suspicion_why"),
                       node.at("partitions").get<std::vector<std::string>>()});
    }
    if (nodes.empty()) print_note("no node is avoided: the controller does not know the nodes yet");
  } catch (const base::Error& error) {
    print_note("no node is avoided: " + base::printable(error.what()));
  } catch (const Json::exception&) {
    print_note("no node is avoided: the controller's answer about nodes cannot be read");
    nodes.clear();
  }
  return nodes;
}

void print_findings(const std::string& name, const std::vector<sbatch::SbatchFinding>& findings) {
  for (const sbatch::SbatchFinding& finding : findings) {
    const std::string place =
        finding.line == 0 ? "" : base::printable(name) + ":" + std::to_string(finding.line) + ": ";
    print_note(place + finding.text + " [" + finding.id + "]");
  }
}

class Submitter {
 public:
  Submitter(const std::vector<std::string>& arguments, const site::ProgramEnvironment& environment)
      : environment_(environment),
        program_(find_sbatch(environment)),
        asked_(sbatch::parse_sbatch_command(arguments, is_script)),
        options_(asked_.options),
        directory_(here()) {
    for (std::size_t at = 0; at < arguments.size(); ++at) {
      const auto& own = asked_.own_words;
      if (at == asked_.script_at) script_at_ = arguments_.size();
      if (std::find(own.begin(), own.end(), at) == own.end()) arguments_.push_back(arguments[at]);
    }
    if (!asked_.script) script_at_ = arguments_.size();
  }

  int submit() {
    if (has("help")) {
      std::cout
          << "regatta sbatch [OPTIONS AND SCRIPT OF SBATCH]: sbatch, which also says what in\n"
             "the script does not do what it looks like, keeps off nodes that failed lately,\n"
             "and finds a job whose submission nobody answered. Options of its own:\n\n"
             "  --freeze[=COMMIT]    run the files as they are now (or were at the commit),\n"
             "                       even if they change while the job waits\n"
             "  --freeze-limit=SIZE  how much that may be (1G)\n\n"
          << std::flush;
    }
    if (has("help") || has("usage") || has("version")) return end_as(run({}));
    freeze();
    source_ = read_source(asked_, environment_);
    sbatch::SbatchScript script = sbatch::read_sbatch_script(source_.text);
    options_ = sbatch::options_that_count(script.options, environment_.whole, asked_.options);
    if (frozen_) keep_logs_in_place();
    const bool one_job = !asked_.heterogeneous && !script.heterogeneous;
    check(&script, one_job);
    sbatch::SbatchAdditions additions;
    if (one_job && (!script.has_others || has("ignore-pbs"))) {
      additions = sbatch::sbatch_additions(options_, base::random_hex(kTokenBytes),
                                           known_nodes(environment_));
      drop_impossible(&additions);
    }
    for (const std::string& note : additions.notes) print_note(note);
    is_asked_ = true;
    return after(run(additions.arguments), additions.comment);
  }

  // Of a submission that failed before sbatch was asked; later the job may be there.
  void give_up() const {
    if (frozen_ && !is_asked_) frozen::discard(frozen_->folder);
  }

 private:
  [[nodiscard]] bool has(std::string_view name) const {
    return sbatch::find_option(options_, name) != nullptr;
  }

  static base::Path here() {
    std::error_code error;
    return std::filesystem::current_path(error);
  }

  // From then on this process is in the frozen tree, where sbatch and the job are to begin.
  void freeze() {
    std::optional<base::Path> script;
    if (asked_.script && !has("wrap")) {
      std::error_code error;
      const base::Path place = place_of(*asked_.script, environment_);
      if (std::filesystem::is_regular_file(place, error)) {
        const base::Path whole = directory_ / place;
        script = std::filesystem::canonical(whole.parent_path(), error) / whole.filename();
      }
    }
    const auto request = freeze_request(asked_, arguments_, script, environment_);
    if (!request || has("test-only")) return;
    program_ = std::filesystem::absolute(program_);
    frozen_ = frozen::freeze(*request);
    if (script) {
      asked_.script = frozen_script(*asked_.script, *script, *frozen_);
      arguments_[script_at_] = *asked_.script;
    }
    std::filesystem::current_path(frozen_->directory);
    for (const std::string& note : frozen_notes(*frozen_)) print_note(note);
  }

  void keep_logs_in_place() {
    std::vector<std::string> notes;
    const auto words = frozen_options(options_, directory_, *frozen_, &notes);
    arguments_.insert(arguments_.begin() + static_cast<std::ptrdiff_t>(script_at_), words.begin(),
                      words.end());
    for (const std::string& note : notes) print_note(note);
  }

  void check(sbatch::SbatchScript* script, bool one_job) {
    std::vector<sbatch::SbatchFinding>& findings = script->findings;
    if (script->trainer_line != 0 && !has("signal")) {
      findings.push_back(
          {script->trainer_line,
           "at the job's time limit regatta-train is killed, and what it did since its "
           "last checkpoint is lost; with #SBATCH --signal=USR2@120 it saves first",
           "no-signal"});
    }
    const auto folders = sbatch::sbatch_folder_findings(options_, directory_);
    findings.insert(findings.end(), folders.begin(), folders.end());
    const auto add = [&](const std::optional<sbatch::SbatchFinding>& found) {
      if (found) findings.push_back(*found);
    };
    if (one_job) {
      add(sbatch::time_finding(options_));
      add(sbatch::gpu_finding(options_));
      const auto step = sbatch::step_cpus_finding(*script, options_, environment_.whole);
      if (step && forgets_cpus()) add(step);
      add(sbatch::step_gpus_finding(*script, options_));
      add(coming_maintenance_finding());
    }
    std::stable_sort(findings.begin(), findings.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    print_findings(source_.name, findings);
  }

  [[nodiscard]] bool forgets_cpus() const {
    base::Command command;
    command.arguments = {program_, "--version"};
    const auto version = slurm::parse_slurm_version(base::run(command, kSiteSeconds).text);
    return version && sbatch::srun_forgets_cpus(*version);
  }

  // Nothing, too, where Slurm does not say within kSiteSeconds.
  [[nodiscard]] std::optional<sbatch::SbatchFinding> coming_maintenance_finding() const {
    if (has("reservation") || has("clusters")) return std::nullopt;
    const slurm::SlurmDeadlines deadlines{.query_seconds = kSiteSeconds};
    const slurm::SlurmCommands commands({}, deadlines,
                                        slurm::slurm_environment(environment_.whole));
    const double now = base::system_clock().utc_seconds();
    const auto reservations = commands.show_reservations();
    if (!reservations.value || sbatch::coming_maintenance(*reservations.value, now).empty()) {
      return std::nullopt;
    }
    const auto partitions = commands.show_partitions();
    if (!partitions.value) return std::nullopt;
    return sbatch::maintenance_finding(options_, *reservations.value, *partitions.value, now);
  }

  // Nodes are left out only where Slurm says that the job can run without them.
  void drop_impossible(sbatch::SbatchAdditions* additions) {
    if (!additions->avoids || has("test-only")) return;
    if (source_.again && would_start(additions->arguments)) return;
    additions->notes.assign(1,
                            "avoids no node: Slurm cannot say that the job would start without "
                            "those that are suspected");
    std::erase_if(additions->arguments,
                  [](const std::string& word) { return word.rfind("--exclude=", 0) == 0; });
  }

  [[nodiscard]] bool would_start(std::vector<std::string> added) const {
    added.emplace_back("--test-only");
    const base::UniqueFd input = source_.input ? file_of(*source_.input) : base::UniqueFd();
    base::Command command = command_with(added);
    command.input = input.get();
    const base::Output output = base::run(command, kTestSeconds);
    return !output.timed_out && output.exit.code == 0;
  }

  [[nodiscard]] base::Command command_with(const std::vector<std::string>& added) const {
    base::Command command;
    command.program = program_;
    command.arguments = {"sbatch"};  // the name before its errors
    command.arguments.insert(command.arguments.end(), added.begin(), added.end());
    command.arguments.insert(command.arguments.end(), arguments_.begin(), arguments_.end());
    if (frozen_) command.environment["PWD"] = frozen_->directory.string();
    command.keep_descriptors = true;  // the script may be one: sbatch <(generate)
    return command;
  }

  [[nodiscard]] base::Output run(const std::vector<std::string>& added) const {
    const base::UniqueFd input = source_.input ? file_of(*source_.input) : base::UniqueFd();
    base::Command command = command_with(added);
    command.input = source_.input ? input.get() : STDIN_FILENO;
    return base::run_in_place(command);
  }

  // A shell must see that a signal ended it, or its loop goes on after Ctrl-C.
  static int end_as(const base::Output& output) {
    if (!output.exit.signal) return output.exit.code.value_or(1);
    const int signal = *output.exit.signal;
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) ::raise(signal);
    return kSignalCode + signal;
  }

  int after(const base::Output& output, const std::string& comment) const {
    // An answer with a number means that the job was submitted: with --wait the code is the job's.
    const bool is_submitted = output.text.find("Submitted batch job ") != std::string::npos ||
                              slurm::parse_submitted_id(output.text).has_value();
    const bool may_be_reported = !has("quiet") || !has("wait");
    if (is_submitted) {
      print_hold(output.text);
      if (frozen_) keep_id(first_number(output.text));
    }
    if (output.exit.code == 0 || is_submitted || !may_be_reported || has("test-only"))
      return end_as(output);
    if (output.exit.signal) {
      print_note("sbatch was ended by a signal, and the job may be there; `squeue --me` shows it");
      return end_as(output);
    }
    const slurm::Submission submission = slurm::submission_of(output, arguments_);
    if (const auto* const refused = std::get_if<slurm::Refused>(&submission)) {
      const std::string size = sbatch::size_hint(refused->reason, source_.text.size());
      if (!size.empty() || !refused->hint.empty()) print_note(size.empty() ? refused->hint : size);
      if (frozen_) frozen::discard(frozen_->folder);
      return end_as(output);
    }
    if (comment.empty() || has("clusters")) {
      print_note(
          "sbatch got no answer, and the job may be there all the same; look with `squeue --me` "
          "before you submit it again");
      return end_as(output);
    }
    if (!look_up(comment)) return end_as(output);
    if (!has("wait")) return 0;
    print_note("its end is not waited for");
    return end_as(output);
  }

  static std::string first_number(const std::string& answer) {
    const std::size_t at = answer.find_first_of("0123456789");
    if (at == std::string::npos) return "";
    return answer.substr(at, answer.find_first_not_of("0123456789", at) - at);
  }

  void print_hold(const std::string& answer) const {
    const std::string id = first_number(answer);
    if (id.empty() || !has("hold") || has("quiet") || has("clusters")) return;
    print_note("the job is held; `scontrol release " + id + "` lets it start");
  }

  // The job is there, even if this note cannot be kept.
  void keep_id(const std::string& id) const {
    try {
      if (!id.empty()) frozen::keep_job_id(frozen_->folder, id);
    } catch (const base::Error& error) {
      print_note(
          "`" + base::shown_command("regatta diff", frozen_->job.name) +
          "` knows the job by this name only, not by its number: " + base::printable(error.what()));
    }
  }

  // Whether the job whose answer was lost is there; it is then reported as by sbatch.
  [[nodiscard]] bool look_up(const std::string& comment) const {
    const slurm::JobQuery query{base::user_name(), {}};
    const slurm::SlurmCommands commands({}, {}, slurm::slurm_environment(environment_.whole));
    print_note("sbatch got no answer; looking for a job with the comment " + comment);
    const auto seconds = [](double value) { return std::chrono::duration<double>(value); };
    const auto begin = Timer::now();
    std::optional<Timer::time_point> first_answer;
    while (Timer::now() - begin < seconds(kLookupSeconds)) {
      const slurm::Answer<slurm::Jobs> answer = commands.squeue(query);
      if (answer.value) {
        if (!first_answer) first_answer = Timer::now();
        if (report(*answer.value, comment)) return true;
        if (Timer::now() - *first_answer >= seconds(kSettledSeconds)) {
          print_note(
              "squeue shows no job with that comment, so probably none was submitted; `sacct` "
              "would show one that is over already");
          return false;
        }
      }
      std::this_thread::sleep_for(kLookupPause);
    }
    print_note(
        "Slurm does not answer; before you submit it again, look whether `squeue --me -o '%i %k'` "
        "shows that comment");
    return false;
  }

  [[nodiscard]] bool report(const slurm::Jobs& jobs, const std::string& comment) const {
    // An array's tasks get ids of their own when they start, and the array's is the smallest.
    std::optional<std::int64_t> id;
    for (const slurm::JobRow& job : jobs.rows) {
      if (job.comment != comment) continue;
      const auto number = base::parse_integer(job.id);
      if (number) id = std::min(id.value_or(*number), *number);
    }
    if (!id) return false;
    print_note("the job is there");
    if (frozen_) keep_id(std::to_string(*id));
    if (!has("quiet")) {
      std::cout << (has("parsable") ? "" : "Submitted batch job ") << *id << "\n" << std::flush;
    }
    return true;
  }

  std::vector<std::string> arguments_;  // sbatch's
  std::size_t script_at_ = 0;           // where among them options end
  const site::ProgramEnvironment& environment_;
  std::string program_;
  sbatch::SbatchCommand asked_;
  std::vector<sbatch::GivenOption>
      options_;           // that count; until the script is read, the command line's
  base::Path directory_;  // where this was called
  std::optional<frozen::Frozen> frozen_;
  bool is_asked_ = false;  // sbatch
  ScriptSource source_;
};

class Sbatch : public Command {
 public:
  explicit Sbatch(const Program& program)
      : Command({"sbatch",
                 Group::Runs,
                 "sbatch with any option and script, with checks and lost-reply recovery (sbatch "
                 "--help)",
                 {"sbatch -N2 train.sh", "sbatch --freeze train.sh"}}),
        environment_(program.environment) {}

  [[nodiscard]] std::vector<std::string>* words() override { return &words_; }
  int run() override {
    Submitter submitter(words_, environment_);
    try {
      return submitter.submit();
    } catch (const base::Error&) {
      submitter.give_up();
      throw;
    }
  }

 private:
  site::ProgramEnvironment environment_;
  std::vector<std::string> words_;
};

}  // namespace

std::unique_ptr<Command> sbatch_command(const Program& program) {
  return std::make_unique<Sbatch>(program);
}

}  // namespace regatta::orchestrator::cli
