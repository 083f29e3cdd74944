#include "topology/sources/read_any.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_system.h"
#include "base/text.h"
#include "topology/fabric/ibnetdiscover.h"
#include "topology/sources/capture.h"
#include "topology/sources/cluster_file.h"
#include "topology/sources/nccl_graph.h"
#include "topology/sources/nccl_xml.h"
#include "topology/sources/slurm_topology.h"
#include "topology/sources/smi_topo.h"
#include "topology/sources/topology_file.h"

namespace regatta::topology::sources {
namespace {

constexpr std::string_view kBlanks = " \t\r";

// Windows' programs write a mark before text; only that of UTF-8 leaves text that readers know.
std::string_view without_byte_order_mark(std::string_view text, const std::string& name) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    throw base::Error(base::Code::User,
                      base::printable(name) +
                          ": its text is UTF-16; save it as UTF-8 (iconv -f UTF-16 "
                          "-t UTF-8, or Out-File -Encoding utf8)");
  }
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

// From the first byte that is not blank, and no more than a look needs.
std::string_view begin_of(std::string_view text) {
  constexpr std::size_t kLook = 4096;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos ? "" : text.substr(first, kLook);
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The part that shows the format of lines; binary files have none.
std::string_view look_at(std::string_view text) {
  constexpr std::size_t kLook = std::size_t{1} << 16;
  const std::string_view begin = text.substr(0, kLook);
  return begin.find('\0') == std::string_view::npos ? begin : std::string_view();
}

bool is_graph(std::string_view text) {
  const std::string_view begin = begin_of(text);
  return !begin.empty() && begin.front() == '{' && has(begin, "\"regatta_graph\"");
}

bool is_capture(std::string_view text) {
  const std::string_view begin = begin_of(text);
  return !begin.empty() && begin.front() == '{' && has(begin, "\"regatta_capture\"");
}

void take_capture(const Capture& capture, const std::string& name, Reading* reading) {
  Replayed replayed = replay(capture);
  reading->graph = std::move(replayed.graph);
  for (graph::Finding& finding : replayed.findings) {
    // The doctor looks at the graph itself, and after other files have been merged.
    if (finding.id.rfind("graph.", 0) != 0) reading->findings.push_back(std::move(finding));
  }
  for (const auto& [variable, value] : capture.environment) {
    reading->settings.push_back({variable, value, name + " environment of " + capture.host});
  }
  // Only with both files is it known that neither way to GPU memory is there.
  const auto modules = capture.files.find("/proc/modules");
  const auto driver = capture.files.find("/proc/driver/nvidia/version");
  if (modules == capture.files.end() || driver == capture.files.end()) return;
  doctor::HostState host;
  host.node = capture.host;
  host.modules.emplace();
  for (const std::string& line : base::split(modules->second, '\n')) {
    host.modules->push_back(line.substr(0, line.find(' ')));
  }
  host.dma_buf = has(driver->second, "Open Kernel Module");
  reading->hosts.push_back(std::move(host));
}

bool is_topology_file(std::string_view text) {
  const std::string_view begin = begin_of(text);
  return !begin.empty() && begin.front() == '<' && has(begin, "<system");
}

// The machine that a file is of, where its text does not say: "node01" of "dumps/node01.xml".
std::string machine_of(const std::string& name) {
  std::string stem = base::Path(name).stem().string();
  for (char& c : stem) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) c = '-';
  }
  return stem.empty() ? "machine" : stem;
}

bool is_searches(std::string_view text) {
  const std::string_view begin = begin_of(text);
  return !begin.empty() && begin.front() == '<' && has(begin, "<graphs");
}

// The row of GPU0: "GPU0  X  NV18 …", wherever a report that it was pasted from puts it.
bool is_first_row(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;
       at = line.find_first_not_of(kBlanks, at)) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    cells.push_back(line.substr(at, end - at));
    at = end;
  }
  return !cells.empty() && cells.front() == "GPU0" &&
         std::find(cells.begin(), cells.end(), "X") != cells.end();
}

