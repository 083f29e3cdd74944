#include "trainer/data/unicode.h"

#include <algorithm>
#include <cstring>

#include "trainer/data/unicode_tables.h"

namespace regatta::trainer::data::unicode {
namespace {

constexpr char32_t kCodePoints = 0x110000;

// Hangul syllables decompose by arithmetic (Unicode standard, section 3.12).
constexpr char32_t kHangulFirst = 0xAC00;
constexpr char32_t kHangulCount = 11172;
constexpr char32_t kLeadFirst = 0x1100;
constexpr char32_t kVowelFirst = 0x1161;
constexpr char32_t kTailFirst = 0x11A7;
constexpr char32_t kTails = 28;
constexpr char32_t kVowelsTimesTails = 21 * kTails;

struct Block {
  char32_t first;
  char32_t last;
};
// The ideographs of Google BERT: CJK Unified, its extensions A to E, and the compatibility blocks.
constexpr Block kIdeographs[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                 {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF},
                                 {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
constexpr Block kAsciiPunctuation[] = {{33, 47}, {58, 64}, {91, 96}, {123, 126}};

// The second byte's range narrows for four lead bytes (overlong forms, surrogates, above 10FFFF).
struct LeadByte {
  std::uint8_t length;
  std::uint8_t second_first;
  std::uint8_t second_last;
};

LeadByte lead_byte(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const LeadByte lead = lead_byte(first);
  if (lead.length == 0) return {kReplacement, 1, false};
  char32_t code_point = first & (0x7FU >> lead.length);
  for (std::uint8_t i = 1; i < lead.length; ++i) {
    const unsigned char low = i == 1 ? lead.second_first : 0x80;
    const unsigned char high = i == 1 ? lead.second_last : 0xBF;
    if (i >= text.size() || byte(i) < low || byte(i) > high) return {kReplacement, i, false};
    code_point = (code_point << 6U) | (byte(i) & 0x3FU);
  }
  return {code_point, lead.length, true};
}

void append_utf8(char32_t c, std::string& text) {
  const auto put = [&](char32_t value) { text.push_back(static_cast<char>(value)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | (c >> 6U));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12U));
    put(0x80 | ((c >> 6U) & 0x3FU));
  } else {
    put(0xF0 | (c >> 18U));
    put(0x80 | ((c >> 12U) & 0x3FU));
    put(0x80 | ((c >> 6U) & 0x3FU));
  }
  put(0x80 | (c & 0x3FU));
}

bool is_ascii(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080U;
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data() + i, 8);
    if ((eight & kHighBits) != 0) return false;
  }
  for (; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= 0x80) return false;
  }
  return true;
}

std::int64_t append_valid_utf8(std::string_view text, std::string& out) {
  std::int64_t invalid = 0;
  std::size_t copied = 0;  // text[copied, i) is well formed and not yet in `out`
  for (std::size_t i = 0; i < text.size();) {
    if (is_ascii(text.substr(i, 64))) {
      i = std::min(i + 64, text.size());
      continue;
    }
    const Decoded next = decode(text.substr(i));
    if (!next.valid) {
      out.append(text.substr(copied, i - copied));
      append_utf8(kReplacement, out);
      copied = i + next.length;
      ++invalid;
    }
    i += next.length;
  }
  out.append(text.substr(copied));
  return invalid;
}

const Characters& Characters::instance() {
  static const Characters characters;
  return characters;
}

Characters::Characters() : info_(kCodePoints, 0), mappings_(1) {
  add_classes();
  add_mappings();
}

