// Attention problems in host memory for the emulated device, where device memory is host memory:
// 16-bit inputs, the float64 answer for exactly these inputs, and what may be lost on the way.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/philox.h"
#include "trainer/contract/random_site.h"
#include "trainer/cuda/kernels/kernels.h"
#include "trainer/device/half_types.h"

namespace regatta::tests {

// Rounds to a 16-bit type and back.
class Half {
 public:
  explicit Half(trainer::device::Dtype dtype) : bf16_(dtype == trainer::device::Dtype::BFloat16) {}
  [[nodiscard]] std::uint16_t bits(float x) const {
    return bf16_ ? trainer::device::bf16_from_float(x) : trainer::device::fp16_from_float(x);
  }
  [[nodiscard]] float value(std::uint16_t bits) const {
    return bf16_ ? trainer::device::float_from_bf16(bits) : trainer::device::float_from_fp16(bits);
  }
  [[nodiscard]] float rounded(float x) const { return value(bits(x)); }
  [[nodiscard]] float unit() const { return bf16_ ? 0x1p-9F : 0x1p-12F; }  // of a rounding

 private:
  bool bf16_;
};

struct AttentionShape {
  std::vector<int> lengths;
  int heads = 1;
  int head_size = 64;
  double dropout = 0;
  float size = 1;                  // of q, k and v
  int padding = 0;                 // tokens of no sample
  int repeated_ends = 0;           // empty samples at the end
  std::vector<int> ordinals = {};  // of the samples; empty: some
};

// One problem's memory. Outputs start as NaN.
class AttentionProblem {
 public:
  AttentionProblem(AttentionShape shape, trainer::device::Dtype dtype)
      : shape_(std::move(shape)), dtype_(dtype), half_(dtype), cumulative_{0} {
    for (std::size_t s = 0; s < shape_.lengths.size(); ++s) {
      const int ordinal =
          shape_.ordinals.empty() ? static_cast<int>(70001 * (s + 1) % 1000) : shape_.ordinals[s];
      for (int p = 0; p < shape_.lengths[s]; ++p) {
        ordinal_.push_back(ordinal);
        position_.push_back(p);
      }
      cumulative_.push_back(cumulative_.back() + shape_.lengths[s]);
    }
    for (int i = 0; i < shape_.repeated_ends; ++i) cumulative_.push_back(cumulative_.back());
    ordinal_.resize(ordinal_.size() + static_cast<std::size_t>(shape_.padding), -7);
    position_.resize(ordinal_.size(), -7);
    std::mt19937 generator(41);
    qkv_.resize(ordinal_.size() * static_cast<std::size_t>(3 * hidden()));
    for (std::uint16_t& x : qkv_) {
      const double unit = static_cast<double>(generator()) / 4294967296.0;
      x = half_.bits(static_cast<float>((2 * unit - 1) * static_cast<double>(shape_.size)));
    }
    out_.assign(ordinal_.size() * static_cast<std::size_t>(hidden()), 0x7FFF);
    lse_.assign(ordinal_.size() * static_cast<std::size_t>(shape_.heads), NAN);
  }

  [[nodiscard]] const AttentionShape& shape() const { return shape_; }
  [[nodiscard]] int hidden() const { return shape_.heads * shape_.head_size; }
  [[nodiscard]] std::int64_t tokens() const { return static_cast<std::int64_t>(ordinal_.size()); }
  [[nodiscard]] int first_of(std::size_t sample) const { return cumulative_[sample]; }
  [[nodiscard]] std::vector<std::uint16_t>& qkv() { return qkv_; }
  [[nodiscard]] const std::vector<std::uint16_t>& out() const { return out_; }
  [[nodiscard]] const std::vector<float>& lse() const { return lse_; }
  [[nodiscard]] const Half& half() const { return half_; }
  // Place of query (0), key (1) or value (2) element c of a head of a token.
  [[nodiscard]] std::size_t at(int which, int token, int head, int c) const {
    return static_cast<std::size_t>(token * 3 * hidden() + which * hidden() +
                                    head * shape_.head_size + c);
  }
  [[nodiscard]] std::size_t out_at(int token, int head, int c) const {
    return static_cast<std::size_t>(token * hidden() + head * shape_.head_size + c);
  }
  [[nodiscard]] std::size_t lse_at(int token, int head) const {
    return static_cast<std::size_t>(head * tokens() + token);
  }
  [[nodiscard]] bool kept(std::size_t sample, int head, int query, int key) const {
    const trainer::device::Dropout drop = dropout();
    if (drop.threshold == 0) return true;
    const std::uint32_t block = trainer::contract::attention_block(
        static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(query),
        static_cast<std::uint32_t>(key));
    const auto ordinal = ordinal_[static_cast<std::size_t>(cumulative_[sample])];
    const base::PhiloxCounter words = base::philox(
        drop.seed,
        {block, static_cast<std::uint32_t>(ordinal), static_cast<std::uint32_t>(step_), drop.site});
    const auto element = static_cast<std::uint32_t>(key % 8);
    return (words[element / 2] >> (16 * (element % 2)) & 0xFFFFU) >= drop.threshold;
  }
  [[nodiscard]] trainer::device::Dropout dropout() const {
    return {trainer::contract::dropout_threshold(shape_.dropout), 0x123456789ABCDEF0U, 64};
  }

