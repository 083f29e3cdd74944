// What the states of nodes and jobs have in common: words between "+" or ",", each a base or a flag
// of a table. For their parsers only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace regatta::topology::slurm_text {

constexpr std::size_t kMostStateBytes = 256;

template <class T>
struct StateWord {
  std::string_view name;
  T value;
};

template <class T, std::size_t N>
const StateWord<T>* find_word(const StateWord<T> (&words)[N], std::string_view name) {
  for (const StateWord<T>& word : words) {
    if (word.name == name) return &word;
  }
  return nullptr;
}

template <class T, std::size_t N>
std::string_view name_of(const StateWord<T> (&words)[N], T value) {
  for (const StateWord<T>& word : words) {
    if (word.value == value) return word.name;
  }
  return {};
}

template <class F>
std::uint32_t flag_bit(F flag) {
  return 1U << static_cast<std::uint32_t>(flag);
}

// Without empty ones.
[[nodiscard]] std::vector<std::string> state_words(std::string_view text);

// The known flags in the order of the table, then "UNKNOWN(word)".
template <class F, std::size_t N>
std::string state_text(std::string_view base, std::uint32_t flags, const StateWord<F> (&table)[N],
                       const std::vector<std::string>& unknown) {
  std::vector<std::string> parts;
  if (!base.empty()) parts.emplace_back(base);
  for (const StateWord<F>& word : table) {
    if ((flags & flag_bit(word.value)) == 0) continue;
    flags &= ~flag_bit(word.value);  // a flag may have several words
    parts.emplace_back(word.name);
  }
  for (const std::string& word : unknown) parts.push_back("UNKNOWN(" + base::printable(word) + ")");
  return parts.empty() ? "UNKNOWN" : base::join(parts, "+");
}

}  // namespace regatta::topology::slurm_text
