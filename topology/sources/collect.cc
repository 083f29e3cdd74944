#include "topology/sources/collect.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "topology/sources/nvml.h"
#include "topology/sources/pci_config.h"
#include "topology/sources/sysfs.h"

namespace regatta::topology::sources {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFileBytes = 256 * 1024;
constexpr std::size_t kMostEntries = 4096;  // of a directory

class Collector {
 public:
  Collector(const CollectOptions& options, Capture* capture)
      : options_(options), capture_(*capture) {}

  void read_files() {
    for (const std::string& pattern : sysfs_patterns()) read_pattern("", pattern);
    for (const char* directory : {"/sys/class/infiniband", "/sys/class/net"}) {
      for (const std::string& name : entries(directory)) {
        const std::string card = std::string(directory) + "/" + name;
        if (const std::string device = resolve(card + "/device"); !device.empty()) {
          capture_.links[card + "/device"] = device;
          read_pci_device(device);
        }
      }
    }
    for (const std::string& name : entries("/sys/bus/pci/devices")) {
      const std::string link = "/sys/bus/pci/devices/" + name;
      const std::string type = read(link + "/class");
      if (!is_wanted_pci_class(type)) continue;
      if (const std::string device = resolve(link); !device.empty()) read_pci_device(device);
    }
    read_file("/var/run/nvidia-topologyd/virtualTopology.xml");
    tell_what_only_root_may_read();
  }

  void run_command(const std::vector<std::string>& words) {
    base::Command command;
    command.arguments = words;
    CommandOutput& output = capture_.commands[base::join(words, " ")];
    try {
      const base::Output done = base::run(command, options_.command_seconds);
      output = {done.exit.code.value_or(-1), done.timed_out, done.text};
    } catch (const base::Error& error) {
      capture_.commands.erase(base::join(words, " "));
      capture_.notes.push_back(words.front() + ": " + error.what());
    }
  }

  // A call that hangs takes its child with it; the next child leaves it out.
  void ask_nvml() {
    std::vector<std::string> words = options_.nvml_child;
    for (int child = 0; child < options_.nvml_children; ++child) {
      base::Command command;
      command.arguments = words;
      const base::Output done = base::run(command, options_.nvml_seconds);
      const std::string lines = done.text;
      const std::string missing = nvml_missing(lines);
      if (!missing.empty()) {
        capture_.notes.push_back("no NVML: " + missing);
        return;
      }
      const std::vector<std::string> hung = nvml_timeouts(lines);
      // What an earlier child said of the calls before it hung is said again by the next.
      capture_.nvml = hung_lines_ + lines;
      if (!done.timed_out && done.exit.code == 0) return;
      if (hung.empty()) {
        capture_.notes.push_back("NVML ended early");
        return;
      }
      for (const std::string& call : hung) {
        words.insert(words.end(), {"--skip", call});
        hung_lines_ += "{\"begin\": \"" + call + "\"}\n";
      }
    }
    capture_.notes.push_back("NVML was given up after " + std::to_string(options_.nvml_children) +
                             " calls that hung");
  }

 private:
  [[nodiscard]] fs::path real(const std::string& path) const {
    return options_.root / fs::path(path).relative_path();
  }

