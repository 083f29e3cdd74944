#include "trainer/data/tokenizer.h"

#include <algorithm>
#include <cstring>

namespace regatta::trainer::data {
namespace {

[[nodiscard]] std::uint64_t load(const char* bytes, std::size_t count) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, count);
  return value;
}

// Of 1 to 24 bytes: overlapping loads instead of a loop.
[[nodiscard]] std::size_t hash_of(std::string_view key) {
  const char* const data = key.data();
  const std::size_t size = key.size();
  std::uint64_t a = size;
  std::uint64_t b = 0;
  if (size >= 8) {
    a ^= load(data, 8);
    b = load(data + size - 8, 8);
    if (size > 16) b ^= load(data + 8, 8) * 0x9E3779B97F4A7C15U;
  } else if (size >= 4) {
    a ^= load(data, 4) << 8U;
    b = load(data + size - 4, 4);
  } else {
    a ^= std::uint64_t{static_cast<unsigned char>(data[0])} << 8U;
    a ^= std::uint64_t{static_cast<unsigned char>(data[size / 2])} << 16U;
    a ^= std::uint64_t{static_cast<unsigned char>(data[size - 1])} << 24U;
  }
  a = (a ^ 0xD6E8FEB86659FD93U) * 0xA0761D6478BD642FU;
  b = (b ^ (a >> 32U)) * 0xE7037ED1A0B428DBU;
  return static_cast<std::size_t>((a ^ b) >> 32U);
}

}  // namespace

Tokenizer::Tokenizer(const WordPiece& pieces)
    : pieces_(pieces),
      lower_case_(pieces.options().lower_case),
      basic_(pieces.options().lower_case),
      cache_(kCacheEntries) {
  std::vector<TokenId> id;
  for (std::size_t c = 0; c < punctuation_.size(); ++c) {
    if (kByteClasses[c] != kPunctuationByte) continue;
    const char text = static_cast<char>(c);
    id.clear();
    pieces.append(std::string_view(&text, 1), 1, id);
    punctuation_[c] = id.front();
  }
}

void Tokenizer::tokenize(std::string_view text, std::vector<TokenId>& ids) {
  for_each_chunk(text, [&](std::string_view chunk, bool plain) {
    if (!plain) {
      cached(chunk, ids, [&] { append_chunk(chunk, ids); });
      return;
    }
    for_each_plain_word(chunk, [&](std::string_view word) {
      if (byte_class(word[0]) == kPunctuationByte) {
        ids.push_back(punctuation_[static_cast<unsigned char>(word[0])]);
      } else {
        cached(word, ids, [&] { append_plain_word(word, ids); });
      }
    });
  });
}

template <typename Compute>
void Tokenizer::cached(std::string_view key, std::vector<TokenId>& ids, Compute compute) {
  if (key.size() > kLongestKey) {
    compute();
    return;
  }
  Entry& entry = cache_[hash_of(key) % kCacheEntries];
  if (entry.key_length == key.size() &&
      std::memcmp(entry.key.data(), key.data(), key.size()) == 0) {
    ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.id_count);
    return;
  }
  const std::size_t before = ids.size();
  const std::int64_t invalid_before = invalid_sequences_;
  compute();
  const std::size_t count = ids.size() - before;
  // A cached chunk would not count its ill-formed sequences again.
  if (count > kMostIds || invalid_sequences_ != invalid_before) return;
  entry.key_length = static_cast<std::uint8_t>(key.size());
  entry.id_count = static_cast<std::uint8_t>(count);
  std::copy(key.begin(), key.end(), entry.key.begin());
  std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), entry.ids.begin());
}

void Tokenizer::append_plain_word(std::string_view word, std::vector<TokenId>& ids) {
  const int length = static_cast<int>(std::min<std::size_t>(word.size(), 1U << 20U));
  if (!lower_case_) {
    pieces_.append(word, length, ids);
    return;
  }
  word_.resize(word.size());
  std::transform(word.begin(), word.end(), word_.begin(), ascii_lower);
  pieces_.append(word_, length, ids);
}

void Tokenizer::append_chunk(std::string_view chunk, std::vector<TokenId>& ids) {
  for (const BasicTokenizer::Word& word : basic_.split(chunk)) {
    pieces_.append(word.text, word.code_points, ids);
  }
  invalid_sequences_ += basic_.invalid_sequences();
}

}  // namespace regatta::trainer::data
