// The graphs that NCCL's search found (NCCL_GRAPH_DUMP_FILE): channels, and the speed of each.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"
#include "topology/graph/paths.h"

namespace regatta::topology::sources {

// A GPU by its NVML index or a NIC by NCCL's number, and which machine of an NVLink domain has it:
// 0 where there is only one.
struct NcclDevice {
  std::int64_t dev = 0;
  std::int64_t machine = 0;
  auto operator<=>(const NcclDevice&) const = default;
};

struct NcclChannel {
  std::vector<NcclDevice> gpus;  // in order
  std::vector<NcclDevice> nets;  // where it enters and leaves the node; empty on one node
};

struct NcclSearch {
  std::int64_t id = 0;  // 0 ring, 1 tree, 2 collnet chain, 3 NVLS, 4 collnet direct
  std::int64_t pattern =
      0;  // 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 collnet direct
  bool cross_nic = false;
  bool same_channels = false;
  double gb_per_s_intra = 0, gb_per_s_inter = 0;  // of one channel
  double latency_us_inter = 0;
  graph::PathType intra = graph::PathType::Loc,
                  inter = graph::PathType::Loc;  // the worst way that it takes
  std::vector<NcclChannel> channels;
};
[[nodiscard]] const char* name_of_search(std::int64_t id);        // "ring", …, "unknown"
[[nodiscard]] const char* name_of_pattern(std::int64_t pattern);  // "balanced tree", …, "unknown"

// Devices are decimal numbers up to NCCL 2.20, and since then hexadecimal ones ("0x3"; 0 is "0")
// with the machine in the highest byte. Throws Code::User "place:line: what" for what is no such
// file, repeated ids, unknown path types and a number of channels that the file does not have.
[[nodiscard]] std::vector<NcclSearch> parse_nccl_graphs(std::string_view text,
                                                        const std::string& place);

// What the searches say of a node: its GPUs, and as facts of the node "nccl.<search>.channels",
// ".gb_per_s" (of all channels, inside the node), ".path" (the worst one between GPUs). Searches
// over several machines give no GPUs: the file does not say which of them wrote it.
[[nodiscard]] graph::Graph graph_of_searches(const std::vector<NcclSearch>& searches,
                                             const std::string& node, const std::string& place);

}  // namespace regatta::topology::sources
