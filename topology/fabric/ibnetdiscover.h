// The output of ibnetdiscover (rdma-core): which switches and adapters an InfiniBand subnet has and
// how they are cabled.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/finding.h"
#include "topology/graph/graph.h"

namespace regatta::topology::fabric {

// Reads both forms: blocks of `Switch` and `Ca` (the default) and one line for each port (-p),
// with or without the progress of -s between them. `place` is the file or the command, for messages
// and as the place of the facts.
//
// Gives a fabric "fabric:0x<smallest GUID of a switch>" for each part that hangs together, below it
// its switches; nodes with their NICs as the adapters' descriptions name them ("host mlx5_5"); and
// a link for each pair of ends with all its cables. An adapter that names no host ("MT4129
// ConnectX7 …", "localhost HCA-1", or what another one calls itself already) is a NIC without a
// parent, which Graph::merge() joins by its GUID to what the host says. Aggregation nodes (SHARP)
// are a fact of their switch. Rates are those on the label, as NCCL takes them: 4xNDR is 50 GB/s.
//
// Dumps of several planes, or of one subnet from several nodes, go together by Graph::merge().
//
// Throws Code::User "PLACE:LINE: …" for what is not of the form, and for a discovery that saw
// nothing but the adapter it started from or that is cut off: every cable must be there from both
// ends. With `findings`, two things are left out instead, and counted there
// ("reading.skipped"): aggregation nodes without a block of their own, and ibnetdiscover's messages
// of devices that did not answer ("umad … bad status").
[[nodiscard]] graph::Graph read_ibnetdiscover(std::string_view text, const std::string& place,
                                              std::vector<graph::Finding>* findings = nullptr);

// What an adapter's description names; a part is empty where it names none.
struct AdapterName {
  std::string host;    // "node01"
  std::string device;  // "mlx5_5", "HCA-6"
};
[[nodiscard]] AdapterName parse_adapter_name(std::string_view description);

// Megabit per second of "4xNDR" by its label: 400000; 0 for what is not known.
[[nodiscard]] double parse_infiniband_rate(std::string_view rate);
inline constexpr double kMegabitPerGigabyte = 8000;

}  // namespace regatta::topology::fabric
