// Any bytes may stand where NCCL's XML should: one clear error, or a graph that is written as it
// was read. The first byte chooses topology or search graphs.
#include "topology/sources/nccl_xml.h"

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "topology/sources/nccl_graph.h"
#include "topology/graph/paths.h"

using regatta::base::check;
using namespace regatta::topology;

namespace {

void check_topology(std::string_view text) {
  const Graph graph = read_nccl_xml(text, {"n1", "f"});
  const std::string json = to_json(graph);
  std::string written;
  try {
    written = write_nccl_xml(graph, graph.find("n1"));
  } catch (const regatta::base::Error&) {
    return;  // read, but beyond what NCCL takes
  }
  check(to_json(read_nccl_xml(written, {"n1", "f"})) == json, "nothing was lost in writing");
  if (graph.vertices().size() < 40) (void)matrix_text(graph, Paths(graph), graph.find("n1"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 'g') {
      (void)graph_of_searches(parse_nccl_graphs(text, "f"), "n1", "f");
    } else {
      check_topology(text);
    }
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad file is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
  }
  return 0;
}
