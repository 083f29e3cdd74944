// The machines of the public nccl-tests logs, as their data sheets describe them.
#pragma once

#include "topology/nccl/cost_model.h"

namespace regatta::topology {

// GB/s within: NVLinks × what NCCL takes one for (12 × 20, 18 × 20.6, 18 × 40.1).
inline nccl::Allocation a100_nodes(int nodes, int ranks_per_node) {
  nccl::Allocation allocation;
  allocation.nodes = nodes;
  allocation.ranks_per_node = ranks_per_node;
  allocation.compute_capability = 80;
  allocation.host = nccl::HostCpu::Amd;
  allocation.gb_per_s_within = 240;
  allocation.nvswitch = ranks_per_node == 8;
  allocation.nics = 8;
  allocation.gb_per_s_a_nic = 25;  // HDR
  allocation.to_nic = graph::PathType::Pxb;
  return allocation;
}

inline nccl::Allocation h100_nodes(int nodes) {
  nccl::Allocation allocation;
  allocation.nodes = nodes;
  allocation.ranks_per_node = 8;
  allocation.compute_capability = 90;
  allocation.gb_per_s_within = 370.8;
  allocation.nvswitch = true;
  allocation.nics = 8;
  allocation.gb_per_s_a_nic = 50;  // NDR
  return allocation;
}

inline nccl::Allocation with_sharp(nccl::Allocation allocation) {
  allocation.sharp = true;
  return allocation;
}

inline nccl::Allocation b200_nodes(int nodes) {
  nccl::Allocation allocation = h100_nodes(nodes);
  allocation.compute_capability = 100;
  allocation.gb_per_s_within = 721.8;
  return allocation;
}

// Racks of 72 GPUs on one NVLink: a rack is a node to NCCL. A NIC of 400 Gbit/s per GPU.
inline nccl::Allocation gb200_racks(int racks) {
  nccl::Allocation allocation = b200_nodes(racks);
  allocation.ranks_per_node = 72;
  allocation.host = nccl::HostCpu::Other;
  allocation.nics = 72;
  return allocation;
}

// Four modules with 6 NVLinks between any two; a Slingshot port of 200 Gbit/s each.
inline nccl::Allocation gh200_nodes(int nodes) {
  nccl::Allocation allocation = h100_nodes(nodes);
  allocation.ranks_per_node = 4;
  allocation.host = nccl::HostCpu::Other;
  allocation.nvswitch = false;
  allocation.nics = 4;
  allocation.gb_per_s_a_nic = 25;
  return allocation;
}

// Four cards below two bridges of two Intel sockets: 10 GB/s from one socket to the other.
inline nccl::Allocation v100_pcie() {
  nccl::Allocation allocation;
  allocation.ranks_per_node = 4;
  allocation.compute_capability = 70;
  allocation.gb_per_s_within = 10;
  allocation.within = graph::PathType::Sys;
  return allocation;
}

}  // namespace regatta::topology
