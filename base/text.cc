#include "base/text.h"

#include <sys/random.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "base/ascii.h"
#include "base/error.h"

namespace regatta::base {

namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: what stands there is not UTF-8
};

// The first character of a text that is not empty: no overlong form, no surrogate, none above
// U+10FFFF (RFC 3629).
Character first_character(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return std::uint32_t{static_cast<unsigned char>(text[i])};
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  if (code < kSmallest[bytes] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, bytes};
}

// What is not seen, or changes how its neighbours are seen: bidirectional controls (Trojan Source,
// CVE-2021-42574), line and paragraph separators, characters without width, fillers, tags. An emoji
// made with joiners comes apart; nobody is deceived by that.
bool deceives(std::uint32_t code) {
  constexpr std::uint32_t kRanges[][2] = {
      {0x00AD, 0x00AD}, {0x034F, 0x034F}, {0x061C, 0x061C}, {0x115F, 0x1160},   {0x17B4, 0x17B5},
      {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E}, {0x2060, 0x206F},   {0x3164, 0x3164},
      {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xFFF9, 0xFFFB}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [code](const auto& range) { return code >= range[0] && code <= range[1]; });
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  char escaped[16];
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::uint32_t code = character.code;
    const std::size_t bytes = std::max<std::size_t>(1, character.bytes);
    const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
    if (character.bytes == 0) {
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(text[0]));
      out += escaped;
    } else if (code == '\n') {
      out += "\\n";
    } else if (control && code != '\t') {
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned>(code));
      out += escaped;
    } else if (deceives(code)) {
      std::snprintf(escaped, sizeof escaped, "\\u{%04X}", static_cast<unsigned>(code));
      out += escaped;
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.bytes == 0) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value,
                kUnits[unit]);
  return text;
}

std::string human_seconds(double seconds) {
  constexpr double kMost = 1e15;
  if (!(seconds > 0)) seconds = 0;
  seconds = std::min(seconds, kMost);
  char text[48];
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%lld h %02lld min", whole / 3600, whole / 60 % 60);
  } else if (whole >= 60) {
    std::snprintf(text, sizeof text, "%lld min %02lld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  }
  return text;
}

std::optional<std::string> closest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  constexpr std::size_t kMaxWord =
      64;  // longer ones are no slips, and the table costs their square
  if (word.size() > kMaxWord) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j <= candidate.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t substituted = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (;;) {
    const std::size_t end = text.find(separator, start);
    parts.emplace_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) out += separator;
    out += part;
  }
  return out;
}

bool json_depth_at_most(std::string_view json, int depth) {
  int open = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++open > depth) return false;
    } else if (c == '}' || c == ']') {
      --open;
    }
  }
  return true;
}

std::string random_hex(int bytes) {
  std::string raw(static_cast<std::size_t>(bytes), '\0');
  check(getrandom(raw.data(), raw.size(), 0) == static_cast<ssize_t>(raw.size()),
        "getrandom fills up to 256 bytes at once");
  return hex(raw);
}

}  // namespace regatta::base