bool is_matrix(std::string_view whole) {
  std::string_view text = look_at(whole);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (is_first_row(text.substr(0, end))) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

bool is_nvlinks(std::string_view text) {
  return begin_of(text).substr(0, 4) == "GPU " && has(begin_of(text), "(UUID: ");
}

bool is_fabric(std::string_view whole) {
  const std::string_view text = look_at(whole);
  return has(text, "\nSwitch\t") || has(text, "\nCa\t") || has(text, "vendid=0x") ||
         has(text, "\nCA ") || has(text, "\nSW ") || begin_of(text).substr(0, 3) == "CA " ||
         begin_of(text).substr(0, 3) == "SW ";
}

bool is_scontrol_nodes(std::string_view text) {
  return begin_of(text).substr(0, 9) == "NodeName=" && has(begin_of(text), " State=");
}

bool is_scontrol_topology(std::string_view text) {
  const std::string_view begin = begin_of(text);
  return (begin.substr(0, 11) == "SwitchName=" && has(begin, " Level=")) ||
         ((begin.substr(0, 10) == "BlockName=" || begin.substr(0, 16) == "AggregatedBlock=") &&
          has(begin, " BlockIndex="));
}

bool is_topology_conf(std::string_view whole) {
  const std::string_view text = look_at(whole);
  return has(text, "SwitchName=") || has(text, "BlockName=");
}

bool is_topology_yaml(std::string_view whole) {
  const std::string_view text = look_at(whole);
  return has(text, "topology:") &&
         (has(text, "tree:") || has(text, "block:") || has(text, "flat:"));
}

bool is_cluster(std::string_view whole) {
  const std::string_view text = look_at(whole);
  return text.substr(0, 6) == "nodes:" || has(text, "\nnodes:") ||
         (begin_of(text).substr(0, 1) == "{" && has(text, "\"nodes\""));
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Lines NAME=VALUE, as NCCL reads them in /etc/nccl.conf and `env` prints them. Nothing when there
// is another kind of line, or no variable of NCCL or CUDA.
std::vector<doctor::Setting> settings_of(std::string_view text, const std::string& name) {
  std::vector<doctor::Setting> settings;
  std::size_t number = 0;
  for (std::string line : base::split(text, '\n')) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || !is_name(std::string_view(line).substr(0, equals)))
      return {};
    if (line.rfind("NCCL_", 0) != 0 && line.rfind("CUDA_", 0) != 0) continue;
    settings.push_back(
        {line.substr(0, equals), line.substr(equals + 1), name + ":" + std::to_string(number)});
  }
  return settings;
}

struct FileFormat {
  const char* name;
  bool (*is)(std::string_view text);
  void (*read)(std::string_view text, const std::string& name, Reading* reading);
};
// The first that fits.
constexpr FileFormat kFormats[] = {
    {"capture", is_capture,
     [](std::string_view text, const std::string& name, Reading* reading) {
       take_capture(parse_capture(std::string(text), name), name, reading);
     }},
    {"graph", is_graph,
     [](std::string_view text, const std::string& name, Reading* reading) {
       reading->graph = graph::parse_graph(std::string(text), name);
     }},
    {"NCCL topology", is_topology_file,
     [](std::string_view text, const std::string& name, Reading* reading) {
       reading->topology_files.push_back(scan_topology_file(text, name));
       reading->graph = read_nccl_xml(text, {machine_of(name), name});
     }},
    {"NCCL graphs", is_searches,
     [](std::string_view text, const std::string& name, Reading* reading) {
       reading->graph = graph_of_searches(parse_nccl_graphs(text, name), machine_of(name), name);
     }},
    {"nvidia-smi topo -m", is_matrix,
     [](std::string_view text, const std::string& name, Reading* reading) {
       reading->graph = read_smi_topo(text, {machine_of(name), name, ""}, &reading->findings);
     }},
    {"nvidia-smi nvlink -s", is_nvlinks,
     [](std::string_view text, const std::string& name, Reading* reading) {
       reading->graph = read_smi_nvlink(text, {machine_of(name), name, ""});
     }},
    {"scontrol show node", is_scontrol_nodes,
     [](std::string_view text, const std::string& name, Reading* reading) {
       reading->graph = read_scontrol_nodes(text, name);
     }},
    {"scontrol show topology", is_scontrol_topology,
     [](std::string_view text, const std::string& name, Reading* reading) {
       reading->graph = read_scontrol_topology(text, name);
     }},
    {"ibnetdiscover", is_fabric,
     [](std::string_view text, const std::string& name, Reading* reading) {
       reading->graph = fabric::read_ibnetdiscover(text, name, &reading->findings);
     }},
    {"topology.conf", is_topology_conf,
     [](std::string_view text, const std::string& name, Reading* reading) {
       reading->graph = read_topology_conf(text, name);
     }},
    {"topology.yaml", is_topology_yaml,
     [](std::string_view text, const std::string& name, Reading* reading) {
       reading->graph = read_topology_yaml(text, name);
     }},
    {"cluster description", is_cluster,
     [](std::string_view text, const std::string& name, Reading* reading) {
       reading->graph = cluster_graph(parse_cluster(text, name));
     }},
    {"variables", [](std::string_view text) { return !settings_of(text, "").empty(); },
     [](std::string_view text, const std::string& name, Reading* reading) {
       reading->settings = settings_of(text, name);
     }},
};

}  // namespace

Reading read_any(std::string_view whole, const std::string& name) {
  const std::string_view text = without_byte_order_mark(whole, name);
  std::string known;
  for (const FileFormat& format : kFormats) {
    if (!format.is(text)) {
      known += (known.empty() ? "" : ", ") + std::string(format.name);
      continue;
    }
    Reading reading;
    reading.format = format.name;
    format.read(text, name, &reading);
    return reading;
  }
  throw base::Error(base::Code::User, base::printable(name) +
                                          ": its format is none of those that are known: " + known);
}

}  // namespace regatta::topology::sources
