// A named range on a profiler's time line (Nsight Systems), of the calls that enqueue: NVTX.
#pragma once

#include <nvtx3/nvToolsExt.h>

namespace regatta::trainer::cuda {

// Lasts as long as the object. Costs some nanoseconds when no profiler listens.
class TraceRange {
 public:
  explicit TraceRange(const char* name) { nvtxRangePushA(name); }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
  ~TraceRange() { nvtxRangePop(); }
};

}  // namespace regatta::trainer::cuda
