#include "orchestrator/sbatch/sbatch_options.h"

#include <algorithm>
#include <utility>

namespace regatta::orchestrator::sbatch {
namespace {

using View = std::string_view;

constexpr SbatchOption kOptions[] = {
    {"account", 'A'},
    {"acctg-freq"},
    {"array", 'a'},
    {"batch"},
    {"bb"},
    {"bbf"},
    {"begin", 'b'},
    {"chdir", 'D'},
    {"cluster-constraint"},
    {"clusters", 'M'},
    {"comment"},
    {"consolidate-segments", 0, Argument::None},
    {"constraint", 'C'},
    {"container"},
    {"container-id"},
    {"contiguous", 0, Argument::None},
    {"core-spec", 'S'},
    {"cores-per-socket"},
    {"cpu-freq"},
    {"cpus-per-gpu"},
    {"cpus-per-task", 'c'},
    {"deadline"},
    {"delay-boot"},
    {"dependency", 'd'},
    {"distribution", 'm'},
    {"error", 'e'},
    {"exclude", 'x'},
    {"exclusive", 0, Argument::Optional},
    {"export"},
    {"export-file"},
    {"extra"},
    {"extra-node-info", 'B'},
    {"get-user-env", 0, Argument::Optional},
    {"gid"},
    {"gpu-bind"},
    {"gpu-freq"},
    {"gpus", 'G'},
    {"gpus-per-node"},
    {"gpus-per-socket"},
    {"gpus-per-task"},
    {"gres"},
    {"gres-flags"},
    {"help", 'h', Argument::None},
    {"hint"},
    {"hold", 'H', Argument::None},
    {"ignore-pbs", 0, Argument::None},
    {"immediate", 'I', Argument::Optional},
    {"input", 'i'},
    {"job-name", 'J'},
    {"kill-on-invalid-dep"},
    {"licenses", 'L'},
    {"mail-type"},
    {"mail-user"},
    {"mcs-label"},
    {"mem"},
    {"mem-bind"},
    {"mem-per-cpu"},
    {"mem-per-gpu"},
    {"mincpus"},
    {"network"},
    {"nice", 0, Argument::Optional},
    {"no-kill", 'k', Argument::Optional},
    {"no-requeue", 0, Argument::None},
    {"nodefile", 'F'},
    {"nodelist", 'w'},
    {"nodes", 'N'},
    {"ntasks", 'n'},
    {"ntasks-per-core"},
    {"ntasks-per-gpu"},
    {"ntasks-per-node"},
    {"ntasks-per-socket"},
    {"oom-kill-step", 0, Argument::Optional},
    {"open-mode"},
    {"output", 'o'},
    {"overcommit", 'O', Argument::None},
    {"oversubscribe", 's', Argument::None},
    {"parsable", 0, Argument::None},
    {"partition", 'p'},
    {"power"},
    {"prefer"},
    {"priority"},
    {"profile"},
    {"propagate", 0, Argument::Optional},
    {"qos", 'q'},
    {"quiet", 'Q', Argument::None},
    {"reboot", 0, Argument::None},
    {"requeue", 0, Argument::None},
    {"reservation"},
    {"resv-ports", 0, Argument::Optional},
    {"segment"},
    {"signal"},
    {"sockets-per-node"},
    {"spread-job", 0, Argument::None},
    {"spread-segments", 0, Argument::None},
    {"stepmgr", 0, Argument::None},
    {"switches"},
    {"test-only", 0, Argument::None},
    {"thread-spec"},
    {"threads-per-core"},
    {"time", 't'},
    {"time-min"},
    {"tmp"},
    {"tres-bind"},
    {"tres-per-job"},
    {"tres-per-task"},
    {"uid"},
    {"usage", 0, Argument::None},
    {"use-min-nodes", 0, Argument::None},
    {"verbose", 'v', Argument::None},
    {"version", 'V', Argument::None},
    {"wait", 'W', Argument::None},
    {"wait-all-nodes"},
    {"wckey"},
    {"wrap"},
};

// Of `regatta sbatch` alone; with a value only as --name=value.
constexpr View kOwnOptions[] = {"freeze", "freeze-limit"};

struct Variable {
  const char* variable;
  View option;
};
// Of sbatch(1)'s input environment variables those whose options matter to what is added.
constexpr Variable kVariables[] = {
    {"SBATCH_BATCH", "batch"},
    {"SLURM_CLUSTERS", "clusters"},
    {"SBATCH_CLUSTERS", "clusters"},
    {"SBATCH_CLUSTER_CONSTRAINT", "cluster-constraint"},
    {"SBATCH_CONSTRAINT", "constraint"},
    {"SBATCH_ERROR", "error"},
    {"SBATCH_GPUS", "gpus"},
    {"SBATCH_GPUS_PER_NODE", "gpus-per-node"},
    {"SBATCH_GPUS_PER_TASK", "gpus-per-task"},
    {"SBATCH_GRES", "gres"},
    {"SBATCH_INPUT", "input"},
    {"SBATCH_NO_REQUEUE", "no-requeue"},
    {"SBATCH_OPEN_MODE", "open-mode"},
    {"SBATCH_OUTPUT", "output"},
    {"SBATCH_PARTITION", "partition"},
    {"SBATCH_REQ_SWITCH", "switches"},
    {"SBATCH_RESERVATION", "reservation"},
    {"SBATCH_SIGNAL", "signal"},
    {"SBATCH_TIMELIMIT", "time"},
    {"SBATCH_TRES_PER_JOB", "tres-per-job"},
    {"SBATCH_WAIT", "wait"},
};

// As getopt_long does: the name, or a beginning that only one name has.
const SbatchOption* find_long(View name) {
  const SbatchOption* found = nullptr;
  int beginnings = 0;
  for (const SbatchOption& option : kOptions) {
    if (option.name == name) return &option;
    if (name.empty() || option.name.substr(0, name.size()) != name) continue;
    found = &option;
    ++beginnings;
  }
  return beginnings == 1 ? found : nullptr;
}

const SbatchOption* find_short(char letter) {
  for (const SbatchOption& option : kOptions) {
    if (option.letter == letter) return &option;
  }
  return nullptr;
}

bool is_option(View word) { return word.size() > 1 && word.front() == '-'; }

class CommandReader {
 public:
  CommandReader(const std::vector<std::string>& words,
                const std::function<bool(const std::string&)>& is_script)
      : words_(words), is_script_(is_script) {}

