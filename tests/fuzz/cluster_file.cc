// Any bytes are a cluster description: a graph that its JSON gives back and that the doctor can
// look at, or one clear error.
#include "topology/sources/cluster_file.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "topology/doctor/doctor.h"

using regatta::base::check;
using namespace regatta::topology;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ClusterDescription cluster;
  try {
    cluster = parse_cluster(std::string_view(reinterpret_cast<const char*>(data), size), "f");
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad description is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
    return 0;
  }
  check(node_graph(cluster, cluster.node_count() - 1).vertices().size() <= kMostVertices,
        "a node is a part of the whole");
  // A few hundred thousand vertices are allowed, but slow to fuzz.
  if (cluster.node_count() > 64) return 0;
  const Graph graph = cluster_graph(cluster);
  check(graph.vertices().size() <= kMostVertices, "no more vertices than are allowed");
  check(to_json(parse_graph(to_json(graph), "again")) == to_json(graph), "JSON gives it back");
  (void)diagnose({graph});
  return 0;
}
