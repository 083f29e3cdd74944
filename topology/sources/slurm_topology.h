// What Slurm reads and prints about the network: topology.conf, topology.yaml, scontrol; as a
// graph, and written from one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"

namespace regatta::topology::sources {

// Readers. `place` is the file or the command. Each gives a fabric "fabric:<name>" with switches
// (for blocks: one switch without anything above it for each block), nodes, and fabric links
// between a switch and the nodes or switches that it lists; key::kLevel is Slurm's own, 0 for
// leaves. They throw Code::User "PLACE:LINE: …" for what Slurm would not take either: unknown keys,
// switches that do not exist, duplicates, rings; and for what would name more than 4 ×
// kMostHosts nodes.

// topology.conf of the plugins topology/tree and topology/block. The fabric is "fabric:slurm",
// switches are "switch:<name>". A comment "# <name>=<real name>" before a switch, as topograph
// writes it, becomes its description.
[[nodiscard]] graph::Graph read_topology_conf(std::string_view text, const std::string& place);
// topology.yaml (Slurm 25.05 and later): a fabric "fabric:<topology>" for each topology in it,
// switches are "switch:<topology>/<name>". The kinds ring and torus3d (26.05) are refused.
[[nodiscard]] graph::Graph read_topology_yaml(std::string_view text, const std::string& place);
// `scontrol show topology`; ids as of topology.conf. What SLURM_TOPO_LEN or a terminal cut off is
// refused.
[[nodiscard]] graph::Graph read_scontrol_topology(std::string_view text, const std::string& place);
// `scontrol show node`, with or without -o: nodes with their state, features, CPUs, memory and GPUs
// as facts.
[[nodiscard]] graph::Graph read_scontrol_nodes(std::string_view text, const std::string& place);

// Writers. They take the discovered fabrics (Source::Ibnetdiscover and others); where there are
// none, those that Slurm named. Nodes that share leaves (the rails of a unit) make one leaf, planes
// of the same nodes one tree; names that Slurm does not take are replaced and stand in a comment.
// Code::User when no fabric has a node.

// topology.conf for topology/tree.
[[nodiscard]] std::string write_tree_conf(const graph::Graph& graph);
// topology.conf for topology/block: NVLink domains, where there are some, else leaves. Sizes grow
// by powers of two from the smallest block as long as they fit in the cluster, unless the graph
// knows others.
[[nodiscard]] std::string write_block_conf(const graph::Graph& graph);
// topology.yaml with a topology "tree", which is the default, and a topology "block".
[[nodiscard]] std::string write_topology_yaml(const graph::Graph& graph);

// For each node in a tree "node KEY=VALUE …": the labels that topograph gives nodes of Kubernetes
// (network.topology.nvidia.com/{accelerator,leaf,spine,core}), as far as there are such tiers.
[[nodiscard]] std::string write_topology_labels(const graph::Graph& graph);

}  // namespace regatta::topology::sources
