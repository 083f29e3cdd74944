// Small pure functions on text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::base {

// For a terminal or a log line: control characters and what is no UTF-8 as \xNN, line breaks as \n,
// what is not seen or reorders its neighbours (U+202E) as \u{202E}. Changes nothing twice.
[[nodiscard]] std::string printable(std::string_view text);

// RFC 3629: no overlong form, no surrogate.
[[nodiscard]] bool is_utf8(std::string_view text);

// Whole-string parses; nothing on anything else.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

// "1.5 GB", "312 kB": powers of 1000.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);
// "1 h 02 min", "3 min 05 s", "12.3 s"; below zero and not-a-number read as zero.
[[nodiscard]] std::string human_seconds(double seconds);

// The candidate with the smallest edit distance to `word`, if it is at most a third of its length:
// for "did you mean".
[[nodiscard]] std::optional<std::string> closest(std::string_view word,
                                                 const std::vector<std::string>& candidates);

[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);

// Whether the brackets of a JSON text nest no deeper than `depth`; a cheap look before parsing text
// from elsewhere. Says nothing about whether the text is JSON.
[[nodiscard]] bool json_depth_at_most(std::string_view json, int depth);

// 2·bytes hexadecimal digits (bytes ≤ 256) from the kernel's random source.
[[nodiscard]] std::string random_hex(int bytes);

}  // namespace regatta::base
