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
  sources::ClusterDescription cluster;
  try {
    cluster =
        sources::parse_cluster(std::string_view(reinterpret_cast<const char*>(data), size), "f");
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad description is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
    return 0;
  }
  check(sources::node_graph(cluster, cluster.node_count() - 1).vertices().size() <=
            sources::kMostVertices,
        "a node is a part of the whole");
  // A few hundred thousand vertices are allowed, but slow to fuzz.
  if (cluster.node_count() > 64) return 0;
  const graph::Graph graph = sources::cluster_graph(cluster);
  check(graph.vertices().size() <= sources::kMostVertices, "no more vertices than are allowed");
  check(graph::to_json(graph::parse_graph(graph::to_json(graph), "again")) == graph::to_json(graph),
        "JSON gives it back");
  (void)doctor::diagnose({graph});
  return 0;
}
