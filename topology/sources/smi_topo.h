// nvidia-smi's matrix of what connects GPUs and NICs, and its list of NVLinks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/finding.h"
#include "topology/graph/graph.h"

namespace regatta::topology::sources {

struct SmiContext {
  std::string node;   // the machine's name
  std::string place;  // where the text comes from: a file or "node01: nvidia-smi topo -m"
  std::string model;  // of its GPUs, where it is known: "NVIDIA A100-SXM4-80GB"
};

inline constexpr std::size_t kMostSmiBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMostSmiDevices = 512;

// `nvidia-smi topo -m`, of any driver: tabs or blanks, with the escapes of a terminal or without.
// GPUs know their index, NICs their name where the legend or the column has it (else `#n` of the
// column), both their NUMA domain as far as the matrix says or implies it, and every pair of
// devices has its cell as path fact on both.
//
// NVLinks: a cell says how many links one GPU has towards the other. GPUs on an NVSwitch have all
// of their links towards everybody, so where a row sums to more than a GPU has (of the model, else
// 18) the node gets one `nvswitch#0` with a link per GPU; else the cells are links between two
// GPUs. Bandwidths only for a model that is known, and as derived.
//
// Throws Code::User for what is no such matrix, is cut off, contradicts itself, or is the matrix of
// `nvidia-smi topo -p2p`, which shows what is allowed and not how it is connected. With `findings`,
// a matrix that is cut off behind the rows of its GPUs gives these, and says what is left out.
[[nodiscard]] graph::Graph read_smi_topo(std::string_view text, const SmiContext& context,
                                         std::vector<graph::Finding>* findings = nullptr);

// `nvidia-smi nvlink -s`: index, model and UUID of every GPU that has NVLinks, how many of them are
// up and down, and the speed of one. Empty text is a machine without NVLinks. Throws as above.
[[nodiscard]] graph::Graph read_smi_nvlink(std::string_view text, const SmiContext& context);

}  // namespace regatta::topology::sources
