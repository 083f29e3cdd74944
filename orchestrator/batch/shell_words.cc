#include "orchestrator/batch/shell_words.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::batch {
namespace {

bool is_printable(char c) { return c >= 0x20 && c < 0x7F; }

// 'text': nothing within has a meaning; a quote ends it, stands escaped, and begins it again.
std::string in_quotes(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

// $'text': any byte by its three octal digits, which no following digit can prolong.
std::string in_octal(std::string_view text) {
  std::string word = "$'";
  for (const char c : text) {
    if (is_printable(c) && c != '\'' && c != '\\') {
      word += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    word += '\\';
    for (const unsigned shift : {6U, 3U, 0U})
      word += static_cast<char>('0' + ((byte >> shift) & 7U));
  }
  return word + "'";
}

}  // namespace

std::string shell_word(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) {
    throw base::Error(base::Code::User, "'" + base::printable(text.substr(0, 80)) +
                                            "' holds a NUL, which no command can be given; "
                                            "remove it");
  }
  return std::all_of(text.begin(), text.end(), is_printable) ? in_quotes(text) : in_octal(text);
}

std::string shell_words(const std::vector<std::string>& texts) {
  std::string words;
  for (const std::string& text : texts) {
    if (!words.empty()) words += ' ';
    words += shell_word(text);
  }
  return words;
}

}  // namespace regatta::orchestrator::batch
