// A discovered InfiniBand subnet between the text and the graph (inside ibnetdiscover.cc and
// discovery_graph.cc only).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"

namespace regatta::topology::fabric {

struct DiscoveredPort {
  std::int64_t number = 0;
  std::size_t line = 0;
  std::string peer;  // key of the device at the other end; empty: no link
  std::int64_t peer_port = 0;
  std::string rate;             // "4xNDR"
  bool to_aggregation = false;  // the other end calls itself one
};

struct DiscoveredDevice {
  bool is_switch = false;
  bool is_aggregation = false;  // the part of a switch that reduces (SHARP)
  std::string guid;             // 0x and 16 digits; empty: only the port's is known
  std::string port_guid;        // of the first port
  std::string description;
  std::int64_t lid = 0;         // 0: not known
  std::int64_t port_count = 0;  // that it says to have; 0: it does not say
  std::size_t line = 0;
  std::vector<DiscoveredPort> ports;
};

struct Discovery {
  std::vector<DiscoveredDevice> devices;
  std::map<std::string, std::size_t, std::less<>> by_key;  // "S-…", "H-…" → devices
  bool one_device_per_port = false;  // as in lists of ports, where adapters have no GUID
  std::size_t unanswered = 0;        // lines about a device that did not answer
  std::size_t first_unanswered = 0;  // the line of the first of them
};

// Refuses what is cut off and gives the rest as a graph (ibnetdiscover.h). Sorts the ports. Null
// `findings`: what could be left out is refused.
[[nodiscard]] graph::Graph graph_of(Discovery* discovery, const std::string& place,
                                    std::vector<graph::Finding>* findings);

}  // namespace regatta::topology::fabric
