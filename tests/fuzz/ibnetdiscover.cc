// Any bytes may come as a dump of a fabric: read or refused, and what is read has a form, a text
// and findings, and comes back from JSON.
#include "topology/fabric/ibnetdiscover.h"

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/text.h"
#include "topology/fabric/fabric_findings.h"
#include "topology/fabric/fabric_shape.h"

using namespace regatta::topology;
using regatta::base::check;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  graph::Graph graph;
  std::vector<graph::Finding> findings;
  try {
    graph =
        fabric::read_ibnetdiscover({reinterpret_cast<const char*>(data), size}, "fuzz", &findings);
  } catch (const regatta::base::Error& error) {
    check(regatta::base::printable(error.what()) == error.what(), "a message is one plain line");
    return 0;
  }
  check(!graph.of_kind(graph::Kind::Fabric).empty(), "what is read has a link, and so a fabric");
  fabric::note_shape(&graph);
  const fabric::FabricShape shape(graph);
  for (const fabric::SwitchShape& one : shape.switches()) {
    check(one.adapters >= one.unnamed && one.down_gb_per_s >= 0 && one.up_gb_per_s >= 0, "figures");
    check(one.fabric != graph::kNoVertex, "a switch is in a fabric");
  }
  for (const std::string& line : regatta::base::split(fabric::fabric_text(graph), '\n')) {
    check(regatta::base::printable(line) == line, "the text is printable");
  }
  for (graph::Finding& finding : fabric::check_fabric(graph))
    findings.push_back(std::move(finding));
  for (const graph::Finding& finding : findings) {
    check(!finding.remedy.empty() && regatta::base::printable(finding.words) == finding.words,
          "a finding can be shown");
  }
  const std::string json = graph::to_json(graph);
  check(graph::fingerprint(graph::parse_graph(json, "fuzz")) == graph::fingerprint(graph),
        "JSON loses nothing");
  graph::Graph twice = graph;
  twice.merge(graph);
  check(twice.vertices().size() == graph.vertices().size(), "the same again adds nothing");
  return 0;
}
