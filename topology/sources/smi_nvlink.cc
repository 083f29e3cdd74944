#include <map>
#include <optional>
#include <set>

#include "base/ascii.h"
#include "base/text.h"
#include "topology/graph/nccl_speeds.h"
#include "topology/graph/reader_error.h"
#include "topology/sources/smi_text.h"
#include "topology/sources/smi_topo.h"

namespace regatta::topology::sources {
namespace {

// Far above any GPU's.
constexpr std::int64_t kMostSmiLinks = 1000;

struct SmiGpu {
  std::int64_t index = 0;
  std::string model, uuid;
  std::map<std::int64_t, std::optional<double>> links;  // GB/s; nothing: inactive
  bool unavailable = false;                             // "all links are inActive"
};

class LinkList {
 public:
  LinkList(std::string_view text, const SmiContext& context)
      : context_(context), lines_(smi_lines(text, context.place)) {}

  std::vector<SmiGpu> read() {
    for (; at_ < lines_.size(); ++at_) {
      const std::string_view line = base::trimmed(lines_[at_]);
      if (line.empty()) continue;
      if (line.starts_with("GPU ")) {
        read_gpu(line);
      } else if (!gpus_.empty() && line.starts_with("Link ")) {
        read_link(line);
      } else if (!gpus_.empty() && line.find("all links are inActive") != std::string_view::npos) {
        gpus_.back().unavailable = true;
      } else {
        fail(line, "is not a line of nvidia-smi nvlink -s");
      }
    }
    return std::move(gpus_);
  }

 private:
  [[noreturn]] void fail(std::string_view line, const std::string& what) const {
    graph::fail_at(context_.place, at_ + 1, "'" + std::string(line.substr(0, 80)) + "' " + what);
  }

  // "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5269…)"
  void read_gpu(std::string_view line) {
    const std::size_t colon = line.find(": "), uuid = line.rfind(" (UUID: ");
    if (colon == std::string_view::npos || uuid == std::string_view::npos || uuid < colon + 2 ||
        line.back() != ')') {
      fail(line, "names no GPU");
    }
    SmiGpu gpu;
    const auto index = base::parse_integer(line.substr(4, colon - 4));
    if (!index || *index < 0) fail(line, "names no GPU");
    gpu.index = *index;
    gpu.model = base::printable(line.substr(colon + 2, uuid - colon - 2));
    gpu.uuid = base::printable(line.substr(uuid + 8, line.size() - uuid - 9));
    if (!indexes_.insert(gpu.index).second) fail(line, "appears twice");
    if (gpus_.size() == kMostSmiDevices) fail(line, "is a GPU too many");
    gpus_.push_back(std::move(gpu));
  }

  // "Link 3: 25.781 GB/s", "Link 4: <inactive>"
  void read_link(std::string_view line) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) fail(line, "is not a link");
    const auto number = base::parse_integer(line.substr(5, colon - 5));
    if (!number || *number < 0 || *number >= kMostSmiLinks) fail(line, "is not a link");
    const std::string_view state = line.substr(colon + 2);
    std::optional<double> speed;
    if (state.ends_with(" GB/s")) {
      speed = base::parse_number(state.substr(0, state.size() - 5));
      if (!speed || !(*speed > 0) || *speed > 1e6) fail(line, "has no speed");
    } else if (state != "<inactive>") {
      fail(line, "is neither a speed nor <inactive>; run nvidia-smi nvlink -s");
    }
    if (!gpus_.back().links.emplace(*number, speed).second) fail(line, "appears twice");
  }

  const SmiContext& context_;
  std::vector<std::string> lines_;
  std::size_t at_ = 0;
  std::vector<SmiGpu> gpus_;
  std::set<std::int64_t> indexes_;
};

}  // namespace

graph::Graph read_smi_nvlink(std::string_view text, const SmiContext& context) {
  const std::vector<SmiGpu> gpus = LinkList(text, context).read();
  graph::Graph graph;
  const std::uint32_t source = graph.add_source(graph::Source::NvidiaSmi, context.place);
  const std::uint32_t derived = graph.add_source(graph::Source::Derived, context.place);
  const graph::VertexIndex node = graph.add(graph::Kind::Node, context.node);
  for (const SmiGpu& gpu : gpus) {
    const graph::VertexIndex vertex =
        graph.add(graph::Kind::Gpu, context.node + "/gpu#" + std::to_string(gpu.index), node);
    graph.set(vertex, graph::key::kIndex, gpu.index, source);
    graph.set(vertex, graph::key::kModel, gpu.model, source);
    graph.set(vertex, graph::key::kUuid, gpu.uuid, source);
    if (const auto sm = graph::compute_capability_of(gpu.model)) {
      graph.set(vertex, graph::key::kComputeCapability, *sm, derived);
    }
    std::int64_t up = 0, down = 0;
    std::optional<double> slowest;
    for (const auto& [number, speed] : gpu.links) {
      (speed ? up : down) += 1;
      if (speed && (!slowest || *speed < *slowest)) slowest = speed;
    }
    if (gpu.links.empty() && !gpu.unavailable) continue;
    graph.set(vertex, graph::key::kNvlinks, up, source);
    if (!gpu.links.empty()) graph.set(vertex, graph::key::kNvlinksDown, down, source);
    if (slowest) graph.set(vertex, graph::key::kNvlinkRate, *slowest, source);
  }
  return graph;
}

}  // namespace regatta::topology::sources
