#include "trainer/plugins/processor_facts.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/text.h"

namespace regatta::trainer::plugins {
namespace {

using Json = nlohmann::ordered_json;
using Fields = std::map<std::string, std::string>;

constexpr const char* kProcessors = "/sys/devices/system/cpu";

// One for each processor; fields before the first, or behind the last, are of none (ARM has some).
std::vector<Fields> processors_of(const MachineFiles& files) {
  std::vector<Fields> processors;
  for (const std::string& line : files.lines("/proc/cpuinfo")) {
    const auto field = named_value(line);
    if (!field) continue;
    if (field->name == "processor") processors.emplace_back();
    if (!processors.empty()) processors.back()[field->name] = field->value;
  }
  return processors;
}

// The value itself where it is the same everywhere; else a list of all values, once each.
void put_values(Json* json, const char* key, const std::set<std::string>& values) {
  if (values.size() == 1) (*json)[key] = *values.begin();
  if (values.size() > 1) (*json)[key] = values;
}

Json model_of(const std::vector<Fields>& processors) {
  constexpr std::array<std::pair<const char*, const char*>, 10> kFields{{
      {"model name", "name"},
      {"vendor_id", "vendor"},
      {"cpu family", "family"},
      {"model", "model"},
      {"stepping", "stepping"},
      {"microcode", "microcode"},
      {"CPU implementer", "implementer"},
      {"CPU part", "part"},
      {"CPU variant", "variant"},
      {"CPU revision", "revision"},
  }};
  Json json = Json::object();
  for (const auto& [field, key] : kFields) {
    std::set<std::string> values;
    for (const Fields& processor : processors) {
      const auto found = processor.find(field);
      if (found != processor.end() && !found->second.empty()) values.insert(found->second);
    }
    put_values(&json, key, values);
  }
  return json;
}

// Distinct pairs of socket and core, where the kernel numbers them.
void put_counts(const std::vector<Fields>& processors, Json* json) {
  std::set<std::string> sockets;
  std::set<std::pair<std::string, std::string>> cores;
  for (const Fields& processor : processors) {
    const auto socket = processor.find("physical id");
    const auto core = processor.find("core id");
    if (socket == processor.end()) continue;
    sockets.insert(socket->second);
    if (core != processor.end()) cores.emplace(socket->second, core->second);
  }
  if (!sockets.empty()) (*json)["sockets"] = sockets.size();
  if (!cores.empty()) (*json)["cores"] = cores.size();
  if (!processors.empty()) (*json)["threads"] = processors.size();
}

// What products and rows are computed with; the other flags are many, and change with the kernel.
bool is_instruction_set(const std::string& flag) {
  static const std::vector<std::string> kPrefixes = {"sse", "avx", "amx", "sve"};
  static const std::set<std::string> kNames = {
      "fma",      "f16c", "bmi2",  "asimd", "asimdhp", "bf16",  "i8mm", "asimddp", "svebf16",
      "asimdfhm", "erms", "movbe", "gfni",  "vaes",    "ssse3", "sme",  "sme2"};
  return kNames.count(flag) > 0 ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](const std::string& prefix) { return flag.rfind(prefix, 0) == 0; });
}

// Of those that all processors have.
void put_flags(const std::vector<Fields>& processors, Json* json) {
  std::map<std::string, std::size_t> flags;
  for (const Fields& processor : processors) {
    for (const char* const key : {"flags", "Features"}) {
      const auto found = processor.find(key);
      if (found == processor.end()) continue;
      for (const std::string& flag : base::split(found->second, ' ')) ++flags[flag];
    }
  }
  if (flags.empty()) return;
  Json sets = Json::array();
  for (const auto& [flag, count] : flags) {
    if (count == processors.size() && is_instruction_set(flag)) sets.push_back(flag);
  }
  (*json)["instruction_sets"] = std::move(sets);
  (*json)["hypervisor"] = flags.count("hypervisor") > 0;
}

// "48K", "2M" → bytes.
std::optional<std::int64_t> bytes_of(const std::string& size) {
  const std::size_t unit = size.find_first_not_of("0123456789");
  const auto number = base::parse_integer(size.substr(0, unit));
  if (!number) return std::nullopt;
  const std::string letter = unit == std::string::npos ? "" : size.substr(unit);
  const int shift = letter == "K" ? 10 : letter == "M" ? 20 : letter == "G" ? 30 : 0;
  if ((shift == 0 && !letter.empty()) || *number < 0 || *number > (std::int64_t{1} << 30U)) {
    return std::nullopt;
  }
  return *number << shift;
}

