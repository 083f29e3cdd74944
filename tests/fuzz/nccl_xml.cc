// Any bytes may stand where NCCL's XML should: one clear error, or a graph that is written as it
// was read. The first byte chooses topology or search graphs.
#include "topology/sources/nccl_xml.h"

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "topology/graph/paths.h"
#include "topology/sources/nccl_graph.h"

using regatta::base::check;
using namespace regatta::topology;

namespace {

void check_topology(std::string_view text) {
  const graph::Graph graph = sources::read_nccl_xml(text, {"n1", "f"});
  const std::string json = graph::to_json(graph);
  std::string written;
  try {
    written = sources::write_nccl_xml(graph, graph.find("n1"));
  } catch (const regatta::base::Error&) {
    return;  // read, but beyond what NCCL takes
  }
  check(graph::to_json(sources::read_nccl_xml(written, {"n1", "f"})) == json,
        "nothing was lost in writing");
  if (graph.vertices().size() < 40)
    (void)graph::matrix_text(graph, graph::Paths(graph), graph.find("n1"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 'g') {
      (void)sources::graph_of_searches(sources::parse_nccl_graphs(text, "f"), "n1", "f");
    } else {
      check_topology(text);
    }
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad file is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
  }
  return 0;
}
