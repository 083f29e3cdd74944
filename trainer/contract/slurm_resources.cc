#include "trainer/contract/slurm_resources.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/ascii.h"
#include "base/text.h"

namespace regatta::trainer::contract {
namespace {

using base::Table;

constexpr int kMostNodes = 65536;               // Slurm's own limit
constexpr int kMostPerNode = 4096;              // ranks, or CPUs of a rank
constexpr int kMostGpusPerRank = 64;            //
constexpr int kMostMinutes = 366 * 24 * 60;     // a year
constexpr std::int64_t kMostMib = 1LL << 30U;   // 1 PiB
constexpr std::size_t kMostWordBytes = 1024;    // of names and hostlists
constexpr std::size_t kMostTextBytes = 65536;   // of the setup, or of one variable
constexpr std::size_t kMostItems = 256;         // of a list
constexpr std::size_t kMostAllBytes = 262'144;  // of all variables: they share a limit with argv

constexpr std::string_view kWordSigns = "._-+:@/=";
constexpr std::string_view kTypeSigns = "._-";
constexpr std::string_view kHostSigns = "._-,[]";
constexpr std::string_view kConstraintSigns = "._-+:@/=&|!*,()[]";

// Options that Regatta gives itself, or that would make sbatch do something else than submit this
// script; with what to use instead.
struct TakenOption {
  std::string_view name;
  std::string_view instead;
};
constexpr std::string_view kOurs = "Regatta sets it";
constexpr TakenOption kTakenOptions[] = {
    {"job-name", kOurs},
    {"comment", "use slurm.comment"},
    {"output", kOurs},
    {"error", kOurs},
    {"input", kOurs},
    {"open-mode", kOurs},
    {"parsable", kOurs},
    {"export", kOurs},
    {"export-file", kOurs},
    {"get-user-env", kOurs},
    {"chdir", kOurs},
    {"signal", kOurs},
    {"array", "use several runs"},
    {"wrap", kOurs},
    {"wait", kOurs},
    {"test-only", kOurs},
    {"clusters", kOurs},
    {"uid", kOurs},
    {"gid", kOurs},
    {"help", kOurs},
    {"usage", kOurs},
    {"version", kOurs},
    {"quiet", kOurs},
    {"verbose", kOurs},
    {"segment", kOurs},
    {"ntasks", "use ranks"},
    {"nodes", "use slurm.nodes"},
    {"ntasks-per-node", "use slurm.ranks_per_node"},
    {"requeue", "use slurm.requeue"},
    {"no-requeue", "use slurm.requeue"},
    {"time", "use slurm.time_limit"},
    {"hold", kOurs},
};
// And in a file of defaults those that have a key: they would come after the key of a run and win.
constexpr TakenOption kKeyOptions[] = {
    {"partition", "use slurm.partition"},
    {"account", "use slurm.account"},
    {"qos", "use slurm.qos"},
    {"reservation", "use slurm.reservation"},
    {"constraint", "use slurm.constraint"},
    {"exclude", "use slurm.exclude"},
    {"switches", "use slurm.switches"},
    {"mem", "use slurm.memory_per_node"},
    {"mem-per-cpu", "use slurm.memory_per_node"},
    {"mem-per-gpu", "use slurm.memory_per_node"},
    {"cpus-per-task", "use slurm.cpus_per_rank"},
    {"gres", "use slurm.gpu_type; how many GPUs there are is a run's own gpus_per_rank"},
    {"gpus", "use slurm.gpu_type; how many GPUs there are is a run's own gpus_per_rank"},
    {"gpus-per-node", "use slurm.gpu_type; how many GPUs there are is a run's own gpus_per_rank"},
    {"gpus-per-task", "use slurm.gpu_type; how many GPUs there are is a run's own gpus_per_rank"},
};
// And those of srun, where they would come after the script's own and win.
constexpr TakenOption kTakenStepOptions[] = {
    {"mpi", kOurs},    {"kill-on-bad-exit", kOurs},
    {"label", kOurs},  {"multi-prog", "use slurm.setup"},
    {"jobid", kOurs},  {"no-allocate", kOurs},
    {"pty", kOurs},    {"cpus-per-task", "use slurm.cpus_per_rank"},
    {"overlap", kOurs}};

// Variables that would change Slurm's commands or the script's shell instead of the ranks.
constexpr std::string_view kTakenPrefixes[] = {"SLURM", "SBATCH_", "SRUN_",           "SPANK_",
                                               "BASH",  "PMI",     "OMPI_COMM_WORLD_"};
constexpr std::string_view kTakenVariables[] = {
    "LD_PRELOAD", "LD_AUDIT", "IFS", "ENV", "SHELLOPTS", "GLOBIGNORE", "REGATTA_LAUNCHER",
    "REGATTA_EXIT_FILE", "REGATTA_DUMP_REQUEST", "UID", "EUID", "PPID", "GROUPS",
    // bash gives these values of its own
    "_", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "HISTCMD", "DIRSTACK", "FUNCNAME", "PIPESTATUS",
    "EPOCHSECONDS", "EPOCHREALTIME"};

std::string shown(std::string_view text) { return base::printable(text.substr(0, 80)); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// A number of at most nine digits, and nothing else.
std::optional<int> small_number(std::string_view text) {
  if (text.empty() || text.size() > 9 || !std::all_of(text.begin(), text.end(), is_digit)) {
    return std::nullopt;
  }
  return static_cast<int>(*base::parse_integer(text));
}

void check_word(Table& table, const std::string& key, std::string_view word,
                std::string_view signs) {
  const auto good = [signs](char c) {
    return is_letter(c) || is_digit(c) || signs.find(c) != std::string_view::npos;
  };
  if (!word.empty() && word.size() <= kMostWordBytes && word.front() != '-' &&
      std::all_of(word.begin(), word.end(), good)) {
    return;
  }
  table.fail(key, "is '" + shown(word) + "'; use 1 to " + std::to_string(kMostWordBytes) +
                      " of A-Z a-z 0-9 " + std::string(signs) + ", not starting with -");
}

void read_word(Table& table, const std::string& key, std::string_view signs, std::string* word) {
  table.read(key, word);
  if (!word->empty()) check_word(table, key, *word, signs);
}

void read_count(Table& table, const std::string& key, int low, int high, int* value) {
  table.read(key, value);
  table.note_range(key, low, high, false, false);
  if (*value >= low && *value <= high) return;
  table.fail(key, "is " + std::to_string(*value) + "; use " + std::to_string(low) + " to " +
                      std::to_string(high));
}

void read_list(Table& table, const std::string& key, std::vector<std::string>* list) {
  table.read(key, list);
  if (list->size() > kMostItems) {
    table.fail(key, "has " + std::to_string(list->size()) + " items; use at most " +
                        std::to_string(kMostItems));
  }
}

// The seconds of hours:minutes:seconds and its shorter forms, as Slurm reads a time limit.
std::optional<std::int64_t> seconds_of(std::string_view text) {
  std::int64_t days = 0;
  const std::size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto number = small_number(text.substr(0, dash));
    if (!number) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  std::vector<std::int64_t> parts;
  for (const std::string& part : base::split(text, ':')) {
    const auto number = small_number(part);
    if (!number) return std::nullopt;
    parts.push_back(*number);
  }
  if (parts.empty() || parts.size() > 3) return std::nullopt;
  // With days the first part is hours. Without, one part is minutes, two are minutes and seconds.
  const bool from_hours = dash != std::string_view::npos || parts.size() == 3;
  if (!from_hours) parts.insert(parts.begin(), 0);
  parts.resize(3, 0);
  for (const std::int64_t later : {parts[1], parts[2]}) {
    if (from_hours && later > 59) return std::nullopt;
  }
  if (parts[2] > 59) return std::nullopt;
  return ((days * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2];
}

void read_time_limit(Table& table, int* minutes) {
  std::string text;
  table.read("time_limit", &text);
  if (text.empty()) return;
  const auto seconds = seconds_of(text);
  const std::int64_t rounded = seconds ? (*seconds + 59) / 60 : 0;
  if (rounded < 1 || rounded > kMostMinutes) {
    table.fail("time_limit", "is '" + shown(text) +
                                 "'; use minutes, hours:minutes:seconds or "
                                 "days-hours:minutes:seconds, from a minute to 366 days, or leave "
                                 "it out for the partition's own");
  }
  *minutes = static_cast<int>(rounded);
}

void read_memory(Table& table, std::optional<std::int64_t>* mib) {
  std::string text;
  table.read("memory_per_node", &text);
  if (text.empty()) return;
  constexpr std::string_view kUnits = "KMGT";
  std::string_view digits = text;
  std::size_t unit = 1;  // Slurm's, of a plain number
  if (const std::size_t found = kUnits.find(digits.back()); found != std::string_view::npos) {
    unit = found;
    digits.remove_suffix(1);
  }
  const auto number = small_number(digits);
  const std::int64_t kib = number ? static_cast<std::int64_t>(*number) << (10U * unit) : -1;
  if (kib < 0 || kib > (kMostMib << 10U)) {
    table.fail("memory_per_node", "is '" + shown(text) +
                                      "'; use a whole number of MiB, or one with K, M, G or T; 0 "
                                      "is all memory of the node");
  }
  *mib = (kib + 1023) / 1024;
}

// "4" or "2..8"; 0 when the key is absent.
struct NodeRange {
  int low = 0;
  int high = 0;
};
NodeRange read_nodes(Table& table) {
  std::string text;
  table.read("nodes", &text);
  if (text.empty()) return {};
  const std::size_t dots = text.find("..");
  const auto low = small_number(std::string_view(text).substr(0, dots));
  const auto high =
      dots == std::string::npos ? low : small_number(std::string_view(text).substr(dots + 2));
  if (!low || !high || *low < 1 || *low > *high || *high > kMostNodes) {
    table.fail("nodes", "is '" + shown(text) + "'; use a number such as 4, or a range such as " +
                            "2..8, of 1 to " + std::to_string(kMostNodes));
  }
  return {*low, *high};
}

// Makes nodes × ranks per node the ranks, or fails.
void agree(Table& table, NodeRange nodes, int ranks, int ranks_per_node,
           SlurmResources* resources) {
  int per_node = 0;
  read_count(table, "ranks_per_node", 0, kMostPerNode, &per_node);
  if (per_node > 0 && ranks_per_node > 0 && per_node != ranks_per_node) {
    table.fail("ranks_per_node", "is " + std::to_string(per_node) + ", but the run's own is " +
                                     std::to_string(ranks_per_node) + "; leave one of them out");
  }
  const std::string total = std::to_string(ranks);
  if (per_node == 0) per_node = ranks_per_node;
  if (per_node == 0 && nodes.high > 0) {
    if (ranks % nodes.high != 0) {
      table.fail("nodes", "are " + std::to_string(nodes.high) + ", which " + total +
                              " ranks cannot share evenly; use a divisor of " + total +
                              ", or other ranks");
    }
    per_node = ranks / nodes.high;
  }
  if (per_node == 0) per_node = ranks;
  if (nodes.high == 0) {
    if (ranks % per_node != 0) {
      table.fail("ranks_per_node", "is " + std::to_string(per_node) + ", which does not divide " +
                                       total + ", the ranks; use a divisor of it");
    }
    nodes = {ranks / per_node, ranks / per_node};
  }
  const std::int64_t places = static_cast<std::int64_t>(nodes.high) * per_node;
  if (places != ranks) {
    table.fail("nodes", std::to_string(nodes.high) + " nodes of " + std::to_string(per_node) +
                            " ranks are " + std::to_string(places) + " ranks, but ranks is " +
                            total + "; make them agree");
  }
  if (nodes.high > kMostNodes || per_node > kMostPerNode) {
    table.fail("ranks_per_node", "makes " + std::to_string(nodes.high) + " nodes of " +
                                     std::to_string(per_node) + " ranks; use at most " +
                                     std::to_string(kMostNodes) + " and " +
                                     std::to_string(kMostPerNode));
  }
  resources->min_nodes = nodes.low;
  resources->max_nodes = nodes.high;
  resources->ranks_per_node = per_node;
}

void check_option(Table& table, const std::string& key, const std::string& option) {
  const std::string_view name = std::string_view(option).substr(0, option.find('='));
  const auto good = [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_'; };
  if (name.size() < 4 || name.substr(0, 2) != "--" || !is_letter(name[2]) ||
      !std::all_of(name.begin(), name.end(), good) || option.size() > kMostTextBytes / 16 ||
      base::has_control(option)) {
    table.fail(key, "has '" + shown(option) +
                        "'; use long options, each --name or --name=value in one item, of at "
                        "most 4096 bytes and without control characters");
  }
}

// Of sbatch's long options any beginning means the whole.
std::string_view option_name(const std::string& option) {
  return std::string_view(option).substr(2, option.find('=') - 2);
}
bool may_be_the_same(std::string_view one, std::string_view other) {
  const std::size_t bytes = std::min(one.size(), other.size());
  return one.substr(0, bytes) == other.substr(0, bytes);
}

template <std::size_t N>
void check_free(Table& table, const std::string& key, const std::string& option,
                const TakenOption (&all)[N]) {
  const std::string_view name = option_name(option);
  for (const TakenOption& taken : all) {
    // getopt takes any beginning of a name for the name
    if (taken.name.substr(0, name.size()) != name) continue;
    table.fail(key, "has '" + shown(option) + "', which is not free (--" + std::string(taken.name) +
                        "): " + std::string(taken.instead));
  }
}

void read_options(Table& table, std::vector<std::string>* options) {
  read_list(table, "options", options);
  for (const std::string& option : *options) {
    check_option(table, "options", option);
    check_free(table, "options", option, kTakenOptions);
  }
}

void read_container(Table& table, SlurmContainer* container) {
  Table section = table.table("container");
  section.read("image", &container->image);
  if (container->image.size() > 4096 || base::has_control(container->image)) {
    section.fail("image", "use at most 4096 bytes and no control characters");
  }
  read_list(section, "mounts", &container->mounts);
  for (const std::string& mount : container->mounts) {
    if (!mount.empty() && mount.size() <= 4096 && !base::has_control(mount) &&
        mount.find(',') == std::string::npos) {
      continue;
    }
    section.fail("mounts", "has '" + shown(mount) +
                               "'; use source:target, of at most 4096 bytes, without commas and "
                               "control characters");
  }
  read_list(section, "arguments", &container->arguments);
  for (const std::string& option : container->arguments) {
    check_option(section, "arguments", option);
    check_free(section, "arguments", option, kTakenOptions);
    check_free(section, "arguments", option, kTakenStepOptions);
  }
  section.finish();
}

constexpr std::string_view kNoValue("\0", 1);  // no value can be that

void check_variable(Table& section, const std::string& name, const std::string& value) {
  const auto good = [](char c) { return is_letter(c) || is_digit(c) || c == '_'; };
  // What follows may be a password, and this message goes to logs.
  if (const std::size_t equals = name.find('='); equals != std::string::npos) {
    section.fail(name.substr(0, equals), "has '=' in its name; write it as name: value");
  }
  if (name.empty() || name.size() > 256 || is_digit(name.front()) ||
      !std::all_of(name.begin(), name.end(), good)) {
    section.fail(name,
                 "not the name of a variable; use 1 to 256 of A-Z a-z 0-9 _, not starting "
                 "with a digit");
  }
  const auto starts = [&](std::string_view prefix) {
    return std::string_view(name).substr(0, prefix.size()) == prefix;
  };
  if (std::any_of(std::begin(kTakenPrefixes), std::end(kTakenPrefixes), starts) ||
      std::find(std::begin(kTakenVariables), std::end(kTakenVariables), name) !=
          std::end(kTakenVariables)) {
    section.fail(name, "would change Slurm's commands or the job's shell; leave it out");
  }
  // The API shows a run file with null for each value, and that is no run file to submit.
  if (value == kNoValue) section.fail(name, "has no value; write \"\" for an empty one");
  if (value.size() > kMostTextBytes || value.find('\0') != std::string::npos) {
    section.fail(name, "has " + std::to_string(value.size()) + " bytes; use at most " +
                           std::to_string(kMostTextBytes) + " and no NUL");
  }
}

void read_environment(Table& table, std::map<std::string, std::string>* environment) {
  Table section = table.table("environment");
  std::size_t bytes = 0;
  for (const std::string& name : section.keys()) {
    std::string value(kNoValue);
    section.read(name, &value);
    check_variable(section, name, value);
    bytes += name.size() + value.size();
    (*environment)[name] = value;
  }
  section.finish();
  if (environment->size() > kMostItems || bytes > kMostAllBytes) {
    table.fail("environment", "has " + std::to_string(environment->size()) + " variables of " +
                                  std::to_string(bytes) + " bytes; use at most " +
                                  std::to_string(kMostItems) + " of " +
                                  std::to_string(kMostAllBytes));
  }
}

void read_switches(Table& table, std::string* switches) {
  table.read("switches", switches);
  if (switches->empty()) return;
  const std::size_t at = switches->find('@');
  const auto count = small_number(std::string_view(*switches).substr(0, at));
  const bool wait = at == std::string::npos || seconds_of(switches->substr(at + 1)).has_value();
  if (!count || *count < 1 || !wait) {
    table.fail("switches", "is '" + shown(*switches) +
                               "'; use a number such as 1, or one with the longest wait such as "
                               "1@30 (minutes)");
  }
}

// Before the token that the job is found by; where a site's plug-in reads comments.
void read_comment(Table& table, std::string* comment) {
  table.read("comment", comment);
  if (comment->size() > kMostWordBytes || base::has_control(*comment)) {
    table.fail("comment", "use at most " + std::to_string(kMostWordBytes) +
                              " bytes and no control characters");
  }
  if (comment->find("regatta:") == std::string::npos) return;
  table.fail("comment", "has 'regatta:', by which Regatta finds its jobs; leave that out");
}

// What may stand in a file of defaults, too.
void read_of_any_file(Table& table, SlurmResources* resources) {
  read_word(table, "partition", kHostSigns, &resources->partition);  // may be several
  read_word(table, "account", kWordSigns, &resources->account);
  read_word(table, "qos", kWordSigns, &resources->qos);
  read_word(table, "reservation", kHostSigns, &resources->reservation);
  read_time_limit(table, &resources->time_limit_minutes);
  read_word(table, "gpu_type", kTypeSigns, &resources->gpu_type);
  read_count(table, "cpus_per_rank", 0, kMostPerNode, &resources->cpus_per_rank);
  read_memory(table, &resources->memory_per_node_mib);
  read_word(table, "constraint", kConstraintSigns, &resources->constraint);
  read_list(table, "exclude", &resources->exclude);
  for (const std::string& nodes : resources->exclude) {
    check_word(table, "exclude", nodes, kHostSigns);
  }
  read_switches(table, &resources->switches);
  read_comment(table, &resources->comment);
  read_container(table, &resources->container);
  read_options(table, &resources->options);
  table.read("setup", &resources->setup);
  if (resources->setup.size() > kMostTextBytes ||
      resources->setup.find('\0') != std::string::npos) {
    table.fail("setup", "has " + std::to_string(resources->setup.size()) + " bytes; use at most " +
                            std::to_string(kMostTextBytes) +
                            " and no NUL, and put longer texts in a file");
  }
  read_environment(table, &resources->environment);
}

}  // namespace

SlurmResources default_slurm_resources(int ranks, int ranks_per_node) {
  SlurmResources resources;
  resources.ranks_per_node = ranks_per_node > 0 ? ranks_per_node : ranks;
  resources.max_nodes = ranks / resources.ranks_per_node;
  resources.min_nodes = resources.max_nodes;
  return resources;
}

std::optional<SlurmResources> read_slurm_resources(Table& root, int ranks, int ranks_per_node) {
  Table table = root.table("slurm");
  if (!root.is_table("slurm")) return std::nullopt;
  SlurmResources resources;
  agree(table, read_nodes(table), ranks, ranks_per_node, &resources);
  read_count(table, "gpus_per_rank", 0, kMostGpusPerRank, &resources.gpus_per_rank);
  table.read("requeue", &resources.requeue);
  table.read("defaults", &resources.defaults);
  read_of_any_file(table, &resources);
  table.finish();
  return resources;
}

SlurmResources read_slurm_defaults(Table& root) {
  Table table = root.table("slurm");
  SlurmResources resources;
  read_of_any_file(table, &resources);
  for (const std::string& option : resources.options) {
    check_free(table, "options", option, kKeyOptions);
  }
  table.finish();
  return resources;
}

SlurmResources with_slurm_defaults(SlurmResources run, const SlurmResources& defaults,
                                   std::vector<std::string>* keys) {
  const auto fill = [keys](const char* key, auto* value, const auto& other) {
    const std::decay_t<decltype(other)> empty{};
    if (*value != empty || other == empty) return;
    *value = other;
    keys->emplace_back(key);
  };
  fill("partition", &run.partition, defaults.partition);
  fill("account", &run.account, defaults.account);
  fill("qos", &run.qos, defaults.qos);
  fill("reservation", &run.reservation, defaults.reservation);
  fill("time_limit", &run.time_limit_minutes, defaults.time_limit_minutes);
  fill("gpu_type", &run.gpu_type, defaults.gpu_type);
  fill("cpus_per_rank", &run.cpus_per_rank, defaults.cpus_per_rank);
  fill("memory_per_node", &run.memory_per_node_mib, defaults.memory_per_node_mib);
  fill("constraint", &run.constraint, defaults.constraint);
  fill("exclude", &run.exclude, defaults.exclude);
  fill("switches", &run.switches, defaults.switches);
  fill("comment", &run.comment, defaults.comment);
  fill("container.image", &run.container.image, defaults.container.image);
  fill("container.mounts", &run.container.mounts, defaults.container.mounts);
  fill("container.arguments", &run.container.arguments, defaults.container.arguments);
  fill("setup", &run.setup, defaults.setup);
  const std::vector<std::string> own = run.options;
  for (const std::string& option : defaults.options) {
    const auto is_it = [&option](const std::string& given) {
      return may_be_the_same(option_name(given), option_name(option));
    };
    if (std::any_of(own.begin(), own.end(), is_it)) continue;
    run.options.push_back(option);
    keys->push_back("options." + std::string(option_name(option)));
  }
  for (const auto& [name, value] : defaults.environment) {
    if (run.environment.emplace(name, value).second) keys->push_back("environment." + name);
  }
  return run;
}

nlohmann::ordered_json slurm_resources_json(const SlurmResources& resources) {
  nlohmann::ordered_json json;
  json["partition"] = resources.partition;
  json["account"] = resources.account;
  json["qos"] = resources.qos;
  json["reservation"] = resources.reservation;
  json["time_limit"] =
      resources.time_limit_minutes > 0 ? std::to_string(resources.time_limit_minutes) : "";
  json["nodes"] =
      std::to_string(resources.min_nodes) + (resources.min_nodes == resources.max_nodes
                                                 ? ""
                                                 : ".." + std::to_string(resources.max_nodes));
  json["ranks_per_node"] = resources.ranks_per_node;
  json["gpus_per_rank"] = resources.gpus_per_rank;
  json["gpu_type"] = resources.gpu_type;
  json["cpus_per_rank"] = resources.cpus_per_rank;
  json["memory_per_node"] =
      resources.memory_per_node_mib ? std::to_string(*resources.memory_per_node_mib) + "M" : "";
  json["constraint"] = resources.constraint;
  json["exclude"] = resources.exclude;
  json["switches"] = resources.switches;
  json["comment"] = resources.comment;
  json["requeue"] = resources.requeue;
  json["container"] = {{"image", resources.container.image},
                       {"mounts", resources.container.mounts},
                       {"arguments", resources.container.arguments}};
  json["options"] = resources.options;
  json["setup"] = resources.setup;
  json["environment"] = resources.environment;
  json["defaults"] = resources.defaults;
  return json;
}

}  // namespace regatta::trainer::contract