// Of the first processor.
Json caches_of(const MachineFiles& files) {
  Json caches = Json::array();
  const std::string folder = std::string(kProcessors) + "/cpu0/cache";
  for (const std::string& index : files.numbered(folder, "index")) {
    const std::string path = folder + "/" + index;
    Json cache = Json::object();
    if (const auto level = files.number(path + "/level")) cache["level"] = *level;
    if (const auto type = files.text(path + "/type")) cache["type"] = *type;
    if (const auto size = files.text(path + "/size")) {
      if (const auto bytes = bytes_of(*size)) cache["bytes"] = *bytes;
    }
    if (const auto shared = files.text(path + "/shared_cpu_list")) {
      if (const auto threads = count_of_list(*shared)) cache["threads"] = *threads;
    }
    if (!cache.empty()) caches.push_back(std::move(cache));
  }
  return caches;
}

Json numa_nodes_of(const MachineFiles& files) {
  Json nodes = Json::array();
  const std::string folder = "/sys/devices/system/node";
  for (const std::string& name : files.numbered(folder, "node")) {
    Json node = Json::object();
    node["node"] = name;
    if (const auto list = files.text(folder + "/" + name + "/cpulist")) {
      const auto threads = list->empty() ? std::optional<std::int64_t>(0) : count_of_list(*list);
      if (threads) node["threads"] = *threads;
    }
    for (const std::string& line : files.lines(folder + "/" + name + "/meminfo")) {
      const std::size_t at = line.find("MemTotal:");
      if (at == std::string::npos) continue;
      const std::string value(base::trimmed(std::string_view(line).substr(at + 9)));
      const auto kibibytes = base::parse_integer(value.substr(0, value.find(' ')));
      if (kibibytes) node["bytes"] = *kibibytes * 1024;
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

// A whole number as one, another text as it is.
Json number_or_text(const std::string& value) {
  const auto number = base::parse_integer(value);
  return number ? Json(*number) : Json(value);
}

// What is set, not what is measured. In kHz, as the kernel has it.
Json frequency_of(const MachineFiles& files) {
  constexpr std::array<std::pair<const char*, const char*>, 5> kFields{{
      {"scaling_driver", "driver"},
      {"scaling_governor", "governor"},
      {"energy_performance_preference", "preference"},
      {"scaling_min_freq", "minimum_khz"},
      {"scaling_max_freq", "maximum_khz"},
  }};
  Json json = Json::object();
  const std::vector<std::string> processors = files.numbered(kProcessors, "cpu");
  for (const auto& [file, key] : kFields) {
    std::set<std::string> values;
    for (const std::string& processor : processors) {
      const auto value =
          files.text(std::string(kProcessors) + "/" + processor + "/cpufreq/" + file);
      if (value && !value->empty()) values.insert(*value);
    }
    Json shown = Json::array();
    for (const std::string& value : values) shown.push_back(number_or_text(value));
    if (!shown.empty()) json[key] = shown.size() == 1 ? shown[0] : shown;
  }
  const std::string folder = kProcessors;
  if (const auto off = files.number(folder + "/intel_pstate/no_turbo")) {
    json["turbo"] = *off == 0;
  } else if (const auto boost = files.number(folder + "/cpufreq/boost")) {
    json["turbo"] = *boost != 0;
  }
  return json;
}

void put_unless_empty(Json* json, const char* key, Json value) {
  if (!value.empty()) (*json)[key] = std::move(value);
}

}  // namespace

Json processor_facts(const MachineFiles& files) {
  const std::vector<Fields> processors = processors_of(files);
  Json json = Json::object();
  put_unless_empty(&json, "processor", model_of(processors));
  put_counts(processors, &json);
  for (const std::string& line : files.lines("/proc/self/status")) {
    const auto field = named_value(line);
    if (!field || field->name != "Cpus_allowed_list") continue;
    if (const auto threads = count_of_list(field->value)) json["usable_threads"] = *threads;
  }
  put_flags(processors, &json);
  put_unless_empty(&json, "caches", caches_of(files));
  put_unless_empty(&json, "numa_nodes", numa_nodes_of(files));
  put_unless_empty(&json, "frequency", frequency_of(files));
  return json;
}

}  // namespace regatta::trainer::plugins
