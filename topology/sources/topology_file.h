// An NCCL topology file as the doctor's checks look at it, without a graph of it: that also says
// something of files that NCCL itself would refuse.
#pragma once

#include <string>
#include <string_view>

#include "topology/doctor/doctor.h"

namespace regatta::topology::sources {

// Counts the elements of any text with tags; unknown elements count, too, as NCCL has no room for
// them either. Throws Code::User for text without <system>, tags that do not end or do not match,
// and elements that nest deeper than 64 levels.
[[nodiscard]] doctor::TopologyFile scan_topology_file(std::string_view text,
                                                      const std::string& path);

}  // namespace regatta::topology::sources
