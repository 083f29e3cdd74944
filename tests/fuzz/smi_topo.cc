// Any bytes may stand where nvidia-smi's output should: one clear error, or a graph whose parts fit
// together. The first byte chooses the reader and the model.
#include "topology/sources/smi_topo.h"

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/text.h"
#include "topology/sources/nccl_xml.h"
#include "topology/graph/paths.h"

using regatta::base::check;
using namespace regatta::topology;

namespace {

void check_matrix(const Graph& graph) {
  for (const Vertex& vertex : graph.vertices()) {
    for (const Fact& fact : vertex.facts) {
      const std::string_view key = fact.key;
      if (!key.starts_with(key::kPath)) continue;
      const VertexIndex peer = graph.find(key.substr(std::string_view(key::kPath).size()));
      check(peer != kNoVertex, "a path leads to a device");
      const auto& back = graph.vertex(peer).facts;
      check(text_of(graph, back, key::kPath + vertex.id) == std::get<std::string>(fact.value),
            "and back");
    }
  }
  check(graph.of_kind(Kind::Gpu).size() <= kMostSmiDevices, "bounded");
  if (graph.vertices().size() < 40) (void)matrix_text(graph, Paths(graph), graph.find("n1"));
}

// As NCCL's XML it has the same devices, unless it tells too little.
void check_xml(const Graph& graph) {
  std::string written;
  try {
    written = write_nccl_xml(graph, graph.find("n1"), {.invent_bus_ids = true});
  } catch (const regatta::base::Error&) {
    return;
  }
  const Graph again = read_nccl_xml(written, {"n1", "f"});
  for (const Kind kind : {Kind::Gpu, Kind::Nic}) {
    check(again.of_kind(kind).size() == graph.of_kind(kind).size(), "no device is lost");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool known = data[0] % 2 == 0;
  const SmiContext context = {"n1", "f", known ? "NVIDIA A100-SXM4-80GB" : ""};
  std::vector<Finding> findings;
  try {
    const Graph graph =
        data[0] == 'l' ? read_smi_nvlink(text, context) : read_smi_topo(text, context, &findings);
    check(graph.find("n1") != kNoVertex, "there is a node");
    for (const Finding& finding : findings) {
      check(!finding.remedy.empty() && regatta::base::printable(finding.words) == finding.words,
            "a finding can be shown");
    }
    check_matrix(graph);
    check_xml(graph);
    check(to_json(parse_graph(to_json(graph), "j")) == to_json(graph), "a graph can be kept");
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "bad text is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
  }
  return 0;
}
