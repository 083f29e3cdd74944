#include "topology/graph/nccl_speeds.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/text.h"

namespace regatta::topology::graph {
namespace {

struct ModelName {
  std::string_view part;
  std::int64_t compute_capability;
};

// The first that the name contains counts: "GH200" before "H200", "A100" before "A10".
constexpr ModelName kModels[] = {
    {"P100", 60},  {"V100", 70},  {"A100", 80},     {"A800", 80},     {"A30", 80},
    {"A40", 86},   {"A10", 86},   {"L40", 89},      {"L4", 89},       {"H100", 90},
    {"H200", 90},  {"H800", 90},  {"H20", 90},      {"GB200", 100},   {"B200", 100},
    {"B100", 100}, {"B300", 103}, {"RTX 3090", 86}, {"RTX 4090", 89},
};

}  // namespace

std::optional<double> nvlink_gb_per_s(std::int64_t compute_capability) {
  if (compute_capability < 60) return std::nullopt;
  if (compute_capability == 86) return 12.0;
  if (compute_capability < 70) return 18.0;
  if (compute_capability < 90) return 20.0;
  return compute_capability < 100 ? 20.6 : 40.1;
}

int nvlinks_of(std::int64_t compute_capability) {
  switch (compute_capability) {
    case 60:
      return 4;
    case 70:
      return 6;
    case 80:
      return 12;
    case 86:
      return 4;
    default:
      return kMostNvlinks;
  }
}

std::optional<std::int64_t> compute_capability_of(std::string_view model) {
  for (const ModelName& name : kModels) {
    const std::size_t at = model.find(name.part);
    if (at == std::string_view::npos) continue;
    // "A10G" is an A10 and "V100S" a V100, but "A1000" is neither.
    const std::size_t end = at + name.part.size();
    if (end < model.size() && model[end] >= '0' && model[end] <= '9') continue;
    return name.compute_capability;
  }
  return std::nullopt;
}

std::optional<double> parse_pcie_speed(std::string_view text) {
  const std::size_t unit = text.find(" GT/s");
  if (unit == std::string_view::npos) return std::nullopt;
  const auto speed = base::parse_number(text.substr(0, unit));
  if (!speed || !std::isfinite(*speed) || *speed <= 0) return std::nullopt;
  return speed;
}

double nccl_pcie_gb_per_s(double gt_per_s, std::int64_t width) {
  // NCCL's units of 100 Mbit/s per lane: 15 for 2.5 GT/s, doubled by each generation.
  constexpr double kSpeeds[] = {2.5, 5, 8, 16, 32, 64};
  double lane = 60;  // Gen3, also for what is not known
  for (std::size_t i = 0; i < std::size(kSpeeds); ++i) {
    if (std::abs(gt_per_s - kSpeeds[i]) < 0.01) lane = 15 * static_cast<double>(1 << i);
  }
  return lane * static_cast<double>(width > 0 ? width : 16) / 80;
}

std::optional<double> smp_gb_per_s(const CpuModel& cpu) {
  if (cpu.arch == "arm64") return 6.0;
  if (cpu.arch == "ppc64") return 32.0;
  if (cpu.vendor == "AuthenticAMD") return 16.0;
  if (cpu.vendor == "GenuineIntel") {
    if (cpu.family != 6) return 6.0;
    // Model numbers of the first Emerald Rapids, Sapphire Rapids and Skylake servers.
    if (cpu.model >= 0xCF) return 40.0;
    if (cpu.model >= 0x8F) return 22.0;
    return cpu.model >= 0x55 ? 10.0 : 6.0;
  }
  return std::nullopt;
}

double nic_gb_per_s(std::int64_t mbit_per_s) {
  constexpr std::int64_t kUnknownPort = 10'000;
  return static_cast<double>(mbit_per_s > 0 ? mbit_per_s : kUnknownPort) / 8000;
}

}  // namespace regatta::topology::graph
