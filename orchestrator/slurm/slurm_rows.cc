#include "orchestrator/slurm/slurm_rows.h"

#include <algorithm>

#include "base/error.h"

namespace regatta::orchestrator::slurm {
namespace {

// Longer ids, node names and states are none.
constexpr std::size_t kMostKeyBytes = 300;

bool is_plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

// The row's key when `text` begins with two plain fields, else empty.
std::string_view key_of(std::string_view text, std::string_view separator) {
  const std::string_view start = text.substr(0, 2 * kMostKeyBytes);
  const std::string_view window = start.substr(0, start.find('\n'));
  const std::size_t key = window.find(separator);
  if (key == std::string_view::npos || key == 0 || !is_plain(window.substr(0, key))) return {};
  const std::size_t state = window.find(separator, key + separator.size());
  if (state == std::string_view::npos) return {};
  const std::size_t begin = key + separator.size();
  if (!is_plain(window.substr(begin, state - begin))) return {};
  return window.substr(0, key);
}

bool closes(std::string_view text, std::string_view separator, std::string_view key) {
  if (text.size() < separator.size() + key.size()) return false;
  if (text.substr(text.size() - key.size()) != key) return false;
  text.remove_suffix(key.size());
  return text.substr(text.size() - separator.size()) == separator;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t end = text.find(separator);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + separator.size());
  }
}

// The line behind the one at `at`; the text's size when there is none.
std::size_t next_line(std::string_view text, std::size_t at) {
  const std::size_t end = text.find('\n', at);
  return end == std::string_view::npos ? text.size() : end + 1;
}

}  // namespace

CutRows cut_rows(std::string_view text, std::string_view separator, std::size_t fields) {
  base::check(fields >= 2 && !separator.empty(), "a row has a key, a state and separators");
  CutRows out;
  bool in_damage = false;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view key = key_of(text.substr(at), separator);
    std::size_t next = next_line(text, at);
    bool whole = false;
    if (!key.empty()) {
      // To the line that closes the row, unless the next row begins before.
      while (true) {
        std::string_view row = text.substr(at, next - at);
        if (!row.empty() && row.back() == '\n') row.remove_suffix(1);
        if (closes(row, separator, key)) {
          std::vector<std::string_view> cut = split(row, separator);
          whole = cut.size() == fields + 1;
          cut.pop_back();
          if (whole) out.rows.push_back(std::move(cut));
          break;
        }
        if (next == text.size() || !key_of(text.substr(next), separator).empty()) break;
        next = next_line(text, next);
      }
    }
    // Two rows that each broke are two; the lines around a broken one belong to it.
    const bool empty_line = text[at] == '\n';
    if (!whole && !empty_line && (!in_damage || !key.empty())) ++out.damaged;
    in_damage = !whole && (in_damage || !empty_line);
    at = next;
  }
  return out;
}

}  // namespace regatta::orchestrator::slurm
