// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a pure
// function from (key, counter) to 128 random bits. Everything random in Regatta goes through it, so
// no generator state exists to be saved or to get out of step.
#pragma once

#include <array>
#include <cstdint>

namespace regatta::base {

using PhiloxCounter = std::array<std::uint32_t, 4>;

[[nodiscard]] constexpr PhiloxCounter philox(std::uint64_t key, PhiloxCounter counter) {
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32U) ^ counter[1] ^ key0,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32U) ^ counter[3] ^ key1,
               static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

// A stream of draws for one purpose: counter = (n, stream, step, site). Not for element-wise masks,
// which compute their own counters (trainer/contract/random_site.h).
class PhiloxStream {
 public:
  PhiloxStream(std::uint64_t seed, std::uint32_t stream, std::uint32_t step, std::uint32_t site)
      : seed_(seed), counter_{0, stream, step, site} {}

  [[nodiscard]] std::uint32_t next() {
    if (used_ == 4) {
      block_ = philox(seed_, counter_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }
  // Uniform in [0, bound), bound > 0, without bias (rejection of the short last interval).
  [[nodiscard]] std::uint32_t below(std::uint32_t bound) {
    const std::uint32_t reject = (0U - bound) % bound;
    for (;;) {
      const std::uint64_t product = std::uint64_t{next()} * bound;
      if (static_cast<std::uint32_t>(product) >= reject) {
        return static_cast<std::uint32_t>(product >> 32U);
      }
    }
  }
  // Uniform in [0, 1) with 24 bits.
  [[nodiscard]] float uniform() { return static_cast<float>(next() >> 8U) * 0x1p-24F; }

 private:
  std::uint64_t seed_;
  PhiloxCounter counter_;
  PhiloxCounter block_{};
  unsigned used_ = 4;
};

}  // namespace regatta::base
