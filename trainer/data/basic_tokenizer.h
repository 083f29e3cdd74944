// The first half of Google BERT's tokenizer: text to words.
//
// In this order, as tokenization.py does: drop NUL, U+FFFD and control characters; set ideographs
// apart; split at white space; then, if lower-casing, lower-case the piece of text between the
// white space (a capital sigma looks at its neighbours there), decompose it canonically and drop
// its marks; split off punctuation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/unicode.h"

namespace regatta::trainer::data {

// What one byte tells the fast path.
enum ByteClass : std::uint8_t {
  kWordByte = 0,
  kSpaceByte = 1,        // ASCII white space that separates words
  kPunctuationByte = 2,  // ASCII punctuation
  kOtherByte = 4,        // ASCII control, or part of a longer UTF-8 sequence
};

[[nodiscard]] constexpr std::array<std::uint8_t, 256> byte_classes() {
  std::array<std::uint8_t, 256> classes{};
  for (std::size_t c = 0; c < 256; ++c) {
    const bool letter_or_digit =
        (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (letter_or_digit) {
      classes[c] = kWordByte;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      classes[c] = kSpaceByte;
    } else {
      classes[c] = c > ' ' && c < 0x7F ? kPunctuationByte : kOtherByte;
    }
  }
  return classes;
}
inline constexpr std::array<std::uint8_t, 256> kByteClasses = byte_classes();

[[nodiscard]] inline std::uint8_t byte_class(char byte) {
  return kByteClasses[static_cast<unsigned char>(byte)];
}

// Cuts `text` at ASCII white space: on_chunk(chunk, plain), `plain` if it is letters, digits and
// punctuation of ASCII only. No rule of the tokenizer looks across such a cut.
template <typename OnChunk>
void for_each_chunk(std::string_view text, OnChunk on_chunk) {
  const char* position = text.data();
  const char* const end = position + text.size();
  while (position != end) {
    std::uint8_t seen = byte_class(*position);
    if (seen == kSpaceByte) {
      ++position;
      continue;
    }
    const char* const begin = position++;
    for (; position != end; ++position) {
      const std::uint8_t next = byte_class(*position);
      if (next == kSpaceByte) break;
      seen |= next;
    }
    on_chunk(std::string_view(begin, static_cast<std::size_t>(position - begin)),
             (seen & kOtherByte) == 0);
  }
}

// The words of a plain chunk, not lower-cased; a punctuation character is a word of its own.
template <typename OnWord>
void for_each_plain_word(std::string_view chunk, OnWord on_word) {
  for (std::size_t i = 0; i < chunk.size();) {
    std::size_t end = i + 1;
    if (byte_class(chunk[i]) == kWordByte) {
      while (end < chunk.size() && byte_class(chunk[end]) == kWordByte) ++end;
    }
    on_word(chunk.substr(i, end - i));
    i = end;
  }
}

[[nodiscard]] inline char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// Steps that a tokenizer may leave out. Google's has the first two always, and the last two both or
// neither; Hugging Face's BertNormalizer has a key for each.
struct WordRules {
  bool clean_text = true;        // drop NUL, U+FFFD and control characters
  bool ideographs_apart = true;  // handle_chinese_chars
  bool lower_case = true;
  bool strip_accents = true;
  friend bool operator==(const WordRules&, const WordRules&) = default;
};

// Splits any text, one code point at a time. One object per thread (it keeps its buffers).
class BasicTokenizer {
 public:
  explicit BasicTokenizer(bool lower_case);  // Google's rules
  explicit BasicTokenizer(const WordRules& rules);

  struct Word {
    std::string_view text;  // UTF-8; valid until the next split()
    int code_points;
  };
  // The words of `text`. Ill-formed UTF-8 counts as U+FFFD, which is dropped.
  [[nodiscard]] const std::vector<Word>& split(std::string_view text);
  // Ill-formed sequences seen by the last split().
  [[nodiscard]] std::int64_t invalid_sequences() const { return invalid_sequences_; }

 private:
  struct Range {  // of bytes_
    std::size_t begin;
    std::size_t end;
    int code_points;
  };
  void end_token();
  void fold_token();
  [[nodiscard]] bool final_sigma(std::size_t index) const;

  const unicode::Characters& characters_;
  WordRules rules_;
  std::int64_t invalid_sequences_ = 0;
  std::u32string token_;   // the text between white space, as it is being collected
  std::u32string folded_;  // its form in lower case and without accents, as the rules say
  std::string bytes_;      // all words, one after another
  std::vector<Range> ranges_;
  std::vector<Word> words_;
};

}  // namespace regatta::trainer::data
