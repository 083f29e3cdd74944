// A packed batch of samples of given lengths, on the host and on a device, and its dropout masks
// drawn one by one as trainer/contract/random_site.h defines them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "tests/trainer/device/op_cases.h"
#include "trainer/contract/random_site.h"

namespace regatta::tests {

struct Packed {
  std::vector<std::int32_t> ordinal, position, cumulative;
  std::int32_t step = 12345;
  std::int64_t max_length = 0;

  explicit Packed(const std::vector<int>& lengths) : cumulative{0} {
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      for (int p = 0; p < lengths[s]; ++p) {
        ordinal.push_back(static_cast<std::int32_t>(70001 * (s + 1) % 1000));
        position.push_back(p);
      }
      cumulative.push_back(cumulative.back() + lengths[s]);
      max_length = std::max<std::int64_t>(max_length, lengths[s]);
    }
  }
  // The same samples in a batch with room for more: samples without tokens behind them, and tokens
  // of no sample whose ordinals and positions are in range.
  [[nodiscard]] Packed padded(std::int64_t spare_tokens, std::int64_t empty_samples) const {
    Packed result = *this;
    for (std::int64_t i = 0; i < spare_tokens; ++i) {
      result.ordinal.push_back(static_cast<std::int32_t>(i % 7));
      result.position.push_back(static_cast<std::int32_t>(i % max_length));
    }
    result.cumulative.insert(result.cumulative.end(), static_cast<std::size_t>(empty_samples),
                             cumulative.back());
    return result;
  }
  // T, with the tokens of no sample.
  [[nodiscard]] std::int64_t tokens() const { return static_cast<std::int64_t>(ordinal.size()); }
  [[nodiscard]] std::int64_t used() const { return cumulative.back(); }
  [[nodiscard]] std::int64_t samples() const {
    return static_cast<std::int64_t>(cumulative.size()) - 1;
  }
  [[nodiscard]] trainer::device::TokenIdentity on(Harness& at) const {
    trainer::device::TokenIdentity identity;
    identity.ordinal = at.ints(ordinal);
    identity.position = at.ints(position);
    identity.cumulative = at.ints(cumulative);
    identity.step = at.ints({step});
    identity.max_length = max_length;
    return identity;
  }
};

inline float dropout_factor(const trainer::device::Dropout& dropout, std::uint32_t block,
                            std::int32_t ordinal, std::int32_t step, std::uint32_t element) {
  if (dropout.threshold == 0) return 1.0F;
  const base::PhiloxCounter words = base::philox(
      dropout.seed,
      {block, static_cast<std::uint32_t>(ordinal), static_cast<std::uint32_t>(step), dropout.site});
  const std::uint32_t draw = words[element / 2] >> (16 * (element % 2)) & 0xFFFFU;
  return draw >= dropout.threshold ? trainer::contract::dropout_scale(dropout.threshold) : 0.0F;
}

// Factors of activations [T, hidden].
inline std::vector<float> row_factors(const Packed& packed, const trainer::device::Dropout& dropout,
                                      std::int64_t hidden) {
  std::vector<float> factors;
  for (std::size_t t = 0; t < packed.position.size(); ++t) {
    for (std::uint32_t c = 0; c < hidden; ++c) {
      const std::uint32_t block = trainer::contract::row_block(
          static_cast<std::uint32_t>(packed.position[t]), c, static_cast<std::uint32_t>(hidden));
      factors.push_back(dropout_factor(dropout, block, packed.ordinal[t], packed.step, c % 8));
    }
  }
  return factors;
}

// Factor of one attention probability.
inline float attention_factor(const Packed& packed, const trainer::device::Dropout& dropout,
                              std::int64_t sample, std::int64_t head, std::int64_t query,
                              std::int64_t key) {
  const auto first = static_cast<std::size_t>(packed.cumulative[static_cast<std::size_t>(sample)]);
  const std::uint32_t block = trainer::contract::attention_block(static_cast<std::uint32_t>(head),
                                                                 static_cast<std::uint32_t>(query),
                                                                 static_cast<std::uint32_t>(key));
  return dropout_factor(dropout, block, packed.ordinal[first], packed.step,
                        static_cast<std::uint32_t>(key % 8));
}

inline trainer::device::Dropout some_dropout(double probability, std::uint32_t site) {
  return {trainer::contract::dropout_threshold(probability), 0x123456789ABCDEF0U, site};
}

}  // namespace regatta::tests