  [[nodiscard]] trainer::device::AttentionForward forward() {
    trainer::device::AttentionForward op;
    op.qkv = {qkv_.data(), static_cast<std::int64_t>(qkv_.size()), dtype_};
    op.out = {out_.data(), static_cast<std::int64_t>(out_.size()), dtype_};
    op.lse = {lse_.data(), static_cast<std::int64_t>(lse_.size()), trainer::device::Dtype::Float32};
    op.heads = shape_.heads;
    op.dropout = dropout();
    op.tokens.ordinal = ints(ordinal_);
    op.tokens.position = ints(position_);
    op.tokens.cumulative = ints(cumulative_);
    op.tokens.step = {&step_, 1, trainer::device::Dtype::Int32};
    op.tokens.max_length = *std::max_element(shape_.lengths.begin(), shape_.lengths.end());
    return op;
  }

 private:
  [[nodiscard]] static trainer::device::View ints(std::vector<std::int32_t>& values) {
    return {values.data(), static_cast<std::int64_t>(values.size()), trainer::device::Dtype::Int32};
  }

  AttentionShape shape_;
  trainer::device::Dtype dtype_;
  Half half_;
  std::vector<std::int32_t> ordinal_, position_, cumulative_;
  std::int32_t step_ = 12345;
  std::vector<std::uint16_t> qkv_, out_;
  std::vector<float> lse_;
};

template <typename Real>
struct AttentionAnswer {
  std::vector<Real> out, lse;
};

// By the formula, one query at a time, in Real; round16(x) is applied where a 16-bit kernel must
// round: to the exponentials that meet v, and to the outputs.
template <typename Real, typename Round>
AttentionAnswer<Real> attention_by_formula(const AttentionProblem& problem,
                                           const std::vector<std::uint16_t>& qkv, Round round16) {
  const AttentionShape& shape = problem.shape();
  const Half half = problem.half();
  const Real keep = Real(trainer::contract::dropout_scale(problem.dropout().threshold));
  AttentionAnswer<Real> answer{std::vector<Real>(problem.out().size(), Real(0)),
                               std::vector<Real>(problem.lse().size(), Real(0))};
  const auto element = [&](int which, int token, int head, int c) {
    return Real(half.value(qkv[problem.at(which, token, head, c)]));
  };
  for (std::size_t s = 0; s < shape.lengths.size(); ++s) {
    const int first = problem.first_of(s);
    const int length = shape.lengths[s];
    for (int head = 0; head < shape.heads; ++head) {
      for (int i = 0; i < length; ++i) {
        std::vector<Real> p;
        for (int j = 0; j < length; ++j) {
          Real sum = 0;
          for (int c = 0; c < shape.head_size; ++c) {
            sum += element(0, first + i, head, c) * element(1, first + j, head, c);
          }
          p.push_back(sum / std::sqrt(Real(shape.head_size)));
        }
        const Real most = *std::max_element(p.begin(), p.end());
        Real total = 0;
        for (Real& x : p) {
          x = std::exp(x - most);
          total += x;
        }
        answer.lse[problem.lse_at(first + i, head)] = most + std::log(total);
        for (int c = 0; c < shape.head_size; ++c) {
          Real sum = 0;
          for (int j = 0; j < length; ++j) {
            if (!problem.kept(s, head, i, j)) continue;
            sum += round16(p[static_cast<std::size_t>(j)]) * element(2, first + j, head, c);
          }
          answer.out[problem.out_at(first + i, head, c)] = round16(sum * keep / total);
        }
      }
    }
  }
  return answer;
}

}  // namespace regatta::tests
