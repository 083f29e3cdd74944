// The Unicode 14.0.0 facts that BERT's tokenizer needs, and UTF-8. Nothing here depends on the
// locale or on a system library, so results are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::trainer::data::unicode {

inline constexpr char kVersion[] = "14.0.0";
inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr char32_t kCapitalSigma = 0x03A3;
inline constexpr char32_t kSmallSigma = 0x03C3;
inline constexpr char32_t kFinalSigma = 0x03C2;

// One UTF-8 sequence. An ill-formed one decodes to U+FFFD, and `length` covers its longest prefix
// that could have begun a character (at least one byte), as the Unicode standard recommends.
struct Decoded {
  char32_t code_point;
  std::uint8_t length;
  bool valid;
};

// `text` must not be empty.
[[nodiscard]] Decoded decode(std::string_view text);
// The bytes of a code point below 0x110000 that is no surrogate.
void append_utf8(char32_t code_point, std::string& text);
[[nodiscard]] bool is_ascii(std::string_view text);

// Copies `text` to `out` (appending) with every ill-formed sequence replaced by U+FFFD; returns how
// many there were.
std::int64_t append_valid_utf8(std::string_view text, std::string& out);

// What the tokenizer asks of a code point. Classes follow Google BERT's tokenization.py.
class Characters {
 public:
  // Built once (about 1 ms), then read by all threads.
  [[nodiscard]] static const Characters& instance();

  // Categories Cc and Cf, U+0000 and U+FFFD, but not tab, line feed and carriage return.
  [[nodiscard]] bool removed(char32_t c) const { return (info_[c] & kRemovedBit) != 0; }
  // Separates words: tab, line feed, carriage return, Zs, Zl, Zp.
  [[nodiscard]] bool space(char32_t c) const { return (info_[c] & kSpaceBit) != 0; }
  // Category P*, and every ASCII character that is neither letter, digit, space nor control.
  [[nodiscard]] bool punctuation(char32_t c) const { return (info_[c] & kPunctuationBit) != 0; }
  // Category Mn: dropped after decomposition.
  [[nodiscard]] bool mark(char32_t c) const { return (info_[c] & kMarkBit) != 0; }
  // Ideographs that become words of their own (eight blocks; not kana, not Hangul).
  [[nodiscard]] bool ideograph(char32_t c) const { return (info_[c] & kIdeographBit) != 0; }
  // Cased and not Case_Ignorable; Case_Ignorable: the context of a capital sigma.
  [[nodiscard]] bool cased(char32_t c) const { return (info_[c] & kCasedBit) != 0; }
  [[nodiscard]] bool case_ignorable(char32_t c) const { return (info_[c] & kIgnorableBit) != 0; }
  [[nodiscard]] std::uint8_t combining_class(char32_t c) const {
    return mappings_[info_[c] >> kMappingShift].combining_class;
  }

  // Appends the full lower-case mapping, without context (U+03A3 gives U+03C3).
  void append_lower(char32_t c, std::u32string& out) const;
  // Appends the full canonical decomposition; the caller orders marks with canonical_order().
  void append_decomposition(char32_t c, std::u32string& out) const;
  // Both in one step: decomposition of the lower case.
  void append_folded(char32_t c, std::u32string& out) const;
  // Sorts each run of characters of non-zero combining class, stably, by that class.
  void canonical_order(std::u32string& text) const;

 private:
  static constexpr std::uint32_t kRemovedBit = 1;
  static constexpr std::uint32_t kSpaceBit = 2;
  static constexpr std::uint32_t kPunctuationBit = 4;
  static constexpr std::uint32_t kMarkBit = 8;
  static constexpr std::uint32_t kCasedBit = 16;
  static constexpr std::uint32_t kIgnorableBit = 32;
  static constexpr std::uint32_t kIdeographBit = 64;
  static constexpr std::uint32_t kMappingShift = 8;

  struct Text {  // a slice of pool_
    std::uint32_t offset = 0;
    std::uint32_t length = 0;  // 0: maps to itself
  };
  struct Mapping {
    Text lower;
    Text decomposition;
    Text folded;
    std::uint8_t combining_class = 0;
  };

  Characters();
  Mapping& mapping_of(char32_t c);
  void add_classes();
  void add_mappings();
  void append(char32_t c, Text to, std::u32string& out) const;

  std::vector<std::uint32_t> info_;  // per code point: class bits, index into mappings_
  std::vector<Mapping> mappings_;    // the first one is empty
  std::u32string pool_;
};

}  // namespace regatta::trainer::data::unicode
