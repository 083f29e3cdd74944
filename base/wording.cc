#include "base/wording.h"

#include <cstdarg>
#include <cstdio>

namespace regatta::base {

std::string plural_noun(std::string_view noun) {
  const bool hisses =
      noun.ends_with("ch") || noun.ends_with("sh") || noun.ends_with("s") || noun.ends_with("x");
  return std::string(noun) + (hisses ? "es" : "s");
}

std::string percent(double share) {
  const std::string text = formatted("%.1f %%", 100 * share);
  return text == "-0.0 %" ? text.substr(1) : text;
}

std::string short_number(double value, int digits) { return formatted("%.*g", digits, value); }

std::string formatted(const char* format, ...) {
  va_list values, again;
  va_start(values, format);
  va_copy(again, values);
  const int size = std::vsnprintf(nullptr, 0, format, values);
  va_end(values);
  std::string text(size < 0 ? 0 : static_cast<std::size_t>(size), '\0');
  if (!text.empty()) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

}  // namespace regatta::base
