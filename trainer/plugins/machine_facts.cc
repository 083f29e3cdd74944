#include "trainer/plugins/machine_facts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/text.h"
#include "trainer/plugins/processor_facts.h"

namespace regatta::trainer::plugins {
namespace {

using Json = nlohmann::ordered_json;

// "MemTotal:       16384 kB" → bytes.
std::optional<std::int64_t> memory_of(const MachineFiles& files) {
  for (const std::string& line : files.lines("/proc/meminfo")) {
    const auto field = named_value(line);
    if (!field || field->name != "MemTotal") continue;
    const auto kibibytes = base::parse_integer(field->value.substr(0, field->value.find(' ')));
    if (kibibytes) return *kibibytes * 1024;
  }
  return std::nullopt;
}

// "always [madvise] never" → "madvise".
std::optional<std::string> chosen_of(const std::optional<std::string>& words) {
  if (!words) return std::nullopt;
  const std::size_t begin = words->find('[');
  const std::size_t end = words->find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return std::nullopt;
  return words->substr(begin + 1, end - begin - 1);
}

Json huge_pages_of(const MachineFiles& files) {
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  Json json = Json::object();
  for (const char* const name : {"enabled", "defrag"}) {
    if (const auto chosen = chosen_of(files.text(folder + name))) json[name] = *chosen;
  }
  return json;
}

// PRETTY_NAME="Debian GNU/Linux 12 (bookworm)" of os-release(5).
std::optional<std::string> operating_system_of(const MachineFiles& files) {
  const std::string key = "PRETTY_NAME=";
  for (const char* const path : {"/etc/os-release", "/usr/lib/os-release"}) {
    for (const std::string& line : files.lines(path)) {
      if (line.rfind(key, 0) != 0) continue;
      std::string value(base::trimmed(std::string_view(line).substr(key.size())));
      if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
          value.back() == value.front()) {
        value = value.substr(1, value.size() - 2);
      }
      return value;
    }
  }
  return std::nullopt;
}

// By the marks that they leave; nothing of those that leave none.
std::optional<std::string> container_of(const MachineFiles& files) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kMarks{{
      {"/.singularity.d", "apptainer"},
      {"/run/.containerenv", "podman"},
      {"/run/secrets/kubernetes.io", "kubernetes"},
      {"/.dockerenv", "docker"},
  }};
  for (const auto& [path, name] : kMarks) {
    if (files.has(path)) return name;
  }
  const std::string groups = files.text("/proc/self/cgroup").value_or("");
  for (const char* const name : {"kubepods", "docker", "libpod", "lxc"}) {
    if (groups.find(std::string("/") + name) != std::string::npos) {
      const std::string found = name;
      return found == "kubepods" ? "kubernetes" : found == "libpod" ? "podman" : found;
    }
  }
  return std::nullopt;
}

