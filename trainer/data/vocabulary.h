// A WordPiece vocabulary: the pieces of a vocab.txt, numbered by line from 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file_system.h"

namespace regatta::trainer::data {

using TokenId = std::int32_t;

struct SpecialTokens {
  TokenId pad;
  TokenId unknown;
  TokenId classify;   // [CLS]
  TokenId separator;  // [SEP]
  TokenId mask;
};

class Vocabulary {
 public:
  // One piece a line; a carriage return at its end is dropped, and so are blank lines at the end of
  // the text. Code::User, naming `source` and the line, for: no pieces, a blank line between
  // pieces, a piece that is not UTF-8 or occurs twice, more than 2^20 pieces, and an absent [PAD],
  // [UNK], [CLS], [SEP] or [MASK].
  [[nodiscard]] static Vocabulary parse(std::string_view text, const std::string& source);
  [[nodiscard]] static Vocabulary load(const base::Path& path, base::FileSystem& files);

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(pieces_.size()); }
  // `id` in [0, size()).
  [[nodiscard]] const std::string& piece(TokenId id) const {
    return pieces_[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] const std::vector<std::string>& pieces() const { return pieces_; }
  // The id of exactly this piece, or -1.
  [[nodiscard]] TokenId find(std::string_view piece) const;
  [[nodiscard]] const SpecialTokens& special() const { return special_; }
  // [PAD], [UNK], [CLS], [SEP], [MASK].
  [[nodiscard]] bool is_special(TokenId id) const;
  // The canonical vocab.txt: every piece followed by a line feed.
  [[nodiscard]] std::string text() const;
  // XXH3-128 of text(), hexadecimal.
  [[nodiscard]] std::string digest() const;

 private:
  Vocabulary() = default;

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, TokenId> ids_;
  SpecialTokens special_{};
};

}  // namespace regatta::trainer::data
