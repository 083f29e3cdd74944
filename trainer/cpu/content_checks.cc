#include "trainer/cpu/content_checks.h"

#include <algorithm>

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

std::int64_t longest_sample(const device::View& cumulative, std::int64_t count) {
  const std::int32_t* first = cumulative.ints();
  const std::int64_t samples = cumulative.size - 1;
  base::check(first[0] == 0 && first[samples] <= count,
              "a packed batch's offsets run from 0 to T or less");
  std::int64_t longest = 0;
  for (std::int64_t s = 0; s < samples; ++s) {
    base::check(first[s] <= first[s + 1], "a packed batch's offsets never fall");
    longest = std::max<std::int64_t>(longest, first[s + 1] - first[s]);
  }
  return longest;
}

void check_offsets(const device::TokenIdentity& tokens, std::int64_t count) {
  base::check(longest_sample(tokens.cumulative, count) <= tokens.max_length,
              "no sample is longer than max_length");
}

void check_answers(const device::SpanCrossEntropy& op) {
  const std::int32_t* first = op.cumulative.ints();
  for (std::int64_t s = 0; s + 1 < op.cumulative.size; ++s) {
    const std::int32_t* answer = op.answers.ints() + 2 * s;
    const std::int32_t length = first[s + 1] - first[s];
    base::check(answer[0] >= -1 && answer[1] >= -1 &&
                    (answer[0] < 0 || answer[1] < 0 || (answer[0] < length && answer[1] < length)),
                "an answer begins and ends in its sample");
  }
}

}  // namespace regatta::trainer::cpu
