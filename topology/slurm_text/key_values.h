// "Key=value Key=value …" on one line, as scontrol prints a record. No separator and no quotes: a
// value may have spaces, and what people wrote may imitate keys.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::topology::slurm_text {

using Keys = std::vector<std::string_view>;  // sorted

// A value runs to the next of `keys`; a key that comes more than once is left out, since one of the
// two may be somebody's text. Views of `line`.
[[nodiscard]] std::map<std::string_view, std::string_view> cut_pairs(std::string_view line,
                                                                     const Keys& keys);

// One line's values; `line` outlives it. Every value may be absent: "" for views.
class Record {
 public:
  Record(std::string_view line, const Keys& keys) : pairs_(cut_pairs(line, keys)) {}

  [[nodiscard]] std::string_view all(std::string_view key) const;
  // The value up to its first space, for what never has one; so a key of a later release behind it
  // does no harm.
  [[nodiscard]] std::string_view word(std::string_view key) const;
  // As all() and word(), absent where Slurm says nothing.
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> text_word(std::string_view key) const;
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view key) const;  // not negative
  // Bytes of a figure in Slurm's megabytes of 2^20 bytes; below 2^62.
  [[nodiscard]] std::optional<double> megabytes(std::string_view key) const;

 private:
  std::map<std::string_view, std::string_view> pairs_;
};

}  // namespace regatta::topology::slurm_text
