#include "orchestrator/control/log_search.h"

#include <re2/re2.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace regatta::orchestrator::control {
namespace {

constexpr std::uint64_t kChunk = 1 << 20;
// Bounds the program, and with it what a byte of text costs where a pattern is hostile.
constexpr std::int64_t kPatternMemory = 512 * 1024;

// RE2 matches bytes that are no UTF-8 by nothing, not even `.`; what answers have for them it does.
std::string as_shown(std::string_view line) {
  return base::parse_json<nlohmann::json>(base::json_text(nlohmann::json(line))).get<std::string>();
}

// The lines of a log from some place on, in pieces.
class Lines {
 public:
  Lines(const ReadLog& read, const SearchPlace& from)
      : read_(read), offset_(from.offset), number_(from.line) {}

  // The next one; nothing at the log's end.
  std::optional<SearchedLine> next() {
    fill();
    const std::string_view rest = std::string_view(buffer_).substr(at_);
    if (rest.empty()) return std::nullopt;
    std::size_t length = rest.substr(0, kSearchedPiece + 1).find('\n');
    const bool broken = length != std::string_view::npos;
    if (!broken) length = std::min(rest.size(), kSearchedPiece);
    SearchedLine line{offset_, number_, std::string(rest.substr(0, length)), false};
    if (broken && !line.text.empty() && line.text.back() == '\r') line.text.pop_back();
    if (broken) ++number_;
    const std::size_t whole = length + (broken ? 1 : 0);
    at_ += whole;
    offset_ += whole;
    return line;
  }
  [[nodiscard]] SearchPlace place() const { return {offset_, number_, 0}; }

 private:
  // So that a whole piece is there, where the log has one.
  void fill() {
    if (ended_ || buffer_.size() - at_ > kSearchedPiece) return;
    buffer_.erase(0, at_);
    at_ = 0;
    const std::string more = read_(offset_ + buffer_.size(), kChunk);
    ended_ = more.size() < kChunk;
    buffer_ += more;
  }

  const ReadLog& read_;
  std::string buffer_;
  std::size_t at_ = 0;
  std::uint64_t offset_;
  std::int64_t number_;
  bool ended_ = false;
};

}  // namespace

LogPattern::LogPattern(const std::string& pattern, LetterCase letters) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_case_sensitive(letters == LetterCase::Same);
  options.set_max_mem(kPatternMemory);
  expression_ = std::make_unique<re2::RE2>(pattern, options);
  if (!expression_->ok()) {
    throw base::Error(base::Code::User, "not a regular expression that RE2 takes: " +
                                            base::printable(expression_->error()));
  }
}
LogPattern::~LogPattern() = default;

bool LogPattern::is_in(std::string_view line) const {
  if (!base::is_utf8(line)) return is_in(as_shown(line));
  return re2::RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), *expression_);
}

std::string SearchPlace::text() const {
  return std::to_string(offset) + "." + std::to_string(line) + "." + std::to_string(wanted);
}

std::optional<SearchPlace> parse_place(const std::string& text) {
  const std::vector<std::string> parts = base::split(text, '.');
  if (parts.size() != 3) return std::nullopt;
  std::int64_t numbers[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto number = base::parse_integer(parts[i]);
    if (!number || *number < 0 || *number > std::numeric_limits<std::int64_t>::max() / 2) {
      return std::nullopt;
    }
    numbers[i] = *number;
  }
  const SearchPlace place{static_cast<std::uint64_t>(numbers[0]), numbers[1], numbers[2]};
  if (place.text() != text || place.line < 1)
    return std::nullopt;  // "07" is nothing that was given
  return place;
}

SearchPart search_log(const LogPattern& pattern, const ReadLog& read, SearchPlace from,
                      const SearchLimits& limits, base::Clock& clock) {
  const double begin = clock.monotonic_seconds();
  SearchPart part;
  Lines lines(read, from);
  std::deque<SearchedLine> before;
  std::int64_t wanted = std::min(from.wanted, limits.context), matches = 0, seen = 0;
  std::uint64_t text_bytes = 0;
  const auto take = [&](SearchedLine line) {
    text_bytes += line.text.size();
    part.lines.push_back(std::move(line));
  };
  for (;;) {
    SearchPlace here = lines.place();
    here.wanted = wanted;
    part.scanned_bytes = here.offset - from.offset;
    // Lines before a match that may follow are read once more; some line is always left behind.
    const bool full = matches >= limits.most_matches || text_bytes > limits.most_text_bytes;
    const bool late = seen > limits.context && (part.scanned_bytes >= limits.most_bytes ||
                                                clock.monotonic_seconds() - begin > limits.seconds);
    if (full || late) {
      if (!before.empty()) here = {before.front().offset, before.front().number, 0};
      part.next = here;
      return part;
    }
    auto line = lines.next();
    if (!line) return part;
    ++seen;
    line->is_match = pattern.is_in(line->text);
    if (line->is_match) {
      for (SearchedLine& each : before) take(std::move(each));
      before.clear();
      take(std::move(*line));
      ++matches;
      wanted = limits.context;
    } else if (wanted > 0) {
      take(std::move(*line));
      --wanted;
    } else if (limits.context > 0) {
      before.push_back(std::move(*line));
      if (static_cast<std::int64_t>(before.size()) > limits.context) before.pop_front();
    }
  }
}

}  // namespace regatta::orchestrator::control