void Characters::add_classes() {
  namespace tables = unicode_tables;
  static_assert(tables::kRemoved == kRemovedBit && tables::kSpace == kSpaceBit &&
                tables::kPunctuation == kPunctuationBit && tables::kMark == kMarkBit &&
                tables::kCased == kCasedBit && tables::kIgnorable == kIgnorableBit);
  for (std::size_t i = 0; i < tables::kPropertiesSize; ++i) {
    const tables::Range& range = tables::kProperties[i];
    for (std::uint32_t c = range.first; c <= range.last; ++c) info_[c] = range.value;
  }
  for (const Block& block : kIdeographs) {
    for (char32_t c = block.first; c <= block.last; ++c) info_[c] |= kIdeographBit;
  }
  for (const Block& block : kAsciiPunctuation) {
    for (char32_t c = block.first; c <= block.last; ++c) info_[c] |= kPunctuationBit;
  }
  for (const char32_t c : {U'\t', U'\n', U'\r'}) info_[c] = kSpaceBit;
  info_[kReplacement] |= kRemovedBit;
}

Characters::Mapping& Characters::mapping_of(char32_t c) {
  if (info_[c] >> kMappingShift == 0) {
    info_[c] |= static_cast<std::uint32_t>(mappings_.size()) << kMappingShift;
    mappings_.emplace_back();
  }
  return mappings_[info_[c] >> kMappingShift];
}

void Characters::add_mappings() {
  namespace tables = unicode_tables;
  for (std::size_t i = 0; i < tables::kCombiningClassesSize; ++i) {
    const tables::Range& range = tables::kCombiningClasses[i];
    for (char32_t c = range.first; c <= range.last; ++c)
      mapping_of(c).combining_class = range.value;
  }
  const auto load = [this](const std::uint32_t* records, std::size_t size, Text Mapping::*member) {
    for (std::size_t i = 0; i < size; i += 2 + records[i + 1]) {
      mapping_of(records[i]).*member = {static_cast<std::uint32_t>(pool_.size()), records[i + 1]};
      for (std::uint32_t k = 0; k < records[i + 1]; ++k) {
        pool_.push_back(static_cast<char32_t>(records[i + 2 + k]));
      }
    }
  };
  load(tables::kLower, tables::kLowerSize, &Mapping::lower);
  load(tables::kDecompositions, tables::kDecompositionsSize, &Mapping::decomposition);
  // No mapping is made for a Hangul syllable, and none is added by this loop.
  for (char32_t c = 0; c < kCodePoints; ++c) {
    if (info_[c] >> kMappingShift == 0) continue;
    std::u32string lower;
    std::u32string folded;
    append_lower(c, lower);
    for (const char32_t l : lower) append_decomposition(l, folded);
    if (folded == std::u32string(1, c)) continue;
    mapping_of(c).folded = {static_cast<std::uint32_t>(pool_.size()),
                            static_cast<std::uint32_t>(folded.size())};
    pool_ += folded;
  }
}

void Characters::append(char32_t c, Text to, std::u32string& out) const {
  if (to.length == 0) {
    out.push_back(c);
  } else {
    out.append(pool_, to.offset, to.length);
  }
}

void Characters::append_lower(char32_t c, std::u32string& out) const {
  append(c, mappings_[info_[c] >> kMappingShift].lower, out);
}

void Characters::append_decomposition(char32_t c, std::u32string& out) const {
  if (c >= kHangulFirst && c < kHangulFirst + kHangulCount) {
    const char32_t index = c - kHangulFirst;
    out.push_back(kLeadFirst + index / kVowelsTimesTails);
    out.push_back(kVowelFirst + index % kVowelsTimesTails / kTails);
    if (index % kTails != 0) out.push_back(kTailFirst + index % kTails);
    return;
  }
  append(c, mappings_[info_[c] >> kMappingShift].decomposition, out);
}

void Characters::append_folded(char32_t c, std::u32string& out) const {
  if (c >= kHangulFirst && c < kHangulFirst + kHangulCount) return append_decomposition(c, out);
  append(c, mappings_[info_[c] >> kMappingShift].folded, out);
}

void Characters::canonical_order(std::u32string& text) const {
  for (auto begin = text.begin(); begin != text.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, text.end(), [this](char32_t c) { return combining_class(c) == 0; });
    if (end - begin > 1) {
      std::stable_sort(begin, end, [this](char32_t a, char32_t b) {
        return combining_class(a) < combining_class(b);
      });
    }
    begin = end;
  }
}

}  // namespace regatta::trainer::data::unicode
