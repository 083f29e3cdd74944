#include "orchestrator/batch/batch_script.h"

#include <algorithm>

#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "orchestrator/batch/job_script.h"

namespace regatta::orchestrator::batch {
namespace {

constexpr std::size_t kMostScriptBytes = 4'000'000;      // Slurm's max_script_size
constexpr std::size_t kMostSubmitLineBytes = 1'000'000;  // Slurm's max_submit_line_size
constexpr std::size_t kMostArgumentBytes = 131'071;      // Linux: MAX_ARG_STRLEN, less its NUL
constexpr std::size_t kMostPathBytes = 3900;             // PATH_MAX, less what is put behind it

// What a submission hands on of its own environment.
constexpr std::string_view kSubmitted[] = {"PATH", "HOME", "USER",       "LOGNAME",   "SHELL",
                                           "LANG", "TZ",   "KRB5CCNAME", "SLURM_CONF"};

// job.sh around its example: a head that runs before the user's own lines, and a body that runs
// after them and trusts nothing that they left behind.
constexpr std::string_view kExample = "\n# Example of a job:",
                           kExampleEnd = "# End of the example.\n";
constexpr std::size_t kHeadBytes = kJobScript.find(kExample);
constexpr std::size_t kBodyBegin = kJobScript.find(kExampleEnd) + kExampleEnd.size();
static_assert(kHeadBytes != std::string_view::npos && kHeadBytes < kBodyBegin &&
                  kJobScript.find(kExampleEnd) != std::string_view::npos,
              "job.sh has an example, which batch_script() replaces");
constexpr std::string_view kHead = kJobScript.substr(0, kHeadBytes);
constexpr std::string_view kBody = kJobScript.substr(kBodyBegin);

[[noreturn]] void refuse(const std::string& what, std::string_view value, const std::string& next) {
  throw base::Error(base::Code::User, what + " '" + base::printable(value.substr(0, 80)) +
                                          "' cannot be handed to Slurm; " + next);
}

void check_path(const std::string& what, const base::Path& path) {
  const std::string& text = path.native();
  const bool control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (!path.is_absolute()) refuse(what, text, "use an absolute path");
  if (control || text.size() > kMostPathBytes) {
    refuse(what, text,
           "use at most " + std::to_string(kMostPathBytes) + " bytes and no control characters");
  }
}

bool is_variable_name(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && (name.front() < '0' || name.front() > '9') &&
         std::all_of(name.begin(), name.end(), good);
}

void check_job(const SlurmJob& job) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (job.token.size() != 16 || !std::all_of(job.token.begin(), job.token.end(), is_hex)) {
    refuse("the token", job.token, "use 16 hexadecimal digits");
  }
  if (job.run_name.find('\0') != std::string::npos) {
    refuse("the name", job.run_name, "use one with no NUL");
  }
  check_places(job.run_directory, job.trainer);
  if (!job.slurm_directory.empty()) check_path("Slurm's directory", job.slurm_directory);
}

// "NAME=value" of the plan's and the run's variables, where the run's win.
std::vector<std::string> assignments(const SlurmJob& job) {
  std::map<std::string, std::string> all = job.resources.environment;
  all.insert(job.plan_environment.begin(), job.plan_environment.end());
  std::vector<std::string> words;
  for (const auto& [name, value] : all) {
    if (!is_variable_name(name)) {
      refuse("the variable", name, "use letters, digits and _, not starting with a digit");
    }
    words.push_back(name + "=" + value);
    if (words.back().size() > kMostArgumentBytes) {
      refuse("the variable", name,
             "it has " + std::to_string(value.size()) + " bytes; put it in a file");
    }
  }
  return words;
}

bool has_range(const trainer::contract::SlurmResources& resources) {
  return resources.max_nodes > resources.min_nodes;
}

// Options of the srun that starts the ranks, and of the one that proves the nodes.
std::vector<std::string> step_options(const trainer::contract::SlurmResources& resources) {
  std::vector<std::string> options;
  // srun does not take it over from sbatch since Slurm 22.05, and must not before that where a task
  // of the job is a whole node's part.
  if (resources.cpus_per_rank > 0 || has_range(resources)) {
    options.push_back("--cpus-per-task=" + std::to_string(std::max(1, resources.cpus_per_rank)));
  }
  const trainer::contract::SlurmContainer& container = resources.container;
  if (!container.image.empty()) options.push_back("--container-image=" + container.image);
  if (!container.mounts.empty()) {
    options.push_back("--container-mounts=" + base::join(container.mounts, ","));
  }
  options.insert(options.end(), container.arguments.begin(), container.arguments.end());
  return options;
}

// Slurm's pattern for the job's output: % begins a replacement there.
std::string output_pattern(const SlurmJob& job) {
  std::string pattern;
  for (const char c : job.run_directory.native()) {
    pattern += c;
    if (c == '%') pattern += '%';
  }
  return pattern + "/submit/" + job.token + "-%j.out";
}

void append_resources(const SlurmJob& job, std::vector<std::string>* arguments) {
  const trainer::contract::SlurmResources& resources = job.resources;
  const auto add = [arguments](const std::string& name, const std::string& value) {
    if (!value.empty()) arguments->push_back("--" + name + "=" + value);
  };
  const auto add_number = [&add](const std::string& name, int value) {
    if (value > 0) add(name, std::to_string(value));
  };
  add("partition", resources.partition);
  add("account", resources.account);
  add("qos", resources.qos);
  add("reservation", resources.reservation);
  add_number("time", resources.time_limit_minutes);
  add("nodes", std::to_string(resources.min_nodes) +
                   (has_range(resources) ? "-" + std::to_string(resources.max_nodes) : ""));
  if (has_range(resources)) {
    // With tasks per node Slurm (22.05) counts on those of the fewest nodes, and never gives more
    // of them. So a node's part is one task here; srun is told the ranks.
    add_number("cpus-per-task", resources.ranks_per_node * std::max(1, resources.cpus_per_rank));
  } else {
    add_number("ntasks-per-node", resources.ranks_per_node);
    add_number("cpus-per-task", resources.cpus_per_rank);
  }
  // Not per task: every rank sees all GPUs of its node, or NCCL could not go directly between them.
  if (const int gpus = resources.ranks_per_node * resources.gpus_per_rank; gpus > 0) {
    const std::string& type = resources.gpu_type;
    add("gpus-per-node", (type.empty() ? "" : type + ":") + std::to_string(gpus));
  }
  if (resources.memory_per_node_mib) {
    const std::int64_t mib = *resources.memory_per_node_mib;
    add("mem", std::to_string(mib) + (mib > 0 ? "M" : ""));
  }
  add("constraint", resources.constraint);
  std::vector<std::string> exclude = resources.exclude;
  exclude.insert(exclude.end(), job.exclude.begin(), job.exclude.end());
  add("exclude", base::join(exclude, ","));
  add("switches", job.switches.empty() ? resources.switches : job.switches);
  add_number("segment", job.segment);
}

// All but the script's path.
std::vector<std::string> options_of(const SlurmJob& job) {
  check_job(job);
  std::vector<std::string> arguments = {
      "--parsable",
      "--comment=" + (job.resources.comment.empty() ? "" : job.resources.comment + " ") +
          slurm_job_comment(job.token),
      "--job-name=" + (job.run_name.empty() ? "regatta" : base::printable(job.run_name)),
      "--chdir=" + job.run_directory.native(),
      "--output=" + output_pattern(job),
      "--open-mode=append",
      "--export=ALL",
      job.resources.requeue ? "--requeue" : "--no-requeue",
  };
  if (job.signal_seconds > 0) {
    arguments.push_back("--signal=USR2@" + std::to_string(std::min(job.signal_seconds, 65535)));
  }
  append_resources(job, &arguments);
  arguments.insert(arguments.end(), job.resources.options.begin(), job.resources.options.end());
  std::size_t bytes = script_path(job).native().size() + 1;
  for (const std::string& argument : arguments) {
    bytes += argument.size() + 1;
    if (argument.find('\0') != std::string::npos || argument.size() > kMostArgumentBytes) {
      refuse("the option", argument, "use at most 128 KiB and no NUL");
    }
  }
  if (bytes > kMostSubmitLineBytes) {
    refuse("a command of " + std::to_string(bytes) + " bytes for run", job.run_name,
           "use at most " + std::to_string(kMostSubmitLineBytes));
  }
  return arguments;
}

std::string array(const std::string& name, const std::vector<std::string>& words) {
  return name + "=(" + base::shell_words(words) + ")\n";
}

}  // namespace

