#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "trainer/samples/batch.h"

namespace regatta::trainer::samples {

PackedBatch collate(const std::vector<Sample>& samples, const std::vector<std::int32_t>& ordinals) {
  base::check(samples.size() == ordinals.size(), "every sample has an ordinal");
  PackedBatch batch;
  batch.cumulative.push_back(0);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample& sample = samples[i];
    const auto start = static_cast<std::int32_t>(batch.ids.size());
    const auto length = static_cast<std::int32_t>(sample.ids.size());
    batch.first_rows.push_back(start);
    batch.sample_labels.push_back(sample.sample_label);
    batch.answers.insert(batch.answers.end(), {sample.answer_begin, sample.answer_end});
    batch.values.push_back(sample.value);
    batch.ids.insert(batch.ids.end(), sample.ids.begin(), sample.ids.end());
    batch.types.insert(batch.types.end(), sample.types.begin(), sample.types.end());
    batch.ordinals.insert(batch.ordinals.end(), sample.ids.size(), ordinals[i]);
    for (std::int32_t position = 0; position < length; ++position) {
      batch.positions.push_back(position);
    }
    for (const std::int32_t position : sample.masked_positions) {
      batch.masked_rows.push_back(start + position);
    }
    batch.masked_labels.insert(batch.masked_labels.end(), sample.masked_labels.begin(),
                               sample.masked_labels.end());
    batch.cumulative.push_back(start + length);
    batch.max_length = std::max<std::int64_t>(batch.max_length, length);
  }
  batch.sorted.resize(batch.ids.size());
  std::iota(batch.sorted.begin(), batch.sorted.end(), 0);
  std::stable_sort(batch.sorted.begin(), batch.sorted.end(), [&](std::int32_t a, std::int32_t b) {
    return batch.ids[static_cast<std::size_t>(a)] < batch.ids[static_cast<std::size_t>(b)];
  });
  return batch;
}

}  // namespace regatta::trainer::samples
