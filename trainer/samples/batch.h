// A packed micro-batch on the host: what the collator makes and the model reads.
#pragma once

#include <cstdint>
#include <vector>

namespace regatta::trainer::samples {

// One sample: [CLS] A [SEP] B [SEP], in pre-training after masking; B may be absent otherwise.
struct Sample {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> types;             // 0 up to the first [SEP], then 1
  std::vector<std::int32_t> masked_positions;  // ascending
  std::vector<std::int32_t> masked_labels;     // the pieces that stood there
  // Pre-training: 1 where B does not follow A (as in Google's BERT); of Classification, the class,
  // −1 where it is not known.
  std::int32_t sample_label = 0;
  // QuestionAnswering: the answer's first and last token; 0, 0: none here. −1: not known.
  std::int32_t answer_begin = -1, answer_end = -1;
  float value = 0;  // Regression; NaN: not known
};

// T tokens of B samples without padding; M masked positions. Everything the device needs is
// computed here, so that no step asks the device for a count.
struct PackedBatch {
  std::vector<std::int32_t> ids, types, ordinals, positions;  // [T]
  std::vector<std::int32_t> sorted;                           // [T] token indexes by (id, token)
  std::vector<std::int32_t> cumulative;                       // [B + 1]
  std::vector<std::int32_t> masked_rows;                      // [M] token indexes, ascending
  std::vector<std::int32_t> masked_labels;                    // [M]
  std::vector<std::int32_t> first_rows;                       // [B] token index of each [CLS]
  std::vector<std::int32_t> sample_labels;                    // [B]
  std::vector<std::int32_t> answers;  // [2·B]: of each sample's tokens, answer_begin and answer_end
  std::vector<float> values;          // [B]
  std::int64_t max_length = 0;

  [[nodiscard]] std::int64_t samples() const {
    return static_cast<std::int64_t>(sample_labels.size());
  }
  [[nodiscard]] std::int64_t tokens() const { return static_cast<std::int64_t>(ids.size()); }
  [[nodiscard]] std::int64_t masked() const {
    return static_cast<std::int64_t>(masked_labels.size());
  }
};

// ordinals[i] is sample i's place in the global batch: all that its dropout masks depend on.
[[nodiscard]] PackedBatch collate(const std::vector<Sample>& samples,
                                  const std::vector<std::int32_t>& ordinals);

}  // namespace regatta::trainer::samples
