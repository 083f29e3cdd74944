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
std::string written(Write write, const graph::Graph& graph) {
  try {
    return write(graph);
  } catch (const regatta::base::Error&) {
    return "";
  }
}

void check_graph_of(const graph::Graph& graph) {
  for (const std::string& line : regatta::base::split(fabric::fabric_text(graph), '\n')) {
    check(regatta::base::printable(line) == line, "the text is printable");
  }
  const std::string conf = written(sources::write_tree_conf, graph);
  if (conf.empty()) return;
  // The order may be another one, as made-up names sort elsewhere.
  const graph::Graph again = sources::read_topology_conf(conf, "again");
  check(graph::to_json(sources::read_topology_conf(sources::write_tree_conf(again), "again")) ==
            graph::to_json(again),
        "a tree comes back");
  const graph::Graph blocks =
      sources::read_topology_conf(sources::write_block_conf(graph), "again");
  check(graph::to_json(sources::read_topology_conf(sources::write_block_conf(blocks), "again")) ==
            graph::to_json(blocks),
        "blocks come back");
  (void)sources::read_topology_yaml(sources::write_topology_yaml(graph), "again");
  (void)sources::write_topology_labels(graph);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  graph::Graph graph;
  try {
    switch (data[0]) {
      case 'y':
        graph = sources::read_topology_yaml(text, "fuzz");
        break;
      case 's':
        graph = sources::read_scontrol_topology(text, "fuzz");
        break;
      case 'n':
        graph = sources::read_scontrol_nodes(text, "fuzz");
        break;
      default:
        graph = sources::read_topology_conf(text, "fuzz");
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
