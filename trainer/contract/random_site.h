// Where random numbers are drawn. Every draw is philox(seed, {block, ordinal, step, site}): see
// trainer/contract/README.md, "Random numbers".
#pragma once

#include <cstdint>

namespace regatta::trainer::contract {

enum class RandomSite : std::uint32_t {
  Permutation = 1,     // the sampler's order of samples
  Segments = 2,        // NSP pairing and truncation, when a sample is built
  Masking = 3,         // MLM masking; `step` is the epoch during training and 0 in evaluation
  Initialisation = 4,  // `ordinal` is the tensor's index in the tensor table
  ShuffledLabels = 5,  // the demo's control run
  Chunks = 6,          // how a pass cuts a document, which `ordinal` is, into pairs
  Halves = 7,          // which samples of a step are in the half that the noise scale looks at
  Replays = 8,         // which steps are computed twice, and by which ranks
  Mixture = 9,         // the order in which datasets take turns, and seeds of all but the first
  EmbeddingDropout = 16,
  // Site of layer l: kLayerSites + 4·l + {0, 1, 2}.
};

constexpr std::uint32_t kLayerSites = 64;
constexpr std::uint32_t attention_dropout_site(int layer) {
  return kLayerSites + 4 * static_cast<std::uint32_t>(layer);
}
constexpr std::uint32_t attention_output_dropout_site(int layer) {
  return attention_dropout_site(layer) + 1;
}
constexpr std::uint32_t output_dropout_site(int layer) { return attention_dropout_site(layer) + 2; }

// Dropout: one philox call yields eight 16-bit draws; draw e of a block is bits 16·(e mod 2) of
// word e / 2. Element kept iff draw ≥ t with t = round(65536·p); a kept element is multiplied by
// 65536 / (65536 − t). The same on every device, so that a run may resume on another.
constexpr std::uint32_t dropout_threshold(double p) {
  return static_cast<std::uint32_t>(65536.0 * p + 0.5);
}
constexpr float dropout_scale(std::uint32_t threshold) {
  return 65536.0F / static_cast<float>(65536 - threshold);
}
// The block of eight neighbouring features of one token: feature / 8 counted from the token's
// first.
constexpr std::uint32_t row_block(std::uint32_t position, std::uint32_t feature,
                                  std::uint32_t hidden) {
  return position * ((hidden + 7) / 8) + feature / 8;
}
// The block of eight neighbouring keys of one query of one head; positions stay below 4096.
constexpr std::uint32_t attention_block(std::uint32_t head, std::uint32_t query,
                                        std::uint32_t key) {
  return (head * 4096 + query) * 512 + key / 8;  // 32 bits hold 2048 heads
}

}  // namespace regatta::trainer::contract
