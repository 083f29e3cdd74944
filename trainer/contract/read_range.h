// Reading numbers of a run file that have limits.
#pragma once

#include <charconv>
#include <string>
#include <type_traits>

#include "base/document.h"
#include "base/error.h"

namespace regatta::trainer::contract {

// The shortest text that reads back as this number.
template <typename Number>
[[nodiscard]] std::string text_of(Number value) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  base::check(error == std::errc{}, "64 characters hold every number");
  return {text, end};
}

enum class Ends { Closed, OpenLow, OpenHigh, Open };

// Reads `key` and fails unless it lies between `low` and `high`; `ends` leaves out the named ends.
template <typename Number>
void read_range(base::Table& table, const std::string& key, Number* value,
                std::common_type_t<Number> low, std::common_type_t<Number> high,
                Ends ends = Ends::Closed) {
  table.read(key, value);
  table.note_range(key, static_cast<double>(low), static_cast<double>(high),
                   ends == Ends::OpenLow || ends == Ends::Open,
                   ends == Ends::OpenHigh || ends == Ends::Open);
  const bool open_low = ends == Ends::OpenLow || ends == Ends::Open;
  const bool open_high = ends == Ends::OpenHigh || ends == Ends::Open;
  const bool inside =
      (open_low ? *value > low : *value >= low) && (open_high ? *value < high : *value <= high);
  if (inside) return;
  table.fail(key, "is " + text_of(*value) + "; use " + (open_low ? "more than " : "") +
                      text_of(low) + (open_high ? " to less than " : " to ") + text_of(high));
}

}  // namespace regatta::trainer::contract
