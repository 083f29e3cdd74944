#include "orchestrator/sbatch/sbatch_lints.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/wording.h"

namespace regatta::orchestrator::sbatch {
namespace {

using View = std::string_view;

constexpr double kLongestMistake = 600;  // seconds: above, "12:30" may well be minutes
constexpr std::size_t kScriptBytes = std::size_t{4} << 20U;  // slurmctld's max_script_size

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A number of GPUs, all of one type or of none.
struct GpuCount {
  const GivenOption* option = nullptr;
  std::int64_t count = 0;
  std::string type;

  [[nodiscard]] std::string text() const {
    return "--" + option->name + "=" + base::printable(option->value);
  }
};

// What the option asks for; nothing for several types, for none, or for what cannot be read.
std::optional<GpuCount> gpus_of(const std::vector<GivenOption>& options, View name) {
  const GivenOption* const option = find_option(options, name);
  if (option == nullptr || option->value.empty()) return std::nullopt;
  if (option->value.find(":-") != std::string::npos) return std::nullopt;
  std::vector<std::string> parts;
  for (std::string part : base::split(option->value, ',')) {
    if (name != "gres") part.insert(0, "gpu:");
    const View bare(part);
    if (bare.find("gpu") == View::npos) continue;  // another resource
    parts.push_back(std::move(part));
  }
  if (parts.size() != 1) return std::nullopt;
  const auto gpus = slurm::parse_gres(parts.front());
  if (!gpus || gpus->count < 1 || gpus->by_type.size() > 1) return std::nullopt;
  return GpuCount{option, gpus->count,
                  gpus->by_type.empty() ? std::string() : gpus->by_type.begin()->first};
}

std::optional<std::int64_t> number_of(const std::vector<GivenOption>& options, View name) {
  const GivenOption* const option = find_option(options, name);
  const auto number = option == nullptr ? std::nullopt : base::parse_integer(option->value);
  return number && *number > 0 ? number : std::nullopt;
}

class GpuRules {
 public:
  explicit GpuRules(const std::vector<GivenOption>& options)
      : options_(options),
        gres_(gpus_of(options, "gres")),
        per_node_(gpus_of(options, "gpus-per-node")),
        all_(gpus_of(options, "gpus")),
        per_task_(gpus_of(options, "gpus-per-task")),
        nodes_(number_of(options, "nodes")),
        tasks_(number_of(options, "ntasks")),
        tasks_per_node_(number_of(options, "ntasks-per-node")) {}

  std::optional<SbatchFinding> finding() {
    if (auto found = repeated()) return found;
    if (auto found = twice_per_node()) return found;
    node_ = gres_ ? gres_ : per_node_;
    if (auto found = total()) return found;
    return tasks();
  }

 private:
  [[nodiscard]] static SbatchFinding at(std::initializer_list<const GivenOption*> involved,
                                        std::string id, std::string text) {
    int line = 0;
    for (const GivenOption* const option : involved) line = std::max(line, option->line);
    return {line, std::move(text), std::move(id)};
  }

