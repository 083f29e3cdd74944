#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "topology/paths.h"

namespace regatta::topology {
namespace {

constexpr const char* kMeanings[] = {"the same device",
                                     "NVLink (NV#: that many of them)",
                                     "NVLink over another GPU",
                                     "the chip-to-chip link of GPU and CPU",
                                     "one PCIe bridge",
                                     "several PCIe bridges",
                                     "the CPU that the GPU has a chip-to-chip link to",
                                     "NVLink to a GPU near the NIC",
                                     "the CPU",
                                     "several CPUs",
                                     "the network",
                                     "no connection is known"};

std::string label_of(const Graph& graph, VertexIndex index) {
  const Vertex& vertex = graph.vertex(index);
  if (vertex.kind == Kind::Gpu) {
    if (const auto number = integer_of(graph, vertex.facts, key::kIndex)) {
      return "GPU" + std::to_string(*number);
    }
  } else if (const std::string name = text_of(graph, vertex.facts, key::kName); !name.empty()) {
    return base::printable(name);
  }
  const std::string& id = vertex.id;
  return base::printable(id.substr(id.rfind('/') + 1));
}

// GPUs by their index; names with their numbers in order: mlx5_2 before mlx5_10.
std::vector<VertexIndex> sorted(const Graph& graph, VertexIndex node, Kind kind) {
  std::vector<std::pair<std::pair<std::size_t, std::string>, VertexIndex>> keys;
  for (const VertexIndex index : graph.below(node, kind)) {
    const std::string label = label_of(graph, index);
    keys.push_back({{label.size(), label}, index});
  }
  std::sort(keys.begin(), keys.end());
  std::vector<VertexIndex> list;
  for (const auto& [label, index] : keys) list.push_back(index);
  return list;
}

std::string cell_of(const Path& path) {
  if (path.type == PathType::Loc) return "-";
  if (path.type == PathType::Nvl && path.nvlinks) return "NV" + std::to_string(*path.nvlinks);
  return name_of(path.type);
}

std::string numa_of(const Graph& graph, VertexIndex index) {
  const auto numa = integer_of(graph, graph.vertex(index).facts, key::kNuma);
  if (numa && *numa >= 0) return std::to_string(*numa);
  for (VertexIndex at = index; at != kNoVertex; at = graph.vertex(at).parent) {
    const Vertex& vertex = graph.vertex(at);
    if (vertex.kind == Kind::Numa) return vertex.id.substr(vertex.id.rfind(':') + 1);
  }
  return "?";
}

std::string laid_out(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string matrix_text(const Graph& graph, const Paths& paths, VertexIndex node) {
  base::check(graph.vertex(node).kind == Kind::Node, "a matrix is of a node");
  const std::vector<VertexIndex> gpus = sorted(graph, node, Kind::Gpu);
  if (gpus.empty()) return "no GPU is known\n";
  std::vector<VertexIndex> columns = gpus;
  for (const VertexIndex nic : sorted(graph, node, Kind::Nic)) columns.push_back(nic);
  std::vector<std::vector<std::string>> rows = {{""}};
  for (const VertexIndex column : columns) rows[0].push_back(label_of(graph, column));
  rows[0].push_back("NUMA");
  std::set<PathType> seen;
  for (const VertexIndex gpu : gpus) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(label_of(graph, gpu));
    for (const VertexIndex column : columns) {
      const Path path = paths.between(gpu, column);
      if (path.type != PathType::Loc) seen.insert(path.type);
      row.push_back(cell_of(path));
    }
    row.push_back(numa_of(graph, gpu));
  }
  std::string text = laid_out(rows);
  if (!seen.empty()) text += "\n";
  for (const PathType type : seen) {
    text += std::string(name_of(type)) + "  " + kMeanings[static_cast<std::size_t>(type)] + "\n";
  }
  return text;
}

}  // namespace regatta::topology
