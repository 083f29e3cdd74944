// How two devices reach each other, in NCCL's words: the ladder from the same device to none at
// all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"

namespace regatta::topology::graph {

// The order is NCCL's: nearer first. NCCL gives NICs direct access to GPU memory up to Pxb.
enum class PathType : std::uint8_t {
  Loc,  // the same device
  Nvl,  // NVLink, directly or over NVSwitches (AMD: xGMI)
  Nvb,  // NVLink over one GPU between
  C2c,  // the link of a GPU and the CPU of one module
  Pix,  // at most one PCIe bridge
  Pxb,  // several PCIe bridges, no CPU
  P2c,  // to a NIC of the CPU that the GPU has a C2C link to
  Pxn,  // over NVLink to a GPU that is near to the NIC
  Phb,  // a CPU (nvidia-smi's NODE is this, too)
  Sys,  // several CPUs
  Net,  // the network between two machines
  Dis,  // none
};
[[nodiscard]] const char* name_of(PathType type);  // "LOC", …, as NCCL's dumps have them
// NCCL's names, and nvidia-smi's: "NV12", "NODE", "SOC".
[[nodiscard]] std::optional<PathType> parse_path_type(std::string_view name);

struct Path {
  PathType type = PathType::Dis;
  // False: no source says where both devices are, and the type is an assumption: all below one CPU,
  // or behind several where the node has several NUMA domains.
  bool is_known = true;
  // The narrowest part, one direction, a NIC's port included; nothing where some part is not known.
  std::optional<double> gb_per_s;
  std::optional<std::int64_t> nvlinks;  // of the narrowest part, of an NVLink path
  std::vector<VertexIndex> via;         // from a to b; only these where a matrix gave the type
};

// Whether an NVSwitch stands for the switches of its node because some source could not name them,
// while another one has: then its links are theirs, listed twice.
[[nodiscard]] bool is_stand_in(const Graph& graph, VertexIndex nvswitch);

// Finds paths in a graph, which must live as long. The way with the best type counts, then with the
// fewest steps. Where the PCIe bridges or the NUMA domain of a device are not known, nvidia-smi's
// matrix (a path fact) gives the type of what is no NVLink; without one, devices below one NUMA
// domain meet at the CPU.
class Paths {
 public:
  explicit Paths(const Graph& graph);

  // Of two GPUs or NICs.
  [[nodiscard]] Path between(VertexIndex a, VertexIndex b) const;
  // As NCCL sends to other machines: over a GPU on NVLink that is nearer to the NIC, if that helps.
  [[nodiscard]] Path to_nic(VertexIndex gpu, VertexIndex nic) const;

 private:
  struct Way {
    VertexIndex to;
    LinkKind kind;
    std::optional<double> gb_per_s;
    std::optional<std::int64_t> count;
  };
  struct Label;
  void add_link(const Link& link);
  void add_containment();
  void add_way(VertexIndex from, VertexIndex to, Way way);
  void add_ways(VertexIndex a, VertexIndex b, LinkKind kind);
  [[nodiscard]] VertexIndex merged(VertexIndex vertex) const;
  [[nodiscard]] std::optional<PathType> step(const Label& at, VertexIndex from, const Way& way,
                                             VertexIndex target) const;
  [[nodiscard]] Path search(VertexIndex a, VertexIndex b) const;
  [[nodiscard]] std::optional<PathType> told(VertexIndex a, VertexIndex b) const;
  [[nodiscard]] bool is_placed(VertexIndex device) const;
  [[nodiscard]] bool is_below_numa(VertexIndex device) const;
  [[nodiscard]] bool has_nic(VertexIndex node) const;

  const Graph& graph_;
  std::vector<std::vector<Way>> ways_;     // by vertex
  std::vector<VertexIndex> first_switch_;  // by vertex: the NVSwitch that stands for all beside it
};

[[nodiscard]] Path path_of(const Graph& graph, VertexIndex a, VertexIndex b);

// A table for people: a row per GPU of the node, a column per GPU and NIC, and what the words mean.
[[nodiscard]] std::string matrix_text(const Graph& graph, const Paths& paths, VertexIndex node);

}  // namespace regatta::topology::graph