  SbatchCommand read() {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_++];
      if (word == "--") {
        if (at_ < words_.size()) take_script(at_);
        break;
      }
      if (word == ":") {
        out_.heterogeneous = true;
        break;
      }
      if (!is_option(word)) {
        take_script(at_ - 1);
        break;
      }
      if (word[1] == '-') {
        read_long(View(word).substr(2));
      } else {
        read_short(View(word).substr(1));
      }
    }
    // Options of a job after ':' are another job's; the script comes after the last of them.
    if (out_.heterogeneous) {
      for (; at_ < words_.size() && !out_.script; ++at_) {
        if (is_script_(words_[at_])) take_script(at_);
      }
    }
    if (!out_.script) out_.script_at = words_.size();
    return std::move(out_);
  }

 private:
  void take_script(std::size_t at) {
    out_.script = words_[at];
    out_.script_at = at;
  }

  void give(View name, std::string value) {
    out_.options.push_back({std::string(name), std::move(value), 0});
  }

  void read_long(View text) {
    const std::size_t equals = text.find('=');
    const View name = text.substr(0, equals);
    if (std::find(std::begin(kOwnOptions), std::end(kOwnOptions), name) != std::end(kOwnOptions)) {
      out_.own_words.push_back(at_ - 1);
      give(name, equals == View::npos ? "" : std::string(text.substr(equals + 1)));
      return;
    }
    const SbatchOption* const option = find_long(name);
    if (equals != View::npos) {
      give(option == nullptr ? name : option->name, std::string(text.substr(equals + 1)));
    } else if (option == nullptr) {
      const bool has_value =
          at_ < words_.size() && !is_option(words_[at_]) && !is_script_(words_[at_]);
      give(name, has_value ? words_[at_++] : "");
    } else {
      give(option->name, option->argument == Argument::Required ? next() : "");
    }
  }

  void read_short(View letters) {
    for (std::size_t i = 0; i < letters.size(); ++i) {
      const SbatchOption* const option = find_short(letters[i]);
      if (option == nullptr || option->argument == Argument::None) {
        give(option == nullptr ? letters.substr(i, 1) : option->name, "");
        continue;
      }
      const View rest = letters.substr(i + 1);
      const bool wants = option->argument == Argument::Required && rest.empty();
      give(option->name, wants ? next() : std::string(rest));
      return;
    }
  }

  std::string next() { return at_ < words_.size() ? words_[at_++] : ""; }

  const std::vector<std::string>& words_;
  const std::function<bool(const std::string&)>& is_script_;
  std::size_t at_ = 0;
  SbatchCommand out_;
};

}  // namespace

std::span<const SbatchOption> sbatch_options() { return kOptions; }

SbatchCommand parse_sbatch_command(const std::vector<std::string>& arguments,
                                   const std::function<bool(const std::string&)>& is_script) {
  return CommandReader(arguments, is_script).read();
}

std::vector<GivenOption> options_that_count(std::vector<GivenOption> script,
                                            const std::map<std::string, std::string>& environment,
                                            const std::vector<GivenOption>& command_line) {
  for (const Variable& variable : kVariables) {
    const auto set = environment.find(variable.variable);
    if (set == environment.end()) continue;
    std::erase_if(script, [&](const auto& option) { return option.name == variable.option; });
    script.push_back({std::string(variable.option), set->second, 0});
  }
  script.insert(script.end(), command_line.begin(), command_line.end());
  return script;
}

const GivenOption* find_option(const std::vector<GivenOption>& options, View name) {
  const auto found = std::find_if(options.rbegin(), options.rend(),
                                  [&](const GivenOption& option) { return option.name == name; });
  return found == options.rend() ? nullptr : &*found;
}

}  // namespace regatta::orchestrator::sbatch