  [[nodiscard]] std::vector<std::string> entries(const std::string& directory) const {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(real(directory), error), end; !error && it != end;
         it.increment(error)) {
      if (names.size() >= kMostEntries) break;
      names.push_back(it->path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Where a symbolic link leads, as a path below the root; empty when it leads nowhere.
  [[nodiscard]] std::string resolve(const std::string& path) const {
    std::error_code error;
    const fs::path target = fs::canonical(real(path), error);
    if (error) return "";
    const fs::path root = fs::canonical(options_.root, error);
    if (error) return "";
    const std::string text = target.string();
    const std::string prefix = root == "/" ? "" : root.string();
    return text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : "";
  }

  [[nodiscard]] std::string read_bytes(const std::string& path) const {
    std::ifstream in(real(path), std::ios::binary);
    std::string text(kMostFileBytes, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
    return text;
  }

  [[nodiscard]] std::string read(const std::string& path) const {
    std::string text = read_bytes(path);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }

  void read_file(const std::string& path) {
    std::error_code error;
    if (!fs::is_regular_file(real(path), error)) return;
    const std::string text = read(path);
    // Attributes that the driver does not serve are empty or refuse to be read.
    if (!text.empty()) capture_.files[path] = text;
  }

  // `rest` begins with '/'; "*" in it stands for any one name.
  void read_pattern(const std::string& before, const std::string& rest) {
    const std::size_t star = rest.find('*');
    if (star == std::string::npos) return read_file(before + rest);
    const std::string directory = before + rest.substr(0, star - 1);
    for (const std::string& name : entries(directory)) {
      read_pattern(directory + "/" + name, rest.substr(star + 1));
    }
  }

  // Its attributes and those of the bridges above it.
  void read_pci_device(const std::string& device) {
    for (const std::string& part : base::split(device, '/')) {
      if (!graph::normal_bus_id(part)) continue;
      const std::string link = "/sys/bus/pci/devices/" + part;
      if (capture_.links.count(link) > 0) continue;
      capture_.links[link] = device.substr(0, device.find(part) + part.size());
      for (const std::string& name : pci_attributes()) {
        const std::string text = read(capture_.links[link] + "/" + name);
        if (!text.empty()) capture_.files[link + "/" + name] = text;
      }
      if (is_pci_bridge(read(capture_.links[link] + "/class"))) read_access_control(link);
    }
  }

  // Configuration space is 4 KiB of bytes, of which one register matters.
  void read_access_control(const std::string& link) {
    const auto control = acs_control(read_bytes(capture_.links[link] + "/config"));
    if (!control) return;
    std::ostringstream text;
    text << "0x" << std::hex << std::setw(4) << std::setfill('0') << *control;
    capture_.files[link + "/" + kAcsControl] = text.str();
  }

  void tell_what_only_root_may_read() {
    const std::string devices = "/sys/bus/pci/devices/";
    for (const auto& [link, device] : capture_.links) {
      const auto type = capture_.files.find(link + "/class");
      if (type == capture_.files.end() || !is_pci_gpu(type->second)) continue;
      for (const PciSwitchPorts& ports : switches_above(device)) {
        if (capture_.files.count(devices + ports.downstream + "/" + kAcsControl) > 0) continue;
        capture_.notes.push_back("whether PCIe switches have ACS on is not known: " + devices +
                                 ports.downstream + "/config can only be read by root");
        return;
      }
    }
  }

  const CollectOptions& options_;
  Capture& capture_;
  std::string hung_lines_;
};

bool starts_with_any(const std::string& text, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return text.rfind(prefix, 0) == 0; });
}

}  // namespace

bool is_kept_variable(const std::string& name) {
  return starts_with_any(name,
                         {"NCCL_", "CUDA_", "UCX_", "OMPI_MCA_", "FI_", "MELLANOX_", "SHARP_"});
}

Capture collect(const CollectOptions& options, const base::Clock& clock) {
  Capture capture;
  capture.host = options.host;
  capture.taken_utc = clock.utc_seconds();
  for (const auto& [name, value] : options.environment) {
    if (is_kept_variable(name)) capture.environment[name] = value;
  }
  Collector collector(options, &capture);
  collector.read_files();
  if (!options.nvml_child.empty()) {
    try {
      collector.ask_nvml();
    } catch (const base::Error& error) {
      capture.notes.push_back(std::string("NVML cannot be asked: ") + error.what());
    }
    // What the tools print of the same GPUs is a second witness; without NVML they cannot work.
    if (!capture.nvml.empty()) {
      collector.run_command({"nvidia-smi", "topo", "-m"});
      collector.run_command({"nvidia-smi", "nvlink", "-s"});
    }
  }
  return capture;
}

}  // namespace regatta::topology::sources
