#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::trainer::contract {

// How long samples are: shares of length ranges, lengths even within a range. Text form: lines
// `low,high,fraction` (tokens, inclusive; fractions need not add up to 1), `#` starts a comment.
class LengthTable {
 public:
  // Throws Code::User with "source:line: …".
  [[nodiscard]] static LengthTable parse(std::string_view text, const std::string& source);

  [[nodiscard]] double mean() const;
  [[nodiscard]] std::int64_t longest() const;
  // The length below which a share `u` of [0, 1) of the samples lies.
  [[nodiscard]] std::int64_t quantile(double u) const;
  // `count` lengths in these shares, ascending.
  [[nodiscard]] std::vector<std::int32_t> evenly(int count) const;

 private:
  struct Range {
    std::int64_t low = 0;
    std::int64_t high = 0;
    double fraction = 0;  // normalised
  };
  std::vector<Range> ranges_;
};

}  // namespace regatta::trainer::contract
