#include "topology/nccl/nccl_tables.h"

#include <iterator>

namespace regatta::topology::nccl {
namespace {

constexpr const char* kCollectiveNames[kCollectives] = {"Broadcast", "Reduce", "AllGather",
                                                        "ReduceScatter", "AllReduce"};
constexpr const char* kAlgorithmNames[kAlgorithms] = {
    "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
constexpr const char* kProtocolNames[kProtocols] = {"LL", "LL128", "Simple"};

// Rows of the times are algorithms, columns LL, LL128, Simple. Read from NCCL 2.28.9.
constexpr NcclTables kTables[] = {{
    .version = "2.28",
    .base_us = {{6.8, 14, 8.4}, {6.6, 14, 8.4}, {}, {}, {}, {}, {8, 8, 8}},
    .nvlink_us = {{.6, 1.25, 4},
                  {.6, 1.9, 3.4},
                  {0, 0, 3.7},
                  {0, 0, 2.8},
                  {0, 0, 25},
                  {0, 0, 25},
                  {0, 0, 4}},
    .pcie_us = {{1, 1.9, 4}, {1, 2.5, 5.7}, {0, 0, 3.7}, {0, 0, 2.8}, {}, {}, {0, 0, 4}},
    .network_us =
        {{5, 8.5, 14}, {2.7, 4, 14}, {0, 0, 31}, {0, 0, 30}, {0, 0, 18}, {0, 0, 20.9}, {0, 0, 14}},
    .ll_gb_per_s = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}},
    .ring_ll128_gb_per_s = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 34.6, 73.4}},
    .tree_ll128_gb_per_s = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}},
    .tree_gb_per_s = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}},
    .nvls_tree_gb_per_s = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 43.8}},
    .nvls_efficiency = {0, 0, .85, .74},
    .tree_share = {{1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                    .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1},
                   {1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6,
                    .6, .6, .6, .6, .8, .9, .9, .9, .9, 1,  1},
                   {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                    .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}},
}};

constexpr double kWithin[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 0};
constexpr double kWithinHopper[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3, 0};
constexpr double kWithinBlackwell[] = {90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18, 0};
constexpr double kBetween[] = {48, 30, 28, 24, 20, 18,  15,  12,  10,  9,
                               7,  6,  5,  4,  3,  2.4, 1.2, .24, .12, 0};
constexpr double kBetweenHopper[] = {48, 45, 42, 40, 30,  24,  22,  20,  17.5,
                                     15, 12, 6,  3,  2.4, 1.2, .24, .12, 0};
constexpr double kBetweenBlackwell[] = {96, 48, 45.1, 42, 40,  30,  24,  22,  20, 17.5,
                                        15, 12, 6,    3,  2.4, 1.2, .24, .12, 0};

}  // namespace

const char* name_of(Collective collective) {
  return kCollectiveNames[static_cast<std::size_t>(collective)];
}

const char* name_of(Algorithm algorithm) {
  return kAlgorithmNames[static_cast<std::size_t>(algorithm)];
}

const char* name_of(Protocol protocol) {
  return kProtocolNames[static_cast<std::size_t>(protocol)];
}

const NcclTables* nccl_tables(std::string_view version) {
  for (const NcclTables& tables : kTables) {
    const std::string_view known = tables.version;
    if (version.substr(0, known.size()) != known) continue;
    if (version.size() == known.size() || version[known.size()] == '.') return &tables;
  }
  return nullptr;
}

const NcclTables& newest_nccl_tables() { return kTables[std::size(kTables) - 1]; }

const double* channel_speeds_within_node(int compute_capability) {
  if (compute_capability < 90) return kWithin;
  return compute_capability < 100 ? kWithinHopper : kWithinBlackwell;
}

const double* channel_speeds_between_nodes(int compute_capability) {
  if (compute_capability < 90) return kBetween;
  return compute_capability < 100 ? kBetweenHopper : kBetweenBlackwell;
}

}  // namespace regatta::topology::nccl
