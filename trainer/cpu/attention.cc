// Attention of one head of one sample of length L, head size d, without padding:
//   s = q·kᵀ/√d;  lse_i = log Σ_j e^s_ij;  p = e^(s − lse);  out = (p∘mask)·v
// Backward keeps nothing but lse and out, draws the mask again and computes p again:
//   D_i = dout_i·out_i;  dv = (p∘mask)ᵀ·dout;  dp = (dout·vᵀ)∘mask;  ds = p∘(dp − D);
//   dq = ds·k/√d;  dk = dsᵀ·q/√d
// (Dao et al., 2022, without their blocking of keys: a block of queries × all keys, 64 × 512
// floats, fits the second-level cache of any machine that trains.) k and v are packed once per
// head; blocks of queries follow one another, so dk and dv are sums in a fixed order. FLOPs 4·L²·d
// forward, 10·L²·d backward; traffic of memory 16·L·d and 32·L·d bytes.
#include <math.h>

#include "trainer/contract/random_site.h"
#include "trainer/cpu/dropout.h"
#include "trainer/cpu/families.h"
#include "trainer/cpu/micro_product.h"

namespace regatta::trainer::cpu::REGATTA_ISA {
namespace {

constexpr int64_t kTile = 64 / kRows * kRows;  // queries at a time

// Sizes of one head's buffers. `row` is the stride of a tile of scores: one cache line more than
// the keys need, so that columns of a tile do not fall into one set of the cache.
struct Sizes {
  int64_t length, head, keys, row, width, products;
  Sizes(int64_t length_in, int64_t head_in)
      : length(length_in),
        head(head_in),
        keys(round_up(length_in, kLanes)),
        row(keys + 16),
        width(round_up(head_in, kLanes)),
        products(round_up(length_in, kRows)) {}
};

// Hands out pieces of the scratch memory, each at a multiple of 64 bytes; of none, to learn how
// much is used.
class Pieces {
 public:
  explicit Pieces(float* memory) : memory_(memory) {}
  float* take(int64_t count) {
    float* piece = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += round_up(count, 16);
    return piece;
  }
  [[nodiscard]] int64_t used() const { return used_; }

 private:
  float* memory_;
  int64_t used_ = 0;
};

struct ForwardBuffers {
  float *key, *value, *query, *scores, *out, *mask;
  ForwardBuffers(Pieces& pieces, const Sizes& sizes)
      : key(pieces.take(packed_size(sizes.head, sizes.length))),
        value(pieces.take(packed_size(sizes.length, sizes.head))),
        query(pieces.take(kTile * sizes.head)),
        scores(pieces.take(kTile * sizes.row)),
        out(pieces.take(kTile * sizes.width)),
        mask(pieces.take(dropout_room(sizes.keys))) {}
};

struct BackwardBuffers {
  float *key, *key_rows, *value, *query, *query_packed, *dout, *dout_packed, *scores, *dscores,
      *dquery, *dkey, *dvalue, *mask;
  BackwardBuffers(Pieces& pieces, const Sizes& sizes)
      : key(pieces.take(packed_size(sizes.head, sizes.length))),
        key_rows(pieces.take(packed_size(sizes.length, sizes.head))),
        value(pieces.take(packed_size(sizes.head, sizes.length))),
        query(pieces.take(kTile * sizes.head)),
        query_packed(pieces.take(packed_size(kTile, sizes.head))),
        dout(pieces.take(kTile * sizes.head)),
        dout_packed(pieces.take(packed_size(kTile, sizes.head))),
        scores(pieces.take(kTile * sizes.row)),
        dscores(pieces.take(kTile * sizes.row)),
        dquery(pieces.take(kTile * sizes.width)),
        dkey(pieces.take(sizes.products * sizes.width)),
        dvalue(pieces.take(sizes.products * sizes.width)),
        mask(pieces.take(dropout_room(sizes.keys))) {}
};

// Rows of `from` times `factor`, then zeros up to a multiple of kRows.
void copy_tile(const float* from, int64_t stride, int64_t rows, int64_t columns, float factor,
               float* to) {
  for (int64_t i = 0; i < round_up(rows, kRows); ++i) {
    for (int64_t c = 0; c < columns; ++c) {
      to[i * columns + c] = i < rows ? from[i * stride + c] * factor : 0.0F;
    }
  }
}

void write_rows(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float factor,
                float* to, int64_t to_stride) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < columns; ++c) {
      to[i * to_stride + c] = from[i * from_stride + c] * factor;
    }
  }
}

