// LayerNorm of one row, forward and backward, and the dropout factors of one token's row: what
// layernorm.cc and embedding.cc share.
#pragma once

#include "trainer/contract/random_site.h"
#include "trainer/cpu/dropout.h"

namespace regatta::trainer::cpu::REGATTA_ISA {

inline DropoutRow token_row(const device::Dropout& dropout, const device::TokenIdentity& tokens,
                            int64_t token, int64_t hidden) {
  DropoutRow row;
  row.seed = dropout.seed;
  row.first_block = contract::row_block(static_cast<uint32_t>(tokens.position.ints()[token]), 0,
                                        static_cast<uint32_t>(hidden));
  row.ordinal = static_cast<uint32_t>(tokens.ordinal.ints()[token]);
  row.step = static_cast<uint32_t>(tokens.step.ints()[0]);
  row.site = dropout.site;
  row.threshold = dropout.threshold;
  return row;
}

// to[i] = x[i]·factors[i].
inline void multiply_row(const float* x, const float* factors, int64_t n, float* to) {
  for_lanes(
      n, [&](int64_t i) { store(to + i, load(x + i) * load(factors + i)); },
      [&](int64_t i, int64_t rest) {
        store_part(to + i, load_part(x + i, rest) * load_part(factors + i, rest), rest);
      });
}

struct Moments {
  float mean = 0, rstd = 0;
};

// Two passes: the mean first, then the squares of what is left of each element.
inline Moments moments_of_row(const float* z, int64_t n, float epsilon) {
  Vec total{};
  for_lanes(
      n, [&](int64_t i) { total += load(z + i); },
      [&](int64_t i, int64_t rest) { total += load_part(z + i, rest); });
  const float mean = sum(total) / static_cast<float>(n);
  Vec squares{};
  for_lanes(
      n,
      [&](int64_t i) {
        const Vec centred = load(z + i) - mean;
        squares += centred * centred;
      },
      [&](int64_t i, int64_t rest) {
        float lanes[kLanes] = {};
        for (int64_t lane = 0; lane < rest; ++lane) lanes[lane] = z[i + lane] - mean;
        const Vec centred = load(lanes);
        squares += centred * centred;
      });
  const float variance = sum(squares) / static_cast<float>(n);
  return {mean, 1.0F / __builtin_sqrtf(variance + epsilon)};
}

inline void normalise_row(const float* z, const Moments& of, const float* gamma, const float* beta,
                          int64_t n, float* y) {
  for_lanes(
      n,
      [&](int64_t i) {
        store(y + i, (load(z + i) - of.mean) * of.rstd * load(gamma + i) + load(beta + i));
      },
      [&](int64_t i, int64_t rest) {
        const Vec normal = (load_part(z + i, rest) - of.mean) * of.rstd;
        store_part(y + i, normal * load_part(gamma + i, rest) + load_part(beta + i, rest), rest);
      });
}

// dz = rstd·(g − mean(g) − x̂·mean(g·x̂)), g = dy·gamma, x̂ = (z − mean)·rstd; adds dy·x̂ to dgamma and
// dy to dbeta. dz may be dy.
inline void norm_backward_row(const float* dy, const float* z, const Moments& of,
                              const float* gamma, int64_t n, float* dz, float* dgamma,
                              float* dbeta) {
  Vec total{};
  Vec product{};
  for_lanes(
      n,
      [&](int64_t i) {
        const Vec d = load(dy + i);
        const Vec normal = (load(z + i) - of.mean) * of.rstd;
        const Vec scaled = d * normal;
        store(dgamma + i, load(dgamma + i) + scaled);
        store(dbeta + i, load(dbeta + i) + d);
        total += d * load(gamma + i);
        product += scaled * load(gamma + i);
      },
      [&](int64_t i, int64_t rest) {
        const Vec d = load_part(dy + i, rest);
        const Vec normal = (load_part(z + i, rest) - of.mean) * of.rstd;
        const Vec scaled = d * normal;
        store_part(dgamma + i, load_part(dgamma + i, rest) + scaled, rest);
        store_part(dbeta + i, load_part(dbeta + i, rest) + d, rest);
        total += d * load_part(gamma + i, rest);
        product += scaled * load_part(gamma + i, rest);
      });
  const float mean_total = sum(total) / static_cast<float>(n);
  const float mean_product = sum(product) / static_cast<float>(n);
  const auto finish = [&](Vec d, Vec value, Vec weight) {
    const Vec normal = (value - of.mean) * of.rstd;
    return (d * weight - mean_total - normal * mean_product) * of.rstd;
  };
  for_lanes(
      n, [&](int64_t i) { store(dz + i, finish(load(dy + i), load(z + i), load(gamma + i))); },
      [&](int64_t i, int64_t rest) {
        store_part(
            dz + i,
            finish(load_part(dy + i, rest), load_part(z + i, rest), load_part(gamma + i, rest)),
            rest);
      });
}

inline void clear(float* to, int64_t n) {
  __builtin_memset(to, 0, sizeof(float) * static_cast<size_t>(n));
}
inline void copy_row(const float* from, int64_t n, float* to) {
  if (from != to) __builtin_memmove(to, from, sizeof(float) * static_cast<size_t>(n));
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