// "max 100000" and "150000 100000": microseconds of a period.
std::optional<double> quota_2(const MachineFiles& files, const std::string& group) {
  const auto text = files.text("/sys/fs/cgroup" + group + "/cpu.max");
  if (!text) return std::nullopt;
  const std::size_t space = text->find(' ');
  const auto quota = base::parse_number(text->substr(0, space));
  const auto period =
      space == std::string::npos ? std::nullopt : base::parse_number(text->substr(space + 1));
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

std::optional<double> quota_1(const MachineFiles& files, const std::string& folder) {
  const auto quota = files.number(folder + "/cpu.cfs_quota_us");
  const auto period = files.number(folder + "/cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

struct Limits {
  std::optional<double> processors;
  std::optional<std::int64_t> memory;

  void narrow(std::optional<double> processors_here, std::optional<std::int64_t> memory_here) {
    if (processors_here)
      processors = std::min(processors.value_or(*processors_here), *processors_here);
    // Version 1 says "no limit" as a number close to 2⁶³.
    if (!memory_here || *memory_here <= 0 || *memory_here > (std::int64_t{1} << 60U)) return;
    memory = std::min(memory.value_or(*memory_here), *memory_here);
  }
};

// A group and those it lies in: "/a/b", "/a", "".
std::vector<std::string> groups_up(std::string group) {
  std::vector<std::string> groups;
  while (!group.empty() && group.back() == '/') group.pop_back();
  while (true) {
    groups.push_back(group);
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos) return groups;
    group.resize(slash);
  }
}

double two_decimals(double value) { return std::round(value * 100) / 100; }

// "cpu MHz" of /proc/cpuinfo, else what cpufreq has in kHz.
std::optional<double> mean_mhz(const MachineFiles& files) {
  double sum = 0;
  int count = 0;
  for (const std::string& line : files.lines("/proc/cpuinfo")) {
    const auto field = named_value(line);
    if (!field || field->name != "cpu MHz") continue;
    if (const auto mhz = base::parse_number(field->value); mhz && *mhz > 0) {
      sum += *mhz;
      ++count;
    }
  }
  const std::string folder = "/sys/devices/system/cpu";
  if (count == 0) {
    for (const std::string& processor : files.numbered(folder, "cpu")) {
      const auto khz = files.number(folder + "/" + processor + "/cpufreq/scaling_cur_freq");
      if (!khz || *khz <= 0) continue;
      sum += static_cast<double>(*khz) / 1000;
      ++count;
    }
  }
  if (count == 0) return std::nullopt;
  return two_decimals(sum / count);
}

// A package's counter is the same in each of its processors; cores have their own.
Json throttled_of(const MachineFiles& files) {
  const std::string folder = "/sys/devices/system/cpu";
  Json json = Json::object();
  for (const char* const name : {"core_throttle_count", "package_throttle_count"}) {
    std::optional<std::int64_t> sum;
    std::set<std::string> seen;
    for (const std::string& processor : files.numbered(folder, "cpu")) {
      const std::string path = folder + "/" + processor;
      const auto count = files.number(path + "/thermal_throttle/" + name);
      if (!count) continue;
      const std::string package = files.text(path + "/topology/physical_package_id").value_or("0");
      const std::string core = files.text(path + "/topology/core_id").value_or(processor);
      const bool is_core = name[0] == 'c';
      if (seen.insert(package + (is_core ? "/" + core : "")).second) {
        sum = sum.value_or(0) + *count;
      }
    }
    if (sum) json[name] = *sum;
  }
  return json;
}

// "some avg10=1.23 avg60=… avg300=… total=…"
std::optional<double> pressure_of(const MachineFiles& files) {
  const std::string key = "avg10=";
  for (const std::string& line : files.lines("/proc/pressure/cpu")) {
    const std::size_t at = line.find(key);
    if (line.rfind("some ", 0) != 0 || at == std::string::npos) continue;
    const std::string rest = line.substr(at + key.size());
    return base::parse_number(rest.substr(0, rest.find(' ')));
  }
  return std::nullopt;
}

void put_product(const MachineFiles& files, Json* json) {
  std::vector<std::string> words;
  for (const char* const name : {"sys_vendor", "product_name"}) {
    const auto word = files.text(std::string("/sys/class/dmi/id/") + name);
    if (word && !word->empty()) words.push_back(*word);
  }
  if (!words.empty()) (*json)["product"] = base::join(words, " ");
}

// Of this process's threads that live: for how long they ran, and waited for a processor.
Json threads_of(const MachineFiles& files) {
  double ran = 0, waited = 0;
  for (const std::string& name : files.numbered("/proc/self/task", "")) {
    // Nanoseconds of both, and how often it ran.
    const auto text = files.text("/proc/self/task/" + name + "/schedstat");
    const auto words = text ? base::split(*text, ' ') : std::vector<std::string>();
    if (words.size() != 3) continue;
    ran += base::parse_number(words[0]).value_or(0) * 1e-9;
    waited += base::parse_number(words[1]).value_or(0) * 1e-9;
  }
  if (!(ran > 0)) return Json();
  return {{"ran_seconds", ran}, {"waited_seconds", waited}};
}

}  // namespace

Json group_limits(const MachineFiles& files) {
  Limits limits;
  for (const std::string& line : files.lines("/proc/self/cgroup")) {  // "4:memory,cpu:/path"
    const std::vector<std::string> parts = base::split(line, ':');
    if (parts.size() < 3) continue;
    const std::string group = line.substr(parts[0].size() + parts[1].size() + 2);
    const std::string controllers = "," + parts[1] + ",";
    for (const std::string& each : groups_up(group)) {
      if (parts[1].empty()) {
        limits.narrow(quota_2(files, each), files.number("/sys/fs/cgroup" + each + "/memory.max"));
      }
      if (controllers.find(",cpu,") != std::string::npos) {
        limits.narrow(quota_1(files, "/sys/fs/cgroup/cpu" + each), std::nullopt);
        limits.narrow(quota_1(files, "/sys/fs/cgroup/" + parts[1] + each), std::nullopt);
      }
      if (controllers.find(",memory,") != std::string::npos) {
        limits.narrow(std::nullopt,
                      files.number("/sys/fs/cgroup/memory" + each + "/memory.limit_in_bytes"));
      }
    }
  }
  Json json = Json::object();
  if (limits.processors) json["processors"] = two_decimals(*limits.processors);
  if (limits.memory) json["memory_bytes"] = *limits.memory;
  return json;
}

Json machine_facts(const MachineFiles& files) {
  Json json = processor_facts(files);
  if (const auto bytes = memory_of(files)) json["memory_bytes"] = *bytes;
  if (Json pages = huge_pages_of(files); !pages.empty()) json["huge_pages"] = std::move(pages);
  if (Json limits = group_limits(files); !limits.empty()) json["limits"] = std::move(limits);
  const auto kernel = files.text("/proc/sys/kernel/ostype");
  const auto release = files.text("/proc/sys/kernel/osrelease");
  if (kernel && release) json["kernel"] = *kernel + " " + *release;
  if (const auto name = operating_system_of(files)) json["operating_system"] = *name;
  if (const auto name = container_of(files)) json["container"] = *name;
  put_product(files, &json);
  return json;
}

Json clocks_now(const MachineFiles& files) {
  Json json = Json::object();
  if (const auto mhz = mean_mhz(files)) json["mean_mhz"] = *mhz;
  if (Json throttled = throttled_of(files); !throttled.empty()) {
    json["throttled"] = std::move(throttled);
  }
  if (const auto pressure = pressure_of(files)) json["processor_pressure"] = *pressure;
  if (Json threads = threads_of(files); !threads.is_null()) json["threads"] = std::move(threads);
  return json;
}

std::optional<double> waited_between(const Json& before, const Json& after) {
  if (!before.contains("threads") || !after.contains("threads")) return std::nullopt;
  const auto gone = [&](const char* key) {
    return after["threads"].at(key).get<double>() - before["threads"].at(key).get<double>();
  };
  const double ran = gone("ran_seconds"), waited = gone("waited_seconds");
  if (!(ran >= 0 && waited >= 0 && ran + waited > 0)) return std::nullopt;
  return 100 * waited / (ran + waited);
}

Json throttled_between(const Json& before, const Json& after) {
  Json json = Json::object();
  if (!before.contains("throttled") || !after.contains("throttled")) return json;
  for (const auto& [name, count] : after["throttled"].items()) {
    if (!before["throttled"].contains(name)) continue;
    json[name] = count.get<std::int64_t>() - before["throttled"][name].get<std::int64_t>();
  }
  return json;
}

}  // namespace regatta::trainer::plugins
