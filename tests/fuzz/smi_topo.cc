// Any bytes may stand where nvidia-smi's output should: one clear error, or a graph whose parts fit
// together. The first byte chooses the reader and the model.
#include "topology/sources/smi_topo.h"

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/text.h"
#include "topology/graph/paths.h"
#include "topology/sources/nccl_xml.h"

using regatta::base::check;
using namespace regatta::topology;

namespace {

void check_matrix(const graph::Graph& graph) {
  for (const graph::Vertex& vertex : graph.vertices()) {
    for (const graph::Fact& fact : vertex.facts) {
      const std::string_view key = fact.key;
      if (!key.starts_with(graph::key::kPath)) continue;
      const graph::VertexIndex peer =
          graph.find(key.substr(std::string_view(graph::key::kPath).size()));
      check(peer != graph::kNoVertex, "a path leads to a device");
      const auto& back = graph.vertex(peer).facts;
      check(graph::text_of(graph, back, graph::key::kPath + vertex.id) ==
                std::get<std::string>(fact.value),
            "and back");
    }
  }
  check(graph.of_kind(graph::Kind::Gpu).size() <= sources::kMostSmiDevices, "bounded");
  if (graph.vertices().size() < 40)
    (void)graph::matrix_text(graph, graph::Paths(graph), graph.find("n1"));
}

// As NCCL's XML it has the same devices, unless it tells too little.
void check_xml(const graph::Graph& graph) {
  std::string written;
  try {
    written = sources::write_nccl_xml(graph, graph.find("n1"), {.invent_bus_ids = true});
  } catch (const regatta::base::Error&) {
    return;
  }
  const graph::Graph again = sources::read_nccl_xml(written, {"n1", "f"});
  for (const graph::Kind kind : {graph::Kind::Gpu, graph::Kind::Nic}) {
    check(again.of_kind(kind).size() == graph.of_kind(kind).size(), "no device is lost");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool known = data[0] % 2 == 0;
  const sources::SmiContext context = {"n1", "f", known ? "NVIDIA A100-SXM4-80GB" : ""};
  std::vector<graph::Finding> findings;
  try {
    const graph::Graph graph = data[0] == 'l' ? sources::read_smi_nvlink(text, context)
                                              : sources::read_smi_topo(text, context, &findings);
    check(graph.find("n1") != graph::kNoVertex, "there is a node");
    for (const graph::Finding& finding : findings) {
      check(!finding.remedy.empty() && regatta::base::printable(finding.words) == finding.words,
            "a finding can be shown");
    }
    check_matrix(graph);
    check_xml(graph);
    check(graph::to_json(graph::parse_graph(graph::to_json(graph), "j")) == graph::to_json(graph),
          "a graph can be kept");
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "bad text is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
  }
  return 0;
}
