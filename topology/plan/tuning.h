// Which algorithms and protocols NCCL is made to use, by what each is predicted to take on this
// allocation.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/nccl/measured_curve.h"
#include "topology/plan/tuner_table.h"

namespace regatta::topology::plan {

struct TuneOptions {
  // Of sums: PreMulSum, which averages are, has no NVLS (topology/nccl/measured_curve.h,
  // CurveKey::op).
  std::vector<nccl::Collective> collectives = {
      nccl::Collective::AllReduce, nccl::Collective::ReduceScatter, nccl::Collective::AllGather};
  std::uint64_t most_bytes = std::uint64_t{1} << 30;  // the largest call; below 256 nothing is said
  int nccl_version = 0;                               // of the machine, as in TunerTable
};

// NCCL's own choice stays unless another way is better beyond doubt: the upper end of its interval
// lies below the lower end of the interval of NCCL's choice, at both ends of a step of half a
// doubling. So
// - a measured way replaces a measured choice when it is faster by the widths of both intervals:
//   at least 6 %, more where a curve is rough or does not reach;
// - a modelled way replaces a measured choice only if that takes 3 times what the model gives the
//   way (such as a step where a protocol ends), for the public logs took up to 3 times as long as
//   the model;
// - a measured way replaces a modelled choice only below 0.7 of the model, the shortest that the
//   logs show;
// - a model alone replaces nothing: NCCL's choice is the best by that very model.
// What NCCL's choice takes is what was measured without a way, or by the way that the model says it
// takes. Channels other than NCCL's are looked at where they were measured: the model knows no
// reason for fewer, and does not know what they leave to others.
//
// Only ways that the model offers on this allocation, so LL128 only where NCCL has it on. Nothing
// of this reaches calls on symmetric windows (ncclCommWindowRegister): NCCL takes their kernels by
// another model and asks no tuner.
//
// For one rank: no ranges.
[[nodiscard]] TunerTable tune(const nccl::CalibratedModel& model, const TuneOptions& options = {});

// The same with NCCL's choice, as the model says it, for all other sizes of all collectives, with
// NCCL's channels: for readers that do not leave to NCCL what they do not find. Without times.
[[nodiscard]] TunerTable with_own_choices(const TunerTable& table, const nccl::CostModel& model);

}  // namespace regatta::topology::plan
