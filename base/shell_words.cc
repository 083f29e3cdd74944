#include "base/shell_words.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace regatta::base {
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

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         std::string_view("_-./:=@%+,").find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_word(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) {
    throw Error(Code::User, "'" + printable(text.substr(0, 80)) +
                                "' holds a NUL, which no command can be given; remove it");
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

std::string shown_word(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  // Letters of other scripts are left readable where that hides nothing.
  const std::string shown = printable(text);
  const bool has_nul = text.find('\0') != std::string_view::npos;
  return shown == text || has_nul ? in_quotes(shown) : shell_word(text);
}

std::string shown_command(std::string_view command, std::string_view operand) {
  const bool after_option = split(command, ' ').back().rfind("--", 0) == 0;
  const bool dashed = !after_option && operand.size() > 1 && operand.front() == '-';
  return std::string(command) + (dashed ? " -- " : " ") + shown_word(operand);
}

}  // namespace regatta::base
