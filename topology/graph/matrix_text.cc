#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "topology/graph/paths.h"

namespace regatta::topology::graph {
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

bool is_xgmi(const Graph& graph, const Path& path) {
  for (std::size_t i = 1; i < path.via.size(); ++i) {
    if (graph.find_link(LinkKind::Xgmi, path.via[i - 1], path.via[i])) return true;
  }
  return false;
}

struct Cell {
  std::string text;
  std::string word, meaning;  // of the legend
};

Cell cell_of(const Graph& graph, const Path& path) {
  if (!path.is_known) return {"?", "?", "no source says"};
  const bool has_count = path.type == PathType::Nvl && path.nvlinks.has_value();
  const std::string count = has_count ? std::to_string(*path.nvlinks) : "";
  if (path.type <= PathType::Nvb && is_xgmi(graph, path)) {
    if (path.type == PathType::Nvb) return {"XGB", "XGB", "xGMI over another GPU"};
    return {"XGMI" + count, "XGMI", "xGMI (XGMI#: that many links)"};
  }
  const std::string word = name_of(path.type);
  return {has_count ? "NV" + count : word, word, kMeanings[static_cast<std::size_t>(path.type)]};
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
  std::set<std::tuple<bool, PathType, std::string, std::string>> legend;  // unknown ones last
  for (const VertexIndex gpu : gpus) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(label_of(graph, gpu));
    for (const VertexIndex column : columns) {
      const Path path = paths.between(gpu, column);
      if (path.type == PathType::Loc) {
        row.push_back("-");
        continue;
      }
      const Cell cell = cell_of(graph, path);
      legend.emplace(!path.is_known, path.is_known ? path.type : PathType::Dis, cell.word,
                     cell.meaning);
      row.push_back(cell.text);
    }
    row.push_back(numa_of(graph, gpu));
  }
  std::string text = laid_out(rows);
  if (!legend.empty()) text += "\n";
  for (const auto& [unknown, type, word, meaning] : legend) text += word + "  " + meaning + "\n";
  return text;
}

}  // namespace regatta::topology::graph
