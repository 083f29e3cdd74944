#include "trainer/cpu/content_checks.h"

#include "base/error.h"

namespace regatta::trainer::cpu {

void check_computable(const device::View& activation) {
  base::check(activation.dtype == device::Dtype::Float32, "the CPU device computes in float32");
}

void check_indexes(const device::View& index, std::int64_t least, std::int64_t bound,
                   std::string_view invariant) {
  const std::int32_t* values = index.ints();
  for (std::int64_t i = 0; i < index.size; ++i) {
    base::check(values[i] >= least && values[i] < bound, invariant);
  }
}

void check_offsets(const device::TokenIdentity& tokens, std::int64_t count) {
  const std::int32_t* first = tokens.cumulative.ints();
  const std::int64_t samples = tokens.cumulative.size - 1;
  base::check(first[0] == 0 && first[samples] <= count,
              "a packed batch's offsets run from 0 to T or less");
  for (std::int64_t s = 0; s < samples; ++s) {
    base::check(first[s] <= first[s + 1] && first[s + 1] - first[s] <= tokens.max_length,
                "no sample is longer than max_length");
  }
}

}  // namespace regatta::trainer::cpu
