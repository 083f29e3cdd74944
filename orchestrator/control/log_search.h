// A search for a pattern in a log of any length, in parts of bounded cost.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace re2 {
class RE2;
}

namespace regatta::orchestrator::control {

enum class LetterCase { Same, Any };

// A regular expression of RE2: its time is linear in the text, whatever the pattern.
class LogPattern {
 public:
  // Code::User, with what is wrong with it.
  LogPattern(const std::string& pattern, LetterCase letters);
  ~LogPattern();
  LogPattern(const LogPattern&) = delete;
  LogPattern& operator=(const LogPattern&) = delete;

  // What is no UTF-8 counts as the U+FFFD that JSON has for it.
  [[nodiscard]] bool is_in(std::string_view line) const;

 private:
  std::unique_ptr<re2::RE2> expression_;
};

// Where a search goes on.
struct SearchPlace {
  std::uint64_t offset = 0;  // of the begin of a line, or of a piece of a long one
  std::int64_t line = 1;     // its number
  std::int64_t wanted = 0;   // lines that are still to come after the last match

  [[nodiscard]] std::string text() const;  // "1200.37.2"
  bool operator==(const SearchPlace&) const = default;
};
[[nodiscard]] std::optional<SearchPlace> parse_place(const std::string& text);

struct SearchedLine {
  std::uint64_t offset = 0;
  std::int64_t number = 0;  // counted from 1
  std::string text;         // without its line break, LF or CR LF
  bool is_match = false;
};
struct SearchPart {
  std::vector<SearchedLine> lines;  // matches and the lines around them, in order, each once
  std::uint64_t scanned_bytes = 0;
  std::optional<SearchPlace> next;  // nothing: the log was searched to its end
};

struct SearchLimits {
  std::int64_t context = 0;  // lines before and after a match
  std::int64_t most_matches = 100;
  std::uint64_t most_bytes = 16 << 20;         // that are read
  std::uint64_t most_text_bytes = 512 * 1024;  // of lines that are found
  double seconds = 1;
};
// A line is searched, counted as context and sent in pieces of so many bytes; what would match
// across two pieces is not found.
inline constexpr std::size_t kSearchedPiece = 16 * 1024;

// At most `limit` bytes from `offset`, fewer at the log's end.
using ReadLog = std::function<std::string(std::uint64_t offset, std::uint64_t limit)>;

// Ends at a limit, and then says where to go on; the parts together are what one search would give.
[[nodiscard]] SearchPart search_log(const LogPattern& pattern, const ReadLog& read,
                                    SearchPlace from, const SearchLimits& limits,
                                    base::Clock& clock);

}  // namespace regatta::orchestrator::control
