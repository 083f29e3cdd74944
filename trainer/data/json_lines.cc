#include "trainer/data/json_lines.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "base/text.h"
#include "trainer/data/unicode.h"

namespace regatta::trainer::data {
namespace {

constexpr std::string_view kLineBlanks = " \t\r\f\v";  // as a blank line of text may have
constexpr std::string_view kDigits = "0123456789";

// What ends the quick way through a string: its end, an escape, a control character.
constexpr std::array<bool, 256> kStopsString = [] {
  std::array<bool, 256> stops{};
  for (std::size_t c = 0; c < ' '; ++c) stops[c] = true;
  stops['"'] = stops['\\'] = true;
  return stops;
}();

// A string between its quotes, as it is written.
struct RawString {
  std::string_view text;
  bool has_escapes = false;
};

// Four hexadecimal digits at the start of `text`; nothing where there are none.
[[nodiscard]] std::optional<char32_t> hex_unit(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  char32_t unit = 0;
  for (const char c : text.substr(0, 4)) {
    unit <<= 4U;
    if (c >= '0' && c <= '9') {
      unit += static_cast<char32_t>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
      unit += static_cast<char32_t>((c | 0x20) - 'a') + 10;
    } else {
      return std::nullopt;
    }
  }
  return unit;
}

[[nodiscard]] bool is_high(char32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
[[nodiscard]] bool is_low(char32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

// The text behind "\u", whose digits are known to be there: appends its character and returns how
// many bytes it takes, the other half of a pair included. Counts in `lone` what has no other half.
[[nodiscard]] std::size_t append_unit(std::string_view text, std::string& out, std::int64_t& lone) {
  const char32_t unit = *hex_unit(text);
  if (!is_high(unit) && !is_low(unit)) {
    unicode::append_utf8(unit, out);
    return 4;
  }
  if (is_high(unit) && text.substr(4).starts_with("\\u")) {
    const char32_t low = *hex_unit(text.substr(6));
    if (is_low(low)) {
      unicode::append_utf8(0x10000 + ((unit - 0xD800) << 10U) + (low - 0xDC00), out);
      return 10;
    }
  }
  ++lone;
  unicode::append_utf8(unicode::kReplacement, out);
  return 4;
}

// Appends what a string of a valid line means; returns how many surrogates stand alone.
std::int64_t append_decoded(std::string_view text, std::string& out) {
  std::int64_t lone = 0;
  for (;;) {
    const std::size_t plain = std::min(text.find('\\'), text.size());
    out.append(text.substr(0, plain));
    if (plain == text.size()) return lone;
    const char escape = text[plain + 1];
    text.remove_prefix(plain + 2);
    constexpr std::string_view kLetters = "bfnrt";
    constexpr std::string_view kMeanings = "\b\f\n\r\t";
    const std::size_t letter = kLetters.find(escape);
    if (escape == 'u') {
      text.remove_prefix(append_unit(text, out, lone));
    } else {
      out.push_back(letter == std::string_view::npos ? escape : kMeanings[letter]);
    }
  }
}

// Goes once over one line. Nothing is built but the places of the field and of some keys.
class LineScanner {
 public:
  LineScanner(std::string_view line, std::string_view field) : line_(line), field_(field) {}

  // Whether the line is a JSON object whose field is a text; else what() and at() tell why not.
  [[nodiscard]] bool scan() {
    skip_space();
    const std::size_t start = at_;
    if (!take('{')) return fail("not a JSON object");
    enter('}');
    while (depth_ > 0) {
      if (!step()) return false;
    }
    skip_space();
    if (at_ < line_.size()) return fail("something stands behind the JSON object");
    if (found_ == Found::Text) return true;
    at_ = found_ == Found::Other ? other_at_ : start;
    return fail(found_ == Found::Other ? "field " + quoted(field_) + " is not a text" : missing());
  }
  [[nodiscard]] const RawString& text() const { return text_; }
  [[nodiscard]] const std::string& what() const { return what_; }
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  enum class Found { Nothing, Text, Other };
  static constexpr std::size_t kNamedKeys = 6;

  // One member or element, or the end of the innermost object or list.
  [[nodiscard]] bool step() {
    skip_space();
    const char closer = closers_[depth_ - 1];
    if (take(closer)) {
      --depth_;
      is_first_ = false;
      return true;
    }
    if (!is_first_ && !take(',')) return no_json(closer == '}' ? "',' or '}'" : "',' or ']'");
    is_first_ = false;
    is_field_ = false;
    return (closer == ']' || key()) && value();
  }

  [[nodiscard]] bool key() {
    skip_space();
    RawString key;
    if (!take('"')) return no_json("a name in quotes");
    if (!string(key)) return false;
    if (depth_ == 1) {
      is_field_ = is_same(key);
      if (keys_ < kNamedKeys) named_[keys_] = key.text;
      ++keys_;
    }
    skip_space();
    return take(':') || no_json("':'");
  }

  [[nodiscard]] bool is_same(const RawString& key) const {
    if (!key.has_escapes) return key.text == field_;
    std::string decoded;
    append_decoded(key.text, decoded);
    return decoded == field_;
  }

  [[nodiscard]] bool value() {
    skip_space();
    const bool is_field = std::exchange(is_field_, false);
    if (is_field) {
      found_ = Found::Other;
      other_at_ = at_;
    }
    if (take('"')) {
      RawString text;
      if (!string(text)) return false;
      if (is_field) {
        found_ = Found::Text;
        text_ = text;
      }
      return true;
    }
    const char first = at_ < line_.size() ? line_[at_] : '\0';
    if (first == '{' || first == '[') {
      if (depth_ == kDeepestJson) {
        return fail("nests deeper than " + std::to_string(kDeepestJson) + " levels");
      }
      ++at_;
      enter(first == '{' ? '}' : ']');
      return true;
    }
    for (const std::string_view word : {"true", "false", "null"}) {
      if (line_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return true;
      }
    }
    return number();
  }

  [[nodiscard]] bool number() {
    const bool is_negative = take('-');
    if (!take('0') && !digits()) return no_json(is_negative ? "a digit" : "a value");
    if (take('.') && !digits()) return no_json("a digit");
    if (!take('e') && !take('E')) return true;
    if (!take('+')) (void)take('-');
    return digits() || no_json("a digit");
  }
  [[nodiscard]] bool digits() {
    const std::size_t end = std::min(line_.find_first_not_of(kDigits, at_), line_.size());
    return std::exchange(at_, end) < end;
  }

  // Behind its opening quote.
  [[nodiscard]] bool string(RawString& out) {
    const std::size_t begin = at_;
    for (;;) {
      while (at_ < line_.size() && !kStopsString[static_cast<unsigned char>(line_[at_])]) ++at_;
      if (at_ == line_.size()) return no_json("'\"'");
      if (line_[at_] == '"') break;
      if (line_[at_] != '\\') return fail("not JSON: a control character in a string");
      out.has_escapes = true;
      const char escape = at_ + 1 < line_.size() ? line_[at_ + 1] : '\0';
      const bool is_unit = escape == 'u';
      if (is_unit ? !hex_unit(line_.substr(at_ + 2)) : !is_escape(escape)) {
        return fail("not JSON: an escape that does not exist");
      }
      at_ += is_unit ? 6 : 2;
    }
    out.text = line_.substr(begin, at_ - begin);
    ++at_;
    return true;
  }
  [[nodiscard]] static bool is_escape(char c) {
    return c != '\0' && std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
  }

  void enter(char closer) {
    closers_[depth_++] = closer;
    is_first_ = true;
  }
  void skip_space() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) {
      ++at_;
    }
  }
  [[nodiscard]] bool take(char c) {
    if (at_ == line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }

  [[nodiscard]] bool no_json(std::string_view expected) {
    return fail("not JSON: " + std::string(expected) + " is expected " +
                (at_ < line_.size() ? "here" : "where the line ends"));
  }
  [[nodiscard]] bool fail(std::string what) {
    what_ = std::move(what);
    return false;
  }
  // A key or field as it may stand in a message.
  [[nodiscard]] static std::string quoted(std::string_view name) {
    constexpr std::size_t kMostShown = 40;
    const bool is_long = name.size() > kMostShown;
    return "'" + base::printable(name.substr(0, kMostShown)) + (is_long ? "…'" : "'");
  }
  [[nodiscard]] std::string missing() const {
    std::string what = "no field " + quoted(field_);
    for (std::size_t i = 0; i < std::min(keys_, kNamedKeys); ++i) {
      what += (i == 0 ? "; the line has " : ", ") + quoted(named_[i]);
    }
    return what + (keys_ > kNamedKeys ? ", …" : "");
  }

  std::string_view line_, field_;
  std::size_t at_ = 0;
  std::array<char, kDeepestJson> closers_{};  // of what is open
  std::size_t depth_ = 0;
  bool is_first_ = false;  // nothing stands yet in the innermost
  bool is_field_ = false;  // the value that comes is the field's
  Found found_ = Found::Nothing;
  RawString text_;
  std::size_t other_at_ = 0;
  std::array<std::string_view, kNamedKeys> named_;
  std::size_t keys_ = 0;  // of the object
  std::string what_;
};

void add_text(const RawString& raw, std::string& scratch, BlockDocuments& made) {
  std::string_view text = raw.text;
  if (raw.has_escapes) {
    scratch.clear();
    made.invalid_sequences += append_decoded(text, scratch);
    text = scratch;
  }
  std::string document;
  made.invalid_sequences += append_document(text, document);
  if (document.empty()) {
    ++made.empty;
  } else {
    made.documents.push_back(std::move(document));
  }
}

[[nodiscard]] std::int64_t column_of(std::string_view line, std::size_t at) {
  const std::string_view before = line.substr(0, at);
  return 1 + std::count_if(before.begin(), before.end(), [](char c) {
           return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // begins a character
         });
}

}  // namespace

BlockDocuments split_json_lines(std::string_view text, std::string_view field) {
  BlockDocuments made;
  std::string scratch;
  for (std::size_t begin = 0; begin < text.size(); ++made.lines) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (base::trimmed(line, kLineBlanks).empty()) continue;
    LineScanner scanner(line, field);
    if (scanner.scan()) {
      add_text(scanner.text(), scratch, made);
    } else if (made.broken++ == 0) {
      made.first_broken = {made.lines + 1, column_of(line, scanner.at()), scanner.what()};
    }
  }
  return made;
}

}  // namespace regatta::trainer::data
