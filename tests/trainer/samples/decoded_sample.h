// What a sample of a NumberedDataset was made of, and whether that is what a sample should be.
#pragma once

#include <string>
#include <vector>

#include "tests/trainer/samples/numbered_dataset.h"
#include "trainer/samples/batch.h"

namespace regatta::tests {

// Places [begin, end) of a split's token file.
struct Range {
  std::int64_t begin = 0, end = 0;

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  [[nodiscard]] bool holds(const Range& other) const {
    return begin <= other.begin && other.end <= end;
  }
};

struct DecodedSample {
  Range a, b;
};

// Puts the labels back, and finds where both segments stand. Returns what is wrong with the sample,
// nothing if it is [CLS] A [SEP] B [SEP] with types 0 and 1 at every position, and A and B are each
// a piece of one document.
[[nodiscard]] std::string decode(const trainer::samples::Sample& sample, const StoredSplit& split,
                                 DecodedSample* decoded);

// What is wrong with the pair; nothing if it is a random one from two documents, or one in which B
// follows A in its document, and neither is cut off unless max_length demands it.
[[nodiscard]] std::string fault_of_pair(const DecodedSample& pair, bool random_next,
                                        const StoredSplit& split, int max_length);

// The end of the document that has `place`, and how many sentences begin in [begin, end).
[[nodiscard]] std::int64_t document_end(const StoredSplit& split, std::int64_t place);
[[nodiscard]] std::int64_t sentences_in(const StoredSplit& split, const Range& range);

}  // namespace regatta::tests
