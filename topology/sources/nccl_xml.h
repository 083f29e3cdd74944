// NCCL's topology XML: full dumps, the skeletons of cloud images that NCCL completes on the
// machine, and RCCL's version 2 (AMD). Reading keeps every element, attribute and order ("xml."
// facts), so that what was read can be written again.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "topology/graph/graph.h"

namespace regatta::topology::sources {

struct NcclXmlContext {
  std::string node;   // the machine's name
  std::string place;  // the file
};

// `cpu` becomes a NUMA domain, `pci` a bridge, or the GPU or NIC in it (by class in skeletons; a
// leaf without class stays a bridge), `net` a NIC, so a card of two ports is two NICs. An interface
// without PCIe device that is listed below several `cpu` is one, below the first. Speeds of
// PCIe and NVLink are what NCCL takes them for, as derived; where the file leaves them to the
// machine there is none. A GPU's NVLink to itself or to a GPU that is not in the file is kept as
// attribute only. Throws Code::User for what NCCL would not understand either, for unknown
// elements, repeated bus ids, and GPUs that disagree on the NVLinks between them.
[[nodiscard]] graph::Graph read_nccl_xml(std::string_view text, const NcclXmlContext& context);

// NCCL writes a GUID as the number that its bytes make on a little-endian machine:
// 946d:ae03:0050:709a is 0x9a70500003ae6d94 there. From one form to the other, with all 16 digits;
// nothing for other text.
[[nodiscard]] std::optional<std::string> swapped_guid(std::string_view guid);

// NCCL 2.28's limits for the file of one machine.
inline constexpr std::size_t kMostNcclElements = 256;
inline constexpr std::size_t kMostNcclChildren = 128;
inline constexpr std::size_t kMostNcclAttributes = 16;
inline constexpr std::size_t kMostNcclAttributeBytes = 255;

struct NcclXmlOptions {
  // Gives what has no bus id one that no machine has ("fffe:00:01.0"), for looking at machines that
  // are not there. On the machine itself NCCL would not find its GPUs by such a file.
  bool invent_bus_ids = false;
};

// The file of one node. Attributes of a file that was read stand as they were; devices that another
// source knows, too, are completed from it, and a bridge without children that has a device's bus
// id becomes that device. Where only nvidia-smi's matrix has bridges (PIX, PXB), they are made
// up as cloud images do ("ffff:ff:01.0"). What is not known is left out: NCCL asks the machine.
// Throws Code::User for what cannot be written so that NCCL reads it: a GPU without bus id or NUMA
// domain, what is beyond the limits, and text that NCCL's parser would misread.
[[nodiscard]] std::string write_nccl_xml(const graph::Graph& graph, graph::VertexIndex node,
                                         const NcclXmlOptions& options = {});

}  // namespace regatta::topology::sources