  // A second #SBATCH --gres replaces the first, whatever that asked for.
  [[nodiscard]] std::optional<SbatchFinding> repeated() const {
    const GivenOption* const last = find_option(options_, "gres");
    if (last == nullptr || last->line == 0) return std::nullopt;
    for (const GivenOption& option : options_) {
      if (option.name != "gres" || option.line == 0 || &option == last) continue;
      if (option.value == last->value) continue;
      return at({last}, "gres-twice",
                "only the last --gres counts, and --gres=" + base::printable(option.value) +
                    " of line " + std::to_string(option.line) +
                    " is dropped; write both with a comma: --gres=A,B");
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<SbatchFinding> twice_per_node() const {
    if (!gres_ || !per_node_) return std::nullopt;
    if (gres_->type.empty() != per_node_->type.empty()) {
      return at({gres_->option, per_node_->option}, "gpu-conflict",
                gres_->text() + " and " + per_node_->text() +
                    " name GPUs with and without a type, which Slurm refuses; keep one of them");
    }
    if (gres_->type != per_node_->type || gres_->count == per_node_->count) return std::nullopt;
    return at({gres_->option, per_node_->option}, "gpu-conflict",
              "the job gets " + base::plural(gres_->count, "GPU") + " a node: of " + gres_->text() +
                  " and " + per_node_->text() + " Slurm drops the second; keep one of them");
  }

  [[nodiscard]] std::optional<SbatchFinding> total() const {
    if (!all_) return std::nullopt;
    const std::string refused = ", so sbatch refuses the job; ";
    if (node_ && all_->count % node_->count != 0) {
      return at({all_->option, node_->option}, "gpu-conflict",
                all_->text() + " is for the whole job and not a multiple of " + node_->text() +
                    refused + "drop --gpus, or set it to nodes × GPUs a node");
    }
    if (node_ && nodes_ && all_->count != *nodes_ * node_->count) {
      return at({all_->option, node_->option}, "gpu-conflict",
                all_->text() + " is for the whole job, and " + node_->text() + " on " +
                    base::plural(*nodes_, "node") + " makes " +
                    std::to_string(*nodes_ * node_->count) + refused + "drop --gpus");
    }
    if (nodes_ && all_->count < *nodes_) {
      return at({all_->option, find_option(options_, "nodes")}, "gpu-conflict",
                all_->text() + " is for the whole job, fewer than its " +
                    base::plural(*nodes_, "node") + refused + "use --gpus-per-node");
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<SbatchFinding> tasks() const {
    if (!per_task_) return std::nullopt;
    const GivenOption* const option = per_task_->option;
    if (!all_ && !node_ && !given("ntasks") && !given("nodes") && !given("ntasks-per-node") &&
        !given("gres") && !given("gpus") && !given("gpus-per-node") &&
        !given("ntasks-per-socket") && !given("gpus-per-socket") && !given("nodelist") &&
        !given("nodefile")) {
      return at({option}, "gpu-conflict",
                "sbatch refuses " + per_task_->text() +
                    " without a number of tasks; add --ntasks or --nodes");
    }
    if (all_) return of_all();
    return node_ ? of_node() : std::nullopt;
  }

  [[nodiscard]] std::optional<SbatchFinding> of_all() const {
    auto asked = tasks_;
    if (!asked && nodes_ && tasks_per_node_) asked = *nodes_ * *tasks_per_node_;
    if (!asked || *asked * per_task_->count == all_->count) return std::nullopt;
    return at({all_->option, per_task_->option}, "gpu-conflict",
              all_->text() + " is for the whole job, and " + base::plural(*asked, "task") +
                  " with " + per_task_->text() + " make " +
                  std::to_string(*asked * per_task_->count) +
                  ", so sbatch refuses the job; drop --gpus");
  }

  // With both, Slurm starts exactly so many tasks on each node that each GPU has one.
  [[nodiscard]] std::optional<SbatchFinding> of_node() const {
    const auto fitting = node_->count / per_task_->count;
    std::string asked;
    if (node_->count % per_task_->count != 0) {
      asked = "the first is not a multiple of the second";
    } else if (tasks_per_node_) {
      if (*tasks_per_node_ != fitting)
        asked = "--ntasks-per-node=" + std::to_string(*tasks_per_node_);
    } else if (nodes_ && !given("ntasks-per-socket") && !given("ntasks-per-core")) {
      const auto all = given("ntasks") ? tasks_ : nodes_;
      if (all && *all != *nodes_ * fitting)
        asked =
            "the job has " + base::plural(*all, "task") + " on " + base::plural(*nodes_, "node");
    }
    if (asked.empty()) return std::nullopt;
    return at({node_->option, per_task_->option}, "gpu-conflict",
              node_->text() + " with " + per_task_->text() + " wants " +
                  (node_->count % per_task_->count == 0
                       ? "exactly " + base::plural(fitting, "task") + " a node"
                       : "whole tasks") +
                  ", but " + asked + ", so Slurm refuses the job; drop --gpus-per-task");
  }

  [[nodiscard]] bool given(View name) const { return find_option(options_, name) != nullptr; }

  const std::vector<GivenOption>& options_;
  std::optional<GpuCount> gres_, per_node_, all_, per_task_;
  std::optional<GpuCount> node_;  // of the two above the one that counts
  std::optional<std::int64_t> nodes_, tasks_, tasks_per_node_;
};

// Of srun's options those whose value is the next word, and those that stand alone.
constexpr View kLettersWithValue = "ABCDGJLMNSTUWabcdegimnopqrtwx";
constexpr View kAlone[] = {"label",
                           "exact",
                           "exclusive",
                           "overlap",
                           "unbuffered",
                           "no-kill",
                           "quiet",
                           "verbose",
                           "pty",
                           "multi-prog",
                           "overcommit",
                           "contiguous",
                           "spread-job",
                           "preserve-env",
                           "whole",
                           "kill-on-bad-exit",
                           "container-writable",
                           "no-container-mount-home",
                           "container-mount-home",
                           "wait-all-nodes",
                           "oversubscribe"};
// With one of these the step has tasks, CPUs or a binding of its own.
constexpr View kOwnShape[] = {
    "cpus-per-task", "cpu-bind",     "cpu_bind",         "ntasks",    "ntasks-per-node",
    "nodes",         "nodelist",     "relative",         "hint",      "cpus-per-gpu",
    "mem-bind",      "distribution", "threads-per-core", "het-group", "multi-prog",
    "jobid",         "tres-per-task"};
constexpr View kOwnLetters = "cnNwrm";

// Programs that do not care for CPUs.
constexpr View kSmall[] = {"hostname", "true", "mkdir", "echo", "date",       "ls",    "cp",
                           "rm",       "cat",  "rsync", "df",   "nvidia-smi", "sleep", "env"};

template <std::size_t N>
bool is_one_of(View text, const View (&names)[N]) {
  return std::find(std::begin(names), std::end(names), text) != std::end(names);
}

std::vector<std::string> words_of(View text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

// Whether a command may begin behind `before`.
bool begins_command(View before) {
  while (!before.empty() && std::isspace(static_cast<unsigned char>(before.back())) != 0)
    before.remove_suffix(1);
  if (before.empty() || View(";&|(`{!").find(before.back()) != View::npos) return true;
  const std::size_t space = before.find_last_of(" \t;&|(");
  const View last = before.substr(space == View::npos ? 0 : space + 1);
  constexpr View kBefore[] = {"exec", "time", "then", "do", "else", "nohup", "if"};
  return is_one_of(last, kBefore);
}

// The words behind the first srun that stands where a command begins.
std::optional<std::vector<std::string>> srun_words(View command) {
  constexpr View kName = "srun";
  for (std::size_t at = 0; (at = command.find(kName, at)) != View::npos; at += kName.size()) {
    const std::size_t end = at + kName.size();
    if (end >= command.size() || std::isspace(static_cast<unsigned char>(command[end])) == 0)
      continue;
    if (begins_command(command.substr(0, at))) return words_of(command.substr(end));
  }
  return std::nullopt;
}

// Whether srun, called with these words, runs a program with the job's tasks.
bool takes_the_jobs_tasks(const std::vector<std::string>& words) {
  for (std::size_t at = 0; at < words.size(); ++at) {
    const View word = words[at];
    if (word.front() == '$' || word.substr(0, 2) == "\"$" || word.front() == '`') return false;
    if (word.size() < 2 || word.front() != '-') {
      const View program = word.substr(word.rfind('/') == View::npos ? 0 : word.rfind('/') + 1);
      return !is_one_of(program, kSmall);
    }
    if (word[1] != '-') {
      if (kOwnLetters.find(word[1]) != View::npos) return false;
      if (word.size() == 2 && kLettersWithValue.find(word[1]) != View::npos) ++at;
      continue;
    }
    const std::size_t equals = word.find('=');
    const View name = word.substr(2, equals == View::npos ? View::npos : equals - 2);
    if (is_one_of(name, kOwnShape)) return false;
    if (equals == View::npos && !is_one_of(name, kAlone)) ++at;
  }
  return false;  // it came without a program, as far as can be seen
}

// Options about GPUs among srun's words, before its program; nothing where a variable may hold
// more.
std::optional<std::vector<GivenOption>> gpu_options_of(const std::vector<std::string>& words) {
  constexpr View kNames[] = {"gres", "gpus", "gpus-per-node", "gpus-per-task"};
  std::vector<GivenOption> options;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const View word = words[at];
    if (word.find('$') != View::npos || word.find('`') != View::npos) return std::nullopt;
    if (word.size() < 2 || word.front() != '-') break;
    const bool is_short = word[1] != '-';
    const std::size_t equals = is_short ? 2 : word.find('=');
    const bool apart = equals >= word.size();
    const View name = is_short ? (word[1] == 'G' ? View("gpus") : View())
                               : word.substr(2, apart ? View::npos : equals - 2);
    const bool takes_next = apart && (is_short ? kLettersWithValue.find(word[1]) != View::npos
                                               : !is_one_of(name, kAlone));
    const std::string value(apart ? (takes_next && at + 1 < words.size() ? words[at + 1] : "")
                                  : word.substr(is_short ? 2 : equals + 1));
    if (is_one_of(name, kNames)) options.push_back({std::string(name), value, 0});
    if (takes_next) ++at;
  }
  return options;
}

// What becomes of a step that asks for GPUs in its own way; empty: it gets them.
std::string loss_of(const GpuCount& job, const GpuCount& step, View job_name, View step_name) {
  const bool same = job_name == step_name;
  if (!job.type.empty() && !step.type.empty() && step_name == "gpus-per-task" && !same) {
    return "its tasks see no GPU at all; drop the option: a step without one sees all GPUs of its "
           "job";
  }
  if (!job.type.empty() && step.type.empty() && !same) {
    return "srun refuses it (GRES with and without a type); drop the option, or name the type";
  }
  if (job.type.empty() && !step.type.empty()) {
    return "srun refuses it, since the job's GPUs have no type; drop the type, or the option";
  }
  const auto per_node = [](View name) { return name == "gres" || name == "gpus-per-node"; };
  if (per_node(job_name) && per_node(step_name) && step.count > job.count) {
    return "srun refuses it, since the job has " + base::plural(job.count, "GPU") + " a node";
  }
  return "";
}

// The word that ends a here-document which begins in this command; empty: none does.
std::string heredoc_end(View command) {
  const std::size_t at = command.find("<<");
  if (at == View::npos || command.substr(at, 3) == "<<<") return "";
  std::string word;
  for (const char c : command.substr(at + 2)) {
    const bool part = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (part) word += c;
    if (!part && !word.empty()) break;
  }
  return word;
}

struct StepCall {
  int line = 0;
  std::vector<std::string> words;  // behind "srun"
};
std::vector<StepCall> srun_calls(const SbatchScript& script) {
  std::vector<StepCall> calls;
  std::string inside;  // the end of the here-document that is read
  for (const ScriptCommand& command : script.commands) {
    if (!inside.empty()) {
      if (command.text == inside) inside.clear();
      continue;
    }
    inside = heredoc_end(command.text);
    if (auto words = srun_words(command.text)) calls.push_back({command.line, std::move(*words)});
  }
  return calls;
}

}  // namespace

std::optional<SbatchFinding> time_finding(const std::vector<GivenOption>& options) {
  const GivenOption* const option = find_option(options, "time");
  if (option == nullptr) return std::nullopt;
  const std::string& value = option->value;
  const std::size_t colon = value.find(':');
  if (colon == std::string::npos || colon < 1 || value.size() != colon + 3) return std::nullopt;
  for (std::size_t at = 0; at < value.size(); ++at) {
    if (at != colon && !is_digit(value[at])) return std::nullopt;
  }
  const auto seconds = slurm::parse_slurm_duration(value);
  if (!seconds || *seconds <= 0 || *seconds >= kLongestMistake) return std::nullopt;
  const auto whole = static_cast<std::int64_t>(*seconds);
  const std::string minutes = whole < kMinute ? "" : base::plural(whole / kMinute, "minute");
  const std::string rest = whole % kMinute == 0 ? "" : base::plural(whole % kMinute, "second");
  return SbatchFinding{option->line,
                       "--time=" + value + " is minutes and seconds: " + minutes +
                           (minutes.empty() || rest.empty() ? "" : " ") + rest +
                           "; with hours it is --time=" + value + ":00",
                       "time-minutes"};
}

std::optional<SbatchFinding> gpu_finding(const std::vector<GivenOption>& options) {
  return GpuRules(options).finding();
}

std::optional<SbatchFinding> step_cpus_finding(
    const SbatchScript& script, const std::vector<GivenOption>& options,
    const std::map<std::string, std::string>& environment) {
  const auto cpus = number_of(options, "cpus-per-task");
  if (!cpus || *cpus == 1 || environment.count("SRUN_CPUS_PER_TASK") > 0) return std::nullopt;
  const auto per_node = number_of(options, "ntasks-per-node");
  const auto tasks = number_of(options, "ntasks");
  const auto nodes = number_of(options, "nodes");
  const bool several = per_node ? *per_node > 1 : tasks && *tasks > nodes.value_or(1);
  if (!several) return std::nullopt;
  for (const ScriptCommand& command : script.commands) {
    if (command.text.find("SRUN_CPUS_PER_TASK") != std::string::npos) return std::nullopt;
  }
  for (const StepCall& call : srun_calls(script)) {
    if (!takes_the_jobs_tasks(call.words)) continue;
    return SbatchFinding{
        call.line,
        "this srun does not take --cpus-per-task=" + std::to_string(*cpus) +
            " from its job (since Slurm 22.05): its tasks get 1 CPU each, or share all of them, "
            "as the cluster binds; write srun --cpus-per-task=$SLURM_CPUS_PER_TASK",
        "srun-cpus"};
  }
  return std::nullopt;
}

std::optional<SbatchFinding> step_gpus_finding(const SbatchScript& script,
                                               const std::vector<GivenOption>& options) {
  std::optional<GpuCount> job;
  std::string_view job_name;
  for (const std::string_view name : {"gres", "gpus-per-node", "gpus", "gpus-per-task"}) {
    if (job || find_option(options, name) == nullptr) continue;
    job = gpus_of(options, name);
    if (!job) return std::nullopt;  // several types, or none that can be read
    job_name = name;
  }
  if (!job) return std::nullopt;
  for (const StepCall& call : srun_calls(script)) {
    const auto own = gpu_options_of(call.words);
    if (!own || own->size() != 1) continue;
    const auto step = gpus_of(*own, own->front().name);
    if (!step) continue;
    const std::string loss = loss_of(*job, *step, job_name, own->front().name);
    if (loss.empty()) continue;
    return SbatchFinding{
        call.line, "this srun has " + step->text() + " in a job with " + job->text() + ": " + loss,
        "srun-gpus"};
  }
  return std::nullopt;
}

bool srun_forgets_cpus(const slurm::SlurmVersion& version) {
  return version.at_least(22, 5) && !version.at_least(23, 11);
}

std::string size_hint(const std::string& refusal, std::size_t script_bytes) {
  // The words of slurmctld for a script above max_script_size, and for a path that is too long.
  const bool too_long = refusal.find("parameter too long") != std::string::npos ||
                        refusal.find("Pathname of a file") != std::string::npos;
  if (!too_long || script_bytes < kScriptBytes) return "";
  return "the script has " + std::to_string(script_bytes) +
         " bytes, and slurmctld takes 4 MiB (unless max_script_size in SchedulerParameters says "
         "otherwise); put what is large into a file that the script reads";
}

}  // namespace regatta::orchestrator::sbatch
