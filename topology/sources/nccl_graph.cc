#include "topology/sources/nccl_graph.h"

#include <charconv>
#include <cmath>
#include <set>

#include "base/text.h"
#include "topology/graph/reader_error.h"
#include "topology/graph/xml.h"

namespace regatta::topology::sources {
namespace {

constexpr const char* kSearches[] = {"ring", "tree", "collnet chain", "nvls", "collnet direct"};
constexpr const char* kPatterns[] = {"unknown", "balanced tree", "split tree",    "tree",
                                     "ring",    "nvls",          "collnet direct"};

// NCCL's NCCL_TOPO_ID: the machine above 56 bits of what numbers its devices.
constexpr unsigned kMachineShift = 56;
constexpr std::uint64_t kLocalIdMask = (std::uint64_t{1} << kMachineShift) - 1;

class SearchReader {
 public:
  SearchReader(const std::string& place) : place_(place) {}

  std::vector<NcclSearch> read(const graph::XmlElement& root) const {
    if (root.name == "system") {
      fail(root,
           "this is a topology (NCCL_TOPO_DUMP_FILE), not the graphs that NCCL searched "
           "(NCCL_GRAPH_DUMP_FILE)");
    }
    if (root.name != "graphs") fail(root, "the root is no <graphs>");
    if (integer(root, "version") != 1) fail(root, "only version 1 is known");
    std::vector<NcclSearch> searches;
    std::set<std::int64_t> ids;
    for (const graph::XmlElement& element : root.children) {
      if (element.name != "graph") fail(element, "there is something else than a <graph>");
      searches.push_back(read_search(element));
      if (!ids.insert(searches.back().id).second) {
        fail(element, "graph " + std::to_string(searches.back().id) + " appears twice");
      }
    }
    return searches;
  }

 private:
  [[noreturn]] void fail(const graph::XmlElement& element, const std::string& what) const {
    graph::fail_at(place_, element.line, what);
  }
  const std::string& text(const graph::XmlElement& element, const char* name) const {
    const std::string* const found = element.find(name);
    if (found == nullptr) {
      fail(element, "<" + element.name.substr(0, 40) + "> has no '" + name + "'");
    }
    return *found;
  }
  std::int64_t integer(const graph::XmlElement& element, const char* name) const {
    const auto value = base::parse_integer(text(element, name));
    if (!value) fail(element, std::string("'") + name + "' is not a whole number");
    return *value;
  }
  NcclDevice device(const graph::XmlElement& stop) const {
    const std::string& said = text(stop, "dev");
    const std::size_t prefix = said.starts_with("0x") ? 2 : 0;
    std::uint64_t id = 0;
    const char* const end = said.data() + said.size();
    const auto [last, error] =
        std::from_chars(said.data() + prefix, end, id, prefix == 0 ? 10 : 16);
    if (error != std::errc{} || last != end) {
      fail(stop, "'" + said.substr(0, 40) + "' as dev of <" + stop.name +
                     "> is not a device number; NCCL writes 3 or 0x3");
    }
    return {static_cast<std::int64_t>(id & kLocalIdMask),
            static_cast<std::int64_t>(id >> kMachineShift)};
  }
  double number(const graph::XmlElement& element, const char* name) const {
    const auto value = base::parse_number(text(element, name));
    if (!value || !std::isfinite(*value) || *value < 0 || *value > 1e6) {
      fail(element, std::string("'") + name + "' is not a speed or latency");
    }
    return *value;
  }
  graph::PathType path(const graph::XmlElement& element, const char* name) const {
    const auto type = graph::parse_path_type(text(element, name));
    if (!type) {
      fail(element, "'" + text(element, name).substr(0, 40) + "' is not one of NCCL's path types");
    }
    return *type;
  }

  NcclSearch read_search(const graph::XmlElement& element) const {
    NcclSearch search;
    search.id = integer(element, "id");
    search.pattern = integer(element, "pattern");
    search.cross_nic = integer(element, "crossnic") != 0;
    search.gb_per_s_intra = number(element, "speedintra");
    search.gb_per_s_inter = number(element, "speedinter");
    // Older versions have one type and no latency.
    if (element.find("latencyinter") != nullptr) {
      search.latency_us_inter = number(element, "latencyinter");
    }
    search.intra = path(element, "typeintra");
    search.inter = path(element, "typeinter");
    search.same_channels = integer(element, "samechannels") != 0;
    for (const graph::XmlElement& channel : element.children) {
      if (channel.name != "channel") fail(channel, "there is something else than a <channel>");
      search.channels.push_back(read_channel(channel));
    }
    const std::int64_t said = integer(element, "nchannels");
    if (said != static_cast<std::int64_t>(search.channels.size())) {
      fail(element, "graph " + std::to_string(search.id) + " has " +
                        std::to_string(search.channels.size()) + " of " + std::to_string(said) +
                        " channels, so the file is cut off");
    }
    return search;
  }

  NcclChannel read_channel(const graph::XmlElement& element) const {
    NcclChannel channel;
    for (const graph::XmlElement& stop : element.children) {
      if (stop.name != "gpu" && stop.name != "net") {
        fail(stop, "a channel goes over something else than a <gpu> or <net>");
      }
      (stop.name == "gpu" ? channel.gpus : channel.nets).push_back(device(stop));
    }
    return channel;
  }

  const std::string& place_;
};

}  // namespace

const char* name_of_search(std::int64_t id) {
  return id >= 0 && id < 5 ? kSearches[id] : "unknown";
}
const char* name_of_pattern(std::int64_t pattern) {
  return pattern >= 1 && pattern < 7 ? kPatterns[pattern] : "unknown";
}

std::vector<NcclSearch> parse_nccl_graphs(std::string_view text, const std::string& place) {
  return SearchReader(place).read(graph::parse_xml(text, place));
}

graph::Graph graph_of_searches(const std::vector<NcclSearch>& searches, const std::string& node,
                               const std::string& place) {
  graph::Graph graph;
  const std::uint32_t source = graph.add_source(graph::Source::NcclGraph, place);
  const graph::VertexIndex machine = graph.add(graph::Kind::Node, node);
  std::set<NcclDevice> gpus;
  std::set<std::int64_t> machines;
  for (const NcclSearch& search : searches) {
    std::string name = name_of_search(search.id);
    if (name == "unknown") name = std::to_string(search.id);
    for (char& c : name) {
      if (c == ' ') c = '_';
    }
    const std::string start = "nccl." + name;
    const auto channels = static_cast<std::int64_t>(search.channels.size());
    graph.set(machine, start + ".channels", channels, source);
    graph.set(machine, start + ".gb_per_s", static_cast<double>(channels) * search.gb_per_s_intra,
              source);
    graph.set(machine, start + ".path", std::string(graph::name_of(search.intra)), source);
    for (const NcclChannel& channel : search.channels) {
      gpus.insert(channel.gpus.begin(), channel.gpus.end());
    }
  }
  for (const NcclDevice& gpu : gpus) machines.insert(gpu.machine);
  if (machines.size() > 1) return graph;
  for (const NcclDevice& each : gpus) {
    const graph::VertexIndex gpu =
        graph.add(graph::Kind::Gpu, node + "/gpu#" + std::to_string(each.dev), machine);
    graph.set(gpu, graph::key::kIndex, each.dev, source);
  }
  return graph;
}

}  // namespace regatta::topology::sources