// Turns a row of scores into e^(s − largest), 0 behind `count`; returns their sum.
float softmax_row(float* row, int64_t count, int64_t padded, float* most_out) {
  for (int64_t j = count; j < padded; ++j) row[j] = -INFINITY;
  Vec mosts = load(row);
  for (int64_t j = kLanes; j < padded; j += kLanes) mosts = larger(load(row + j), mosts);
  const float most = largest(mosts);
  Vec total{};
  for (int64_t j = 0; j < padded; j += kLanes) {
    const Vec e = exponential(load(row + j) - most);
    store(row + j, e);
    total += e;
  }
  *most_out = most;
  return sum(total);
}

void multiply_by(float* row, const float* factors, int64_t padded) {
  for (int64_t j = 0; j < padded; j += kLanes) store(row + j, load(row + j) * load(factors + j));
}

// The pair of one sample and one head, and where its rows are.
struct Head {
  int64_t first, length, hidden, size, index, tokens;
  float scale;
  DropoutRow mask;

  Head(const device::TokenIdentity& identity, const device::Dropout& dropout, int64_t heads,
       const device::View& out, const device::View& lse, int64_t sample, int64_t head)
      : first(identity.cumulative.ints()[sample]),
        length(identity.cumulative.ints()[sample + 1] - first),
        hidden(out.size / (lse.size / heads)),
        size(hidden / heads),
        index(head),
        tokens(lse.size / heads),
        scale(1.0F / __builtin_sqrtf(static_cast<float>(size))) {
    mask.threshold = dropout.threshold;
    if (dropout.threshold == 0) return;
    mask.seed = dropout.seed;
    mask.ordinal = static_cast<uint32_t>(identity.ordinal.ints()[first]);
    mask.step = static_cast<uint32_t>(identity.step.ints()[0]);
    mask.site = dropout.site;
  }
  // Query, key or value (0, 1, 2) of this head's first token; rows are 3·hidden apart.
  [[nodiscard]] int64_t qkv_offset(int64_t which) const {
    return first * 3 * hidden + which * hidden + index * size;
  }
  [[nodiscard]] int64_t out_offset() const { return first * hidden + index * size; }
  void draw(int64_t query, float* factors) const {
    DropoutRow row = mask;
    row.first_block =
        contract::attention_block(static_cast<uint32_t>(index), static_cast<uint32_t>(query), 0);
    dropout_factors(row, length, factors);
  }
};

// One row of scores and of dp: scores become p∘mask and dscores become ds.
void backward_row(float* scores, float* dscores, const float* mask, int64_t padded, float lse,
                  float inner) {
  for (int64_t j = 0; j < padded; j += kLanes) {
    const Vec p = exponential(load(scores + j) - lse);
    const Vec factor = mask != nullptr ? load(mask + j) : splat(1.0F);
    store(scores + j, p * factor);
    store(dscores + j, p * (load(dscores + j) * factor - inner));
  }
}

float dot(const float* a, const float* b, int64_t n) {
  Vec total{};
  for_lanes(
      n, [&](int64_t i) { total += load(a + i) * load(b + i); },
      [&](int64_t i, int64_t rest) { total += load_part(a + i, rest) * load_part(b + i, rest); });
  return sum(total);
}

}  // namespace

int64_t attention_scratch(int64_t length, int64_t head_size, bool backward) {
  Pieces pieces(nullptr);
  const Sizes sizes(length, head_size);
  if (backward) {
    (void)BackwardBuffers(pieces, sizes);
  } else {
    (void)ForwardBuffers(pieces, sizes);
  }
  return pieces.used();
}

