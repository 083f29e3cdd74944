#include "trainer/data/documents.h"

#include <algorithm>
#include <array>

#include "base/ascii.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer::data {
namespace {

constexpr std::string_view kBlanks = " \t\r\f\v";

constexpr std::array<std::string_view, 20> kTitles = {
    "Mr",  "Mrs", "Ms",  "Dr",  "St", "Prof", "Gen", "Col", "Capt", "Lt",
    "Sgt", "Rev", "Hon", "Gov", "vs", "No",   "Fig", "Vol", "pp",   "cf"};
constexpr std::array<std::string_view, 3> kIdeographicEnds = {"\u3002", "\uFF01", "\uFF1F"};
constexpr std::array<std::string_view, 10> kClosing = {"\"",     "'",      ")",      "]",      "}",
                                                       "\u201D", "\u2019", "\u00BB", "\u300D", "*"};

[[nodiscard]] bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

// Whether the full stop at `dot` belongs to the word before it.
[[nodiscard]] bool abbreviates(std::string_view line, std::size_t dot) {
  if (dot > 0 && line[dot - 1] == '.') return false;  // an ellipsis
  std::size_t begin = dot;
  while (begin > 0 && (is_letter(line[begin - 1]) || line[begin - 1] == '.')) --begin;
  const std::string_view word = line.substr(begin, dot - begin);
  return word.size() == 1 || word.find('.') != std::string_view::npos ||
         std::find(kTitles.begin(), kTitles.end(), word) != kTitles.end();
}

template <std::size_t N>
[[nodiscard]] std::size_t match_any(std::string_view text,
                                    const std::array<std::string_view, N>& candidates) {
  for (const std::string_view candidate : candidates) {
    if (text.starts_with(candidate)) return candidate.size();
  }
  return 0;
}

// The offset behind the sentence end at `i`, or 0 if none is there.
[[nodiscard]] std::size_t sentence_end(std::string_view line, std::size_t i) {
  const auto skip_closing = [line](std::size_t at) {
    while (const std::size_t length = match_any(line.substr(at), kClosing)) at += length;
    return at;
  };
  if (const std::size_t length = match_any(line.substr(i), kIdeographicEnds)) {
    return skip_closing(i + length);
  }
  const char c = line[i];
  if (c != '.' && c != '!' && c != '?') return 0;
  if (c == '.' && abbreviates(line, i)) return 0;
  const std::size_t end = skip_closing(i + 1);
  const std::size_t next = line.find_first_not_of(kBlanks, end);
  if (next == std::string_view::npos) return line.size();
  if (next == end || (line[next] >= 'a' && line[next] <= 'z')) return 0;
  return end;
}

}  // namespace

std::size_t last_document_break(std::string_view text) {
  std::size_t end = text.rfind('\n');  // of the line under test
  while (end != std::string_view::npos) {
    const std::size_t before = end == 0 ? std::string_view::npos : text.rfind('\n', end - 1);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    if (base::trimmed(text.substr(begin, end - begin), kBlanks).empty()) return end + 1;
    end = before;
  }
  return 0;
}

std::int64_t split_documents(std::string_view text, std::vector<std::string>& documents,
                             TextLines* lines) {
  std::int64_t invalid = 0;
  TextLines seen;
  std::string document;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = base::trimmed(text.substr(begin, end - begin), kBlanks);
    begin = end + 1;
    ++(line.empty() ? seen.blank : seen.lines);
    if (line.starts_with('{')) ++seen.braced;
    if (!line.empty()) {
      if (!document.empty()) document.push_back('\n');
      invalid += unicode::append_valid_utf8(line, document);
    } else if (!document.empty()) {
      documents.push_back(std::move(document));
      document.clear();
    }
  }
  if (!document.empty()) documents.push_back(std::move(document));
  if (lines != nullptr) {
    lines->lines += seen.lines;
    lines->blank += seen.blank;
    lines->braced += seen.braced;
  }
  return invalid;
}

std::int64_t append_document(std::string_view text, std::string& document) {
  std::int64_t invalid = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = base::trimmed(text.substr(begin, end - begin), kBlanks);
    begin = end + 1;
    if (line.empty()) continue;
    if (!document.empty()) document.push_back('\n');
    invalid += unicode::append_valid_utf8(line, document);
  }
  return invalid;
}

void split_sentences(std::string_view line, std::vector<std::string_view>& sentences) {
  std::size_t begin = 0;
  const auto add = [&](std::size_t end) {
    const std::string_view sentence = base::trimmed(line.substr(begin, end - begin), kBlanks);
    if (!sentence.empty()) sentences.push_back(sentence);
    begin = end;
  };
  // The bytes that an end can begin with.
  constexpr std::string_view kEndBytes = ".!?\xE3\xEF";
  for (std::size_t i = line.find_first_of(kEndBytes); i != std::string_view::npos;
       i = line.find_first_of(kEndBytes, i)) {
    const std::size_t end = sentence_end(line, i);
    if (end == 0) {
      ++i;
    } else {
      add(end);
      i = end;
    }
  }
  add(line.size());
}

}  // namespace regatta::trainer::data
