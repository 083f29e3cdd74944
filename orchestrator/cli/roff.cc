#include "orchestrator/cli/roff.h"

#include "base/text.h"
#include "base/wording.h"

namespace regatta::orchestrator::cli {
namespace {

// Of an ASCII character.
std::string escape_of(char letter) {
  switch (letter) {
    case '\\':
      return "\\(rs";
    case '\'':
      return "\\(aq";
    case '`':
      return "\\(ga";
    case '^':
      return "\\(ha";
    case '~':
      return "\\(ti";
    case '"':
      return "\\(dq";
    default:
      return {letter};
  }
}

// A character that is not ASCII, from `at` on; *at is then its last byte.
std::string unicode_escape(const std::string& text, std::size_t* at) {
  const auto lead = static_cast<unsigned char>(text[*at]);
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  unsigned code = lead & (0x3FU >> static_cast<unsigned>(more));
  for (int i = 0; i < more && *at + 1 < text.size(); ++i) {
    code = code << 6U | (static_cast<unsigned char>(text[++*at]) & 0x3FU);
  }
  constexpr unsigned kEllipsis = 0x2026;  // not every device has one
  return code == kEllipsis ? "..." : base::formatted("\\[u%04X]", code);
}

// dash: what "-" becomes.
std::string escaped(const std::string& text, const char* dash) {
  const std::string shown = base::printable(text);
  std::string made;
  for (std::size_t at = 0; at < shown.size(); ++at) {
    if (static_cast<unsigned char>(shown[at]) >= 0x80) {
      made += unicode_escape(shown, &at);
    } else if (shown[at] == '-') {
      made += dash;
    } else {
      made += escape_of(shown[at]);
    }
  }
  return made;
}

// Words that begin with a dash, even after a bracket, are options.
std::string prose(const std::string& text) {
  std::vector<std::string> words = base::split(text, ' ');
  for (std::string& word : words) {
    const std::size_t first = word.find_first_not_of("([{");
    const bool is_option = first != std::string::npos && word[first] == '-' && word.size() > 1;
    word = is_option ? roff_code(word) : escaped(word, "-");
  }
  return base::join(words, " ");
}

}  // namespace

std::string roff_code(const std::string& text) { return escaped(text, "\\-"); }

std::string roff_bold(const std::string& code) { return "\\fB" + roff_code(code) + "\\fR"; }
std::string roff_italic(const std::string& code) { return "\\fI" + roff_code(code) + "\\fR"; }

std::string roff_text(const std::string& text) {
  // Every other piece is code; a backtick without its partner begins none.
  const std::vector<std::string> pieces = base::split(text, '`');
  std::string made;
  for (std::size_t at = 0; at < pieces.size(); ++at) {
    const bool is_code = at % 2 == 1 && at + 1 < pieces.size();
    if (at % 2 == 1 && !is_code) made += "\\(ga";
    made += is_code ? roff_bold(pieces[at]) : prose(pieces[at]);
  }
  return made;
}

std::string roff_line(const std::string& roff) {
  return (roff.rfind('.', 0) == 0 ? "\\&" : "") + roff + "\n";
}

}  // namespace regatta::orchestrator::cli
