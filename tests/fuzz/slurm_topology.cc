// Any bytes may come as Slurm's topology or nodes: read or refused; what is read can be written,
// and says the same when it is read again. The first byte chooses the reader.
#include "topology/sources/slurm_topology.h"

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/text.h"
#include "topology/fabric/fabric_shape.h"

using namespace regatta::topology;
using regatta::base::check;

namespace {

// A text that a writer refuses, for want of nodes, is no loss.
template <class Write>
std::string written(Write write, const Graph& graph) {
  try {
    return write(graph);
  } catch (const regatta::base::Error&) {
    return "";
  }
}

void check_graph_of(const Graph& graph) {
  for (const std::string& line : regatta::base::split(fabric_text(graph), '\n')) {
    check(regatta::base::printable(line) == line, "the text is printable");
  }
  const std::string conf = written(write_tree_conf, graph);
  if (conf.empty()) return;
  // The order may be another one, as made-up names sort elsewhere.
  const Graph again = read_topology_conf(conf, "again");
  check(to_json(read_topology_conf(write_tree_conf(again), "again")) == to_json(again),
        "a tree comes back");
  const Graph blocks = read_topology_conf(write_block_conf(graph), "again");
  check(to_json(read_topology_conf(write_block_conf(blocks), "again")) == to_json(blocks),
        "blocks come back");
  (void)read_topology_yaml(write_topology_yaml(graph), "again");
  (void)write_topology_labels(graph);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Graph graph;
  try {
    switch (data[0]) {
      case 'y':
        graph = read_topology_yaml(text, "fuzz");
        break;
      case 's':
        graph = read_scontrol_topology(text, "fuzz");
        break;
      case 'n':
        graph = read_scontrol_nodes(text, "fuzz");
        break;
      default:
        graph = read_topology_conf(text, "fuzz");
    }
  } catch (const regatta::base::Error& error) {
    check(regatta::base::printable(error.what()) == error.what(), "a message is one plain line");
    return 0;
  }
  check(!graph.vertices().empty(), "what is read is not nothing");
  // Reading what is written again takes longer than the rest together.
  if (graph.vertices().size() < 500) check_graph_of(graph);
  return 0;
}