std::string_view batch_script_head() { return kHead; }
std::string_view batch_script_body() { return kBody; }

std::string slurm_job_comment(const std::string& token) { return "regatta:" + token; }

void check_places(const base::Path& runs_directory, const base::Path& trainer) {
  check_path("the run directory", runs_directory);
  check_path("the trainer", trainer);
  if (runs_directory.native().find('\\') != std::string::npos) {
    refuse("the run directory", runs_directory.native(),
           "use one without backslashes: Slurm expands nothing in the name of an output that has "
           "one");
  }
}

base::Path script_path(const SlurmJob& job) {
  return job.run_directory / "submit" / (job.token + ".sh");
}

std::string batch_script(const SlurmJob& job) {
  const std::vector<std::string> options = options_of(job);
  std::string text(kHead);
  if (!job.resources.setup.empty()) {
    // Not within a function, where `declare` would be local.
    text += "before_setup\neval " + base::shell_word(job.resources.setup) + "\nafter_setup $?\n";
  }
  const auto assign = [&text](const std::string& name, const std::string& value) {
    text += name + "=" + base::shell_word(value) + "\n";
  };
  text += "\n# This job.\n";
  assign("token", job.token);
  assign("run_name", base::printable(job.run_name));
  assign("run_directory", job.run_directory.native());
  assign("trainer", job.trainer.native());
  assign("slurm_directory", job.slurm_directory.native());
  assign("script", script_path(job).native());
  assign("requeue", job.resources.requeue ? "yes" : "no");
  text += "ranks_per_node=" + std::to_string(job.resources.ranks_per_node) + "\n";
  text += "pause_seconds=" + std::to_string(job.pause_seconds) + "\n";
  text += "farewell_seconds=" + std::to_string(job.farewell_seconds) + "\n";
  text += array("environment", assignments(job));
  text += array("step_options", step_options(job.resources));
  text += array("sbatch_options", options);
  text += kBody;
  if (text.size() > kMostScriptBytes) {
    refuse("a script of " + std::to_string(text.size()) + " bytes for run", job.run_name,
           "shorten slurm.setup and slurm.environment");
  }
  return text;
}

std::vector<std::string> sbatch_arguments(const SlurmJob& job) {
  std::vector<std::string> arguments = options_of(job);
  arguments.push_back(script_path(job).native());
  return arguments;
}

bool may_reach_job(std::string_view variable) {
  return variable.substr(0, 3) == "LC_" ||
         std::find(std::begin(kSubmitted), std::end(kSubmitted), variable) != std::end(kSubmitted);
}

}  // namespace regatta::orchestrator::batch
