// What share of a device's peak products reach where they fill it, if nobody says: as the published
// results of MLPerf that the study is fitted to (mlperf_study.h).
#pragma once

#include <string>

#include "orchestrator/plan/cluster_machines.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::plan {

// The middle of the shares of A100s, which the 16-bit entries on H100 are predicted with, too.
inline constexpr double kUsualEfficiency = 0.6;

struct PeakShare {
  double value = kUsualEfficiency;  // of the peak in the run's precision
  double low = 0, high = 0;         // what it may be; both are `value` where somebody gave it
  // There are entries on this device, in 16 bits or (FP8) in fewer, by which the share is known.
  bool fitted = false;
  std::string basis;  // what it rests on, part of a sentence
};

// `device`: null where its peak is known and nothing else. Of what no entry was run on, or in
// single precision, `low` and `high` are the least and the largest share of any entry.
[[nodiscard]] PeakShare peak_share_of(const DeviceFigures* device,
                                      trainer::contract::Precision precision);

}  // namespace regatta::orchestrator::plan
