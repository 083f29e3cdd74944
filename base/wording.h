// Numbers and counts as they are written in sentences for people.
#pragma once

#include <string>
#include <string_view>

namespace regatta::base {

// "node" → "nodes"; "es" after ch, sh, s and x: "switch" → "switches". No irregular nouns.
[[nodiscard]] std::string plural_noun(std::string_view noun);

// "1 node", "2 nodes", "0 nodes".
template <typename Integer>
[[nodiscard]] std::string plural(Integer count, std::string_view noun) {
  return std::to_string(count) + " " + (count == 1 ? std::string(noun) : plural_noun(noun));
}

// "12.3 %" of 0.123: always one decimal, and never "-0.0 %".
[[nodiscard]] std::string percent(double share);

// So many significant digits at most, without zeros at the end: "0.125", "1235", "1.235e+06".
[[nodiscard]] std::string short_number(double value, int digits = 4);

// printf into a string of any length.
[[nodiscard]] [[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

}  // namespace regatta::base
