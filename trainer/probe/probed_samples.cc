#include "trainer/probe/probed_samples.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "base/digest.h"
#include "base/philox.h"
#include "trainer/contract/random_site.h"
#include "trainer/probe/step_probe.h"

namespace regatta::trainer::probe {
namespace {

using Json = nlohmann::ordered_json;

// Pieces as they stood before masking; of a sample without masks as they stand.
std::vector<std::int32_t> pieces_before_masking(const samples::Sample& sample) {
  std::vector<std::int32_t> ids = sample.ids;
  for (std::size_t i = 0; i < sample.masked_positions.size(); ++i) {
    ids[static_cast<std::size_t>(sample.masked_positions[i])] = sample.masked_labels[i];
  }
  return ids;
}

void add_values(base::Digest* digest, std::span<const std::int32_t> values) {
  digest->update(std::as_bytes(values));
}

void add_tokens(base::Digest* digest, const samples::Sample& sample) {
  const auto length = static_cast<std::int32_t>(sample.ids.size());
  add_values(digest, {&length, 1});
  add_values(digest, pieces_before_masking(sample));
  add_values(digest, sample.types);
}

// And what else is to be predicted of the sample.
void add_masks(base::Digest* digest, const samples::Sample& sample) {
  std::vector<std::int32_t> there;
  for (const std::int32_t position : sample.masked_positions) {
    there.push_back(sample.ids[static_cast<std::size_t>(position)]);
  }
  const auto count = static_cast<std::int32_t>(there.size());
  add_values(digest, {&count, 1});
  add_values(digest, sample.masked_positions);
  add_values(digest, there);
  add_values(digest, sample.masked_labels);
  const std::int32_t labels[] = {sample.sample_label, sample.answer_begin, sample.answer_end};
  add_values(digest, labels);
  digest->update(std::as_bytes(std::span(&sample.value, 1)));
}

template <typename Add>
std::string digest_of_one(const samples::Sample& sample, const Add& add) {
  base::Digest digest;
  add(&digest, sample);
  return digest.hex();
}

// A bit for each feature of each token: kept (1) or dropped by the hidden dropout behind the first
// layer's attention.
std::string digest_of_masks(const std::vector<ReplayedSample>& samples,
                            const contract::RunConfig& config, std::int64_t step) {
  base::Digest digest;
  const auto hidden = static_cast<std::uint32_t>(config.model.hidden);
  const std::uint32_t threshold = contract::dropout_threshold(config.dropout);
  std::string bits((hidden + 7) / 8, '\0');
  for (const ReplayedSample& each : samples) {
    for (std::uint32_t position = 0; position < each.sample.ids.size(); ++position) {
      for (std::uint32_t feature = 0; feature < hidden; feature += 8) {
        const auto words =
            base::philox(config.seed, {contract::row_block(position, feature, hidden),
                                       static_cast<std::uint32_t>(each.ordinal),
                                       static_cast<std::uint32_t>(step),
                                       contract::attention_output_dropout_site(0)});
        unsigned kept = 0;
        for (std::uint32_t e = 0; e < std::min(8U, hidden - feature); ++e) {
          const std::uint32_t draw = words[e / 2] >> (16 * (e % 2)) & 0xFFFFU;
          if (draw >= threshold) kept |= 1U << e;
        }
        bits[feature / 8] = static_cast<char>(kept);
      }
      digest.update(bits);
    }
  }
  return digest.hex();
}

Json samples_part(const std::vector<ReplayedSample>& samples) {
  base::Digest ids;
  Json each = Json::array();
  for (const ReplayedSample& one : samples) {
    ids.update(one.id + "\n");
    if (each.size() == kMostProbedSamples) continue;
    each.push_back({{"id", one.id},
                    {"tokens_xxh3_128", digest_of_one(one.sample, add_tokens)},
                    {"masks_xxh3_128", digest_of_one(one.sample, add_masks)},
                    {"length", one.sample.ids.size()}});
  }
  return {{"part", "samples"},
          {"count", samples.size()},
          {"xxh3_128", ids.hex()},
          {"each", std::move(each)}};
}

}  // namespace

std::vector<Json> sample_parts(const std::vector<ReplayedSample>& samples,
                               const contract::RunConfig& config, std::int64_t step) {
  base::Digest tokens, masks;
  for (const ReplayedSample& each : samples) {
    add_tokens(&tokens, each.sample);
    add_masks(&masks, each.sample);
  }
  return {samples_part(samples),
          {{"part", "tokens"}, {"xxh3_128", tokens.hex()}},
          {{"part", "masks"}, {"xxh3_128", masks.hex()}},
          {{"part", "dropout"},
           {"hidden", config.dropout},
           {"attention", config.attention_dropout},
           {"seed", config.seed},
           {"xxh3_128", digest_of_masks(samples, config, step)}}};
}

}  // namespace regatta::trainer::probe
