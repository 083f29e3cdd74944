// A dataset in which every token is a piece of its own, so that a token alone says of which place
// of which document it is. Its text is known here, and its files are read here, from what
// trainer/data/README.md says about them: no code of the trainer tells a test what a sample should
// be. (It is prepared by the trainer, of course.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace regatta::tests {

// The pieces of its vocab.txt: these, then one for each token of the text.
constexpr std::int32_t kPad = 0, kUnknown = 1, kClassify = 2, kSeparator = 3, kMask = 4;
constexpr std::int32_t kFirstToken = 5;

constexpr double kHeldOutShare = 0.25;

// What a split's token file and its two indexes hold.
struct StoredSplit {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> sentences;  // first token of each, and the end
  std::vector<std::int64_t> documents;  // first sentence of each, and the end

  // By place in `tokens`: its document, and whether a sentence begins there (or ends: at the end).
  std::vector<int> document_of;
  std::vector<bool> is_boundary;

  // Where a token stands, −1 if it is not of this split.
  [[nodiscard]] std::int64_t place_of(std::int32_t token) const;
  std::vector<std::int64_t> places;  // by token
};

class NumberedDataset {
 public:
  // Prepares it in `directory`: documents of 1 to 9 sentences of 1 to 40 tokens.
  explicit NumberedDataset(const base::Path& directory, int documents = 60);

  [[nodiscard]] const base::Path& path() const { return path_; }
  [[nodiscard]] std::int32_t pieces() const { return pieces_; }
  [[nodiscard]] const StoredSplit& training() const { return training_; }
  [[nodiscard]] const StoredSplit& held_out() const { return held_out_; }
  // The documents of the text, as their tokens in order; and whether the hash of its text puts one
  // into the held-out split.
  [[nodiscard]] const std::vector<std::vector<std::int32_t>>& documents() const {
    return documents_;
  }
  [[nodiscard]] bool is_held_out(std::size_t document) const { return hashed_out_[document]; }
  // The document of the text that a token is of.
  [[nodiscard]] std::size_t document_of(std::int32_t token) const;

 private:
  base::Path path_;
  std::int32_t pieces_ = 0;
  std::vector<std::vector<std::int32_t>> documents_;
  std::vector<bool> hashed_out_;
  StoredSplit training_, held_out_;
};

}  // namespace regatta::tests
