#include "tests/trainer/samples/decoded_sample.h"

#include <algorithm>

namespace regatta::tests {
namespace {

using trainer::samples::Sample;

constexpr std::int64_t kSpecials = 3;

template <typename T>
const auto& at(const T& values, std::int64_t i) {
  return values.at(static_cast<std::size_t>(i));
}

bool is_boundary(const StoredSplit& split, std::int64_t place) {
  return split.is_boundary.at(static_cast<std::size_t>(place));
}

std::string at_position(std::size_t position) { return " at position " + std::to_string(position); }

// The pieces before masking.
std::string put_labels_back(const Sample& sample, std::vector<std::int32_t>* pieces) {
  *pieces = sample.ids;
  if (sample.masked_positions.size() != sample.masked_labels.size()) return "labels are missing";
  std::int32_t last = -1;
  for (std::size_t i = 0; i < sample.masked_positions.size(); ++i) {
    const std::int32_t position = sample.masked_positions[i];
    if (position <= last || position >= static_cast<std::int32_t>(pieces->size())) {
      return "positions of labels are not ascending, or beyond the end";
    }
    last = position;
    (*pieces)[static_cast<std::size_t>(position)] = sample.masked_labels[i];
  }
  return "";
}

// Of pieces [begin, end), which are one after another in the token file and of one document.
std::string find_range(const std::vector<std::int32_t>& pieces, std::size_t begin, std::size_t end,
                       const StoredSplit& split, Range* range) {
  if (begin >= end) return "an empty segment" + at_position(begin);
  range->begin = split.place_of(pieces[begin]);
  range->end = range->begin + static_cast<std::int64_t>(end - begin);
  for (std::size_t i = begin; i < end; ++i) {
    const std::int64_t place = split.place_of(pieces[i]);
    if (place < 0) return "a piece that is not of the split" + at_position(i);
    if (place != range->begin + static_cast<std::int64_t>(i - begin)) {
      return "a piece that does not follow the one before" + at_position(i);
    }
    if (at(split.document_of, place) != at(split.document_of, range->begin)) {
      return "a segment of two documents" + at_position(i);
    }
  }
  return "";
}

}  // namespace

std::string decode(const Sample& sample, const StoredSplit& split, DecodedSample* decoded) {
  std::vector<std::int32_t> pieces;
  std::string fault = put_labels_back(sample, &pieces);
  if (!fault.empty()) return fault;
  if (pieces.size() < 5 || pieces.front() != kClassify || pieces.back() != kSeparator) {
    return "not [CLS] … [SEP]";
  }
  const auto first = std::find(pieces.begin(), pieces.end(), kSeparator);
  const auto separator = static_cast<std::size_t>(first - pieces.begin());
  if (sample.types.size() != pieces.size()) return "types are missing";
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::int32_t type = i <= separator ? 0 : 1;
    if (sample.types[i] != type)
      return "another type than " + std::to_string(type) + at_position(i);
  }
  fault = find_range(pieces, 1, separator, split, &decoded->a);
  if (!fault.empty()) return "A has " + fault;
  fault = find_range(pieces, separator + 1, pieces.size() - 1, split, &decoded->b);
  return fault.empty() ? "" : "B has " + fault;
}

std::string fault_of_pair(const DecodedSample& pair, bool random_next, const StoredSplit& split,
                          int max_length) {
  const auto& [a, b] = pair;
  const std::int64_t limit = max_length - kSpecials;
  const std::int64_t total = a.size() + b.size();
  if (total > limit) return "it is too long";
  const bool is_cut = total == limit;  // perhaps
  const bool whole = is_boundary(split, a.begin) && is_boundary(split, a.end) &&
                     is_boundary(split, b.begin) && is_boundary(split, b.end);
  if (!whole && !is_cut) return "it is cut off, and would have fit";
  const bool same = at(split.document_of, a.begin) == at(split.document_of, b.begin);
  if (random_next) return same ? "a random B is of A's document" : "";
  if (!same) return "B is said to follow A, and is of another document";
  if (b.begin < a.end) return "B overlaps A";
  if (a.end != b.begin && !is_cut) return "B does not follow A directly, and both would fit";
  if (sentences_in(split, {a.end, b.begin + 1}) == 0) return "A and B are cut within a sentence";
  return "";
}

std::int64_t document_end(const StoredSplit& split, std::int64_t place) {
  const int document = at(split.document_of, place);
  return at(split.sentences, at(split.documents, document + 1));
}

std::int64_t sentences_in(const StoredSplit& split, const Range& range) {
  std::int64_t sentences = 0;
  for (std::int64_t i = range.begin; i < range.end; ++i) sentences += is_boundary(split, i) ? 1 : 0;
  return sentences;
}

}  // namespace regatta::tests
