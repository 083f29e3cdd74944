// The raw Unicode 14.0.0 tables behind unicode.h. Generated: see unicode_tables.py.
#pragma once

#include <cstddef>
#include <cstdint>

namespace regatta::trainer::data::unicode_tables {

struct Range {
  std::uint32_t first;
  std::uint32_t last;  // inclusive
  std::uint8_t value;
};

// Bits of kProperties.
inline constexpr std::uint8_t kRemoved = 1;      // Cc, Cf
inline constexpr std::uint8_t kSpace = 2;        // Zs, Zl, Zp
inline constexpr std::uint8_t kPunctuation = 4;  // P*
inline constexpr std::uint8_t kMark = 8;         // Mn
inline constexpr std::uint8_t kCased = 16;       // Cased and not Case_Ignorable
inline constexpr std::uint8_t kIgnorable = 32;   // Case_Ignorable

extern const Range kProperties[];
extern const std::size_t kPropertiesSize;
extern const Range kCombiningClasses[];
extern const std::size_t kCombiningClassesSize;
// Flat records: code point, n, n code points.
extern const std::uint32_t kLower[];
extern const std::size_t kLowerSize;
extern const std::uint32_t kDecompositions[];
extern const std::size_t kDecompositionsSize;

}  // namespace regatta::trainer::data::unicode_tables
