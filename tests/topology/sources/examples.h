// The descriptions that ship with the project.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "topology/sources/cluster_file.h"

namespace regatta::topology {

[[nodiscard]] inline sources::ClusterDescription example(const std::string& name) {
  const std::string path = std::string(REGATTA_SOURCE_DIR) + "/topology/examples/" + name + ".yaml";
  std::ifstream file(path);
  return sources::parse_cluster(std::string{std::istreambuf_iterator<char>(file), {}},
                                name + ".yaml");
}

}  // namespace regatta::topology
