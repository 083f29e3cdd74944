#include "orchestrator/plan/peak_share.h"

#include <algorithm>
#include <string_view>

namespace regatta::orchestrator::plan {
namespace {

// The least and the largest share of the 16-bit peak that a GPU's entries are fitted to, in
// percent: `regatta simulate --study mlperf` (mlperf_study_test holds them together).
struct FittedShare {
  const char* words;  // of the device
  int low, high;
  bool fp8;  // these entries compute products in 8 bits, and reach more than 16 bits would
};
constexpr FittedShare kFitted[] = {
    {"A100 SXM4", 53, 65, false}, {"H100", 57, 67, true},  {"H200", 69, 69, true},
    {"B200", 40, 43, true},       {"GB200", 47, 47, true},
};

std::string percents(int low, int high) {
  return low == high ? std::to_string(low) + " %"
                     : std::to_string(low) + " to " + std::to_string(high) + " %";
}

bool is_half(trainer::contract::Precision precision) {
  return precision == trainer::contract::Precision::BFloat16 ||
         precision == trainer::contract::Precision::Float16;
}

}  // namespace

PeakShare peak_share_of(const DeviceFigures* device, trainer::contract::Precision precision) {
  int least = 100, most = 0;
  for (const FittedShare& row : kFitted) {
    least = std::min(least, row.low);
    most = std::max(most, row.high);
    if (device == nullptr || !is_half(precision) || std::string_view(row.words) != device->words) {
      continue;
    }
    PeakShare share;
    // What FP8 entries reach beyond the share of 16-bit ones is FP8's.
    share.value = std::min(kUsualEfficiency, row.high / 100.0);
    share.low = row.low / 100.0;
    share.high = row.high / 100.0;
    share.fitted = true;
    share.basis = std::string("MLPerf's entries on ") + row.words + " reach " +
                  percents(row.low, row.high) +
                  (row.fp8 ? " of the 16-bit peak, but in FP8: 16 bits are slower" : "");
    return share;
  }
  PeakShare share;
  share.low = least / 100.0;
  share.high = most / 100.0;
  share.basis = std::string("no published result says what this device reaches") +
                (device != nullptr && !is_half(precision) ? " in this precision" : "") +
                "; entries of MLPerf on others reach " + percents(least, most);
  return share;
}

}  // namespace regatta::orchestrator::plan
