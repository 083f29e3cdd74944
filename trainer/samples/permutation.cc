#include "trainer/samples/permutation.h"

#include "base/error.h"
#include "base/philox.h"
#include "trainer/contract/random_site.h"

namespace regatta::trainer::samples {

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint32_t epoch)
    : size_(size), seed_(seed), epoch_(epoch) {
  base::check(size > 0 && size <= (std::uint64_t{1} << 62U),
              "a permutation has 1 to 2^62 elements");
  while ((std::uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (std::uint32_t round = 0; round < 4; ++round) {
      const base::PhiloxCounter mixed =
          base::philox(seed_, {static_cast<std::uint32_t>(right), round, epoch_,
                               static_cast<std::uint32_t>(contract::RandomSite::Permutation)});
      const std::uint64_t next = left ^ (mixed[0] & mask);
      left = right;
      right = next;
    }
    index = (left << half_bits_) | right;
  } while (index >= size_);
  return index;
}

}  // namespace regatta::trainer::samples
