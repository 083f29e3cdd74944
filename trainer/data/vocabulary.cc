#include "trainer/data/vocabulary.h"

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer::data {
namespace {

using base::Code;
using base::Error;

constexpr std::uint64_t kLargestFile = std::uint64_t{64} << 20U;
constexpr std::size_t kMostPieces = std::size_t{1} << 20U;

[[nodiscard]] bool valid_utf8(std::string_view text) {
  std::string copy;
  return unicode::append_valid_utf8(text, copy) == 0;
}

}  // namespace

Vocabulary Vocabulary::parse(std::string_view text, const std::string& source) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.empty()) {
    throw Error(Code::User,
                "vocabulary " + source + " has no pieces; give a vocab.txt with one piece a line");
  }
  Vocabulary vocabulary;
  for (std::string& piece : base::split(text, '\n')) {
    if (!piece.empty() && piece.back() == '\r') piece.pop_back();
    const std::string where =
        "vocabulary " + source + ", line " + std::to_string(vocabulary.pieces_.size() + 1) + ": ";
    if (piece.empty())
      throw Error(Code::User, where + "blank line; remove it (ids are line numbers)");
    if (!valid_utf8(piece)) {
      throw Error(Code::User,
                  where + "not UTF-8: '" + base::printable(piece) + "'; convert the file");
    }
    if (vocabulary.pieces_.size() == kMostPieces) {
      throw Error(Code::User, where + "more than " + std::to_string(kMostPieces) +
                                  " pieces; is this a vocab.txt?");
    }
    const auto [other, added] = vocabulary.ids_.emplace(piece, vocabulary.size());
    if (!added) {
      throw Error(Code::User, where + "'" + base::printable(piece) + "' is already on line " +
                                  std::to_string(other->second + 1) + "; remove one of them");
    }
    vocabulary.pieces_.push_back(std::move(piece));
  }
  const auto special = [&](const std::string& piece) {
    const TokenId id = vocabulary.find(piece);
    if (id < 0) {
      throw Error(Code::User, "vocabulary " + source + " has no piece " + piece +
                                  "; BERT needs [PAD], [UNK], [CLS], [SEP] and [MASK]");
    }
    return id;
  };
  vocabulary.special_ = {special("[PAD]"), special("[UNK]"), special("[CLS]"), special("[SEP]"),
                         special("[MASK]")};
  return vocabulary;
}

Vocabulary Vocabulary::load(const base::Path& path, base::FileSystem& files) {
  return parse(files.read(path, kLargestFile), path.string());
}

TokenId Vocabulary::find(std::string_view piece) const {
  const auto found = ids_.find(std::string(piece));
  return found == ids_.end() ? -1 : found->second;
}

bool Vocabulary::is_special(TokenId id) const {
  return id == special_.pad || id == special_.unknown || id == special_.classify ||
         id == special_.separator || id == special_.mask;
}

std::string Vocabulary::text() const {
  std::string text;
  for (const std::string& piece : pieces_) {
    text += piece;
    text += '\n';
  }
  return text;
}

std::string Vocabulary::digest() const { return base::digest_of(text()); }

}  // namespace regatta::trainer::data