void attention_forward(const device::AttentionForward& op, int64_t sample, int64_t head_index,
                       float* scratch) {
  const Head head(op.tokens, op.dropout, op.heads, op.out, op.lse, sample, head_index);
  const Sizes sizes(head.length, head.size);
  Pieces pieces(scratch);
  const ForwardBuffers at(pieces, sizes);
  const float* qkv = op.qkv.floats();
  const int64_t stride = 3 * head.hidden;
  const int64_t d = head.size;
  pack_panels(qkv + head.qkv_offset(1), 1, stride, d, head.length, at.key);
  pack_panels(qkv + head.qkv_offset(2), stride, 1, head.length, d, at.value);
  float* lse = op.lse.floats() + head_index * head.tokens + head.first;
  for (int64_t begin = 0; begin < head.length; begin += kTile) {
    const int64_t rows = head.length - begin < kTile ? head.length - begin : kTile;
    copy_tile(qkv + head.qkv_offset(0) + begin * stride, stride, rows, d, head.scale, at.query);
    block_product<Into::Overwrite>(rows, head.length, d, at.query, d, 1, at.key, at.scores,
                                   sizes.row);
    float inverse[kTile];
    for (int64_t i = 0; i < rows; ++i) {
      float* row = at.scores + i * sizes.row;
      float most = 0;
      const float total = softmax_row(row, head.length, sizes.keys, &most);
      lse[begin + i] = most + logarithm(total);
      inverse[i] = 1.0F / total;
      if (head.mask.threshold != 0) {
        head.draw(begin + i, at.mask);
        multiply_by(row, at.mask, sizes.keys);
      }
    }
    block_product<Into::Overwrite>(rows, d, head.length, at.scores, sizes.row, 1, at.value, at.out,
                                   sizes.width);
    for (int64_t i = 0; i < rows; ++i) {
      write_rows(at.out + i * sizes.width, 0, 1, d, inverse[i],
                 op.out.floats() + head.out_offset() + (begin + i) * head.hidden, 0);
    }
  }
}

void attention_backward(const device::AttentionBackward& op, int64_t sample, int64_t head_index,
                        float* scratch) {
  const Head head(op.tokens, op.dropout, op.heads, op.out, op.lse, sample, head_index);
  const Sizes sizes(head.length, head.size);
  Pieces pieces(scratch);
  const BackwardBuffers at(pieces, sizes);
  const float* qkv = op.qkv.floats();
  const int64_t stride = 3 * head.hidden;
  const int64_t d = head.size;
  pack_panels(qkv + head.qkv_offset(1), 1, stride, d, head.length, at.key);
  pack_panels(qkv + head.qkv_offset(1), stride, 1, head.length, d, at.key_rows);
  pack_panels(qkv + head.qkv_offset(2), 1, stride, d, head.length, at.value);
  __builtin_memset(at.dkey, 0, sizeof(float) * static_cast<size_t>(sizes.products * sizes.width));
  __builtin_memset(at.dvalue, 0, sizeof(float) * static_cast<size_t>(sizes.products * sizes.width));
  const float* lse = op.lse.floats() + head_index * head.tokens + head.first;
  for (int64_t begin = 0; begin < head.length; begin += kTile) {
    const int64_t rows = head.length - begin < kTile ? head.length - begin : kTile;
    const float* out = op.out.floats() + head.out_offset() + begin * head.hidden;
    const float* dout = op.dout.floats() + head.out_offset() + begin * head.hidden;
    copy_tile(qkv + head.qkv_offset(0) + begin * stride, stride, rows, d, head.scale, at.query);
    pack_panels(at.query, d, 1, rows, d, at.query_packed);
    copy_tile(dout, head.hidden, rows, d, 1.0F, at.dout);
    pack_panels(at.dout, d, 1, rows, d, at.dout_packed);
    block_product<Into::Overwrite>(rows, head.length, d, at.query, d, 1, at.key, at.scores,
                                   sizes.row);
    block_product<Into::Overwrite>(rows, head.length, d, at.dout, d, 1, at.value, at.dscores,
                                   sizes.row);
    for (int64_t i = 0; i < rows; ++i) {
      const bool drop = head.mask.threshold != 0;
      if (drop) head.draw(begin + i, at.mask);
      backward_row(at.scores + i * sizes.row, at.dscores + i * sizes.row, drop ? at.mask : nullptr,
                   sizes.keys, lse[begin + i],
                   dot(out + i * head.hidden, dout + i * head.hidden, d));
    }
    block_product<Into::Add>(head.length, d, rows, at.scores, 1, sizes.row, at.dout_packed,
                             at.dvalue, sizes.width);
    block_product<Into::Add>(head.length, d, rows, at.dscores, 1, sizes.row, at.query_packed,
                             at.dkey, sizes.width);
    block_product<Into::Overwrite>(rows, d, head.length, at.dscores, sizes.row, 1, at.key_rows,
                                   at.dquery, sizes.width);
    write_rows(at.dquery, sizes.width, rows, d, head.scale,
               op.dqkv.floats() + head.qkv_offset(0) + begin * stride, stride);
  }
  float* dqkv = op.dqkv.floats();
  write_rows(at.dkey, sizes.width, head.length, d, 1.0F, dqkv + head.qkv_offset(1), stride);
  write_rows(at.dvalue, sizes.width, head.length, d, 1.0F, dqkv + head.qkv_offset(2), stride);
}

}  // namespace regatta::trainer::cpu::REGATTA_ISA
