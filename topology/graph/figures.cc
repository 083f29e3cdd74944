#include "topology/graph/figures.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace regatta::topology::graph {
namespace {

// Sources: NVIDIA's data sheets of each product, which give NVLink in both directions together
// (V100 300, A100 600, H100 and H200 900, B200 and GB200 1800 GB/s): half of it, by the number of
// links. A800 and H800 are cut to 400 GB/s: 8 links. Bridges: A30 200, A40 112.5, A100, H100 PCIe
// and H100 NVL 600, H200 NVL 900 GB/s. C2C: 900 GB/s in both directions between a Grace and its one
// Hopper (GH200), or its two Blackwells (GB200, GB300). Compute capability: CUDA C++ Programming
// Guide.
constexpr GpuFigures kGpus[] = {
    {"GB300", 103, NvlinkForm::Board, 18, 50.0, 6, 225.0},
    {"GB200", 100, NvlinkForm::Board, 18, 50.0, 5, 225.0},
    {"B300", 103, NvlinkForm::Board, 18, 50.0, 6, 0},
    {"B200", 100, NvlinkForm::Board, 18, 50.0, 5, 0},
    {"GH200", 90, NvlinkForm::Board, 18, 25.0, 5, 450.0},
    {"H200 NVL", 90, NvlinkForm::Bridge, 18, 25.0, 5, 0},
    {"H200", 90, NvlinkForm::Board, 18, 25.0, 5, 0},
    {"H100 NVL", 90, NvlinkForm::Bridge, 12, 25.0, 5, 0},
    {"H100 PCIE", 90, NvlinkForm::Bridge, 12, 25.0, 5, 0},
    {"H100", 90, NvlinkForm::Board, 18, 25.0, 5, 0},
    {"H800 PCIE", 90, NvlinkForm::Bridge, 8, 25.0, 5, 0},
    {"H800", 90, NvlinkForm::Board, 8, 25.0, 5, 0},
    {"H20", 90, NvlinkForm::Board, 18, 25.0, 5, 0},
    {"L40S", 89, NvlinkForm::None, 0, 0, 4, 0},
    {"L40", 89, NvlinkForm::None, 0, 0, 4, 0},
    {"L4", 89, NvlinkForm::None, 0, 0, 4, 0},
    {"A100 SXM4", 80, NvlinkForm::Board, 12, 25.0, 4, 0},
    {"A100 PCIE", 80, NvlinkForm::Bridge, 12, 25.0, 4, 0},
    {"A800 SXM4", 80, NvlinkForm::Board, 8, 25.0, 4, 0},
    {"A40", 86, NvlinkForm::Bridge, 4, 14.0625, 4, 0},
    {"A30", 80, NvlinkForm::Bridge, 4, 25.0, 4, 0},
    {"A10G", 86, NvlinkForm::None, 0, 0, 4, 0},
    {"A10", 86, NvlinkForm::None, 0, 0, 4, 0},
    {"T4", 75, NvlinkForm::None, 0, 0, 3, 0},
    {"V100 SXM2", 70, NvlinkForm::Board, 6, 25.0, 3, 0},
    {"V100 SXM3", 70, NvlinkForm::Board, 6, 25.0, 3, 0},
    {"V100 PCIE", 70, NvlinkForm::None, 0, 0, 3, 0},
};

struct PcieGeneration {
  double gt_s;
  double useful;  // of the bits on the line
};
// PCI-SIG: 8b/10b, from generation 3 on 128b/130b, in generation 6 flits of 242 in 256 bytes.
constexpr PcieGeneration kPcie[] = {{2.5, 0.8},          {5, 0.8},
                                    {8, 128.0 / 130.0},  {16, 128.0 / 130.0},
                                    {32, 128.0 / 130.0}, {64, 242.0 / 256.0}};

struct InfiniBandRate {
  const char* name;
  std::int64_t mbit_per_s_a_lane;
};
// InfiniBand Trade Association's roadmap; data rates as ibnetdiscover and sysfs count them.
constexpr InfiniBandRate kInfiniBand[] = {{"SDR", 2500},    {"DDR", 5000},   {"QDR", 10000},
                                          {"FDR10", 10000}, {"FDR", 14000},  {"EDR", 25000},
                                          {"HDR", 50000},   {"NDR", 100000}, {"XDR", 200000}};

// Letters in upper case, everything else but digits a blank.
std::vector<std::string> words_of(std::string_view text) {
  std::string plain(text);
  for (char& c : plain) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9')) c = ' ';
  }
  return base::split(plain, ' ');
}

std::optional<NetworkRate> infiniband_rate(std::string_view name, int lanes) {
  for (const InfiniBandRate& rate : kInfiniBand) {
    if (name == rate.name) return NetworkRate{rate.mbit_per_s_a_lane * lanes, lanes, "InfiniBand"};
  }
  return std::nullopt;
}

}  // namespace

const GpuFigures* gpu_figures(std::string_view model) {
  const std::vector<std::string> words = words_of(model);
  for (const GpuFigures& row : kGpus) {
    const std::vector<std::string> wanted = words_of(row.words);
    const bool all = std::all_of(wanted.begin(), wanted.end(), [&](const std::string& word) {
      return std::find(words.begin(), words.end(), word) != words.end();
    });
    if (all) return &row;
  }
  return nullptr;
}

double pcie_gb_per_s(double gt_s, double lanes) {
  double useful = 1;
  for (const PcieGeneration& generation : kPcie) {
    if (gt_s >= generation.gt_s * 0.99) useful = generation.useful;
  }
  return gt_s * useful * lanes / 8;
}

std::optional<double> pcie_gt_s(int generation) {
  if (generation < 1 || generation > static_cast<int>(std::size(kPcie))) return std::nullopt;
  return kPcie[generation - 1].gt_s;
}

std::optional<NetworkRate> network_rate(std::string_view name) {
  if (name.size() > 3 && name.substr(name.size() - 3) == "GbE") {
    const auto gigabit = base::parse_integer(name.substr(0, name.size() - 3));
    if (!gigabit || *gigabit < 1 || *gigabit > 1600) return std::nullopt;
    return NetworkRate{*gigabit * 1000, 1, "Ethernet"};
  }
  int lanes = 4;
  for (const int each : {1, 2, 4, 8, 12}) {
    const std::string prefix = std::to_string(each) + "X ";
    if (name.substr(0, prefix.size()) == prefix) {
      lanes = each;
      name.remove_prefix(prefix.size());
      break;
    }
  }
  // Half a port of a switch: two lanes under a name of their own.
  if (name == "HDR100" || name == "NDR200") return infiniband_rate(name.substr(0, 3), 2);
  return infiniband_rate(name, lanes);
}

double socket_gb_per_s(std::string_view vendor) {
  // NCCL 2.28, topo.h: AMD 16, Intel since Sapphire Rapids 22, Arm 6.
  if (vendor == "AuthenticAMD") return 16;
  if (vendor == "GenuineIntel") return 22;
  return 6;
}

}  // namespace regatta::topology::graph
