#include "trainer/balancer.h"

#include "base/error.h"

namespace regatta::trainer {

std::vector<MicroBatch> balance(int batch_size, int ranks, int rank, int micro) {
  base::check(batch_size > 0 && ranks > 0 && rank >= 0 && rank < ranks && micro >= 0,
              "the batch can be divided");
  std::vector<MicroBatch> batches;
  for (int ordinal = rank; ordinal < batch_size; ordinal += ranks) {
    if (batches.empty() ||
        (micro > 0 && batches.back().size() == static_cast<std::size_t>(micro))) {
      batches.emplace_back();
    }
    batches.back().push_back(ordinal);
  }
  return batches;
}

}  // namespace regatta::trainer
