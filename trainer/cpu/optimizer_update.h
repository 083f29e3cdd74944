// Device operations of the optimizer on a pool of threads. Sums are made in chunks of kElements, in
// order, so they do not depend on the number of threads. Shapes have been checked.
#pragma once

#include "base/thread_pool.h"
#include "trainer/cpu/kernels.h"

namespace regatta::trainer::cpu {

struct OptimizerContext {
  base::ThreadPool& pool;
  const Kernels& kernels;
};

void sum_of_squares(const OptimizerContext& context, const device::View& x,
                    const device::View& result);
void limit_norm(const OptimizerContext& context, const device::View& x,
                const device::View& squared_norm, const device::View& limit);
void add_noise_sums(const OptimizerContext& context, const device::NoiseSums& op);
// Leaves the compute copy to the caller; returns whether weights changed.
[[nodiscard]] bool update(const OptimizerContext& context, const device::OptimizerUpdate& op);

}  // namespace regatta::trainer::cpu
