#include "topology/graph/hostlist.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace regatta::topology::graph {
namespace {

// Numbers of at most 18 digits fit 64 bits whatever their digits.
constexpr std::size_t kMostDigits = 18;
constexpr std::size_t kShownBytes = 80;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  std::string shown = base::printable(text.substr(0, kShownBytes));
  if (text.size() > kShownBytes) shown += "…";
  throw base::Error(base::Code::User, "cannot read the node list \"" + shown + "\": " + why);
}

bool is_name_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
         c == '-';
}

std::string padded(std::uint64_t value, std::size_t width) {
  std::string digits = std::to_string(value);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t width = 0;
};

// One piece of a name: either fixed text or a choice of numbers.
struct Piece {
  std::string text;
  std::vector<Range> ranges;
};

class HostlistReader {
 public:
  HostlistReader(std::string_view text, std::size_t most) : text_(text), most_(most) {}

  std::vector<std::string> names() {
    while (true) {
      append(name());
      if (at_ == text_.size()) return std::move(names_);
      ++at_;  // the comma that ended the name
    }
  }

 private:
  std::vector<Piece> name() {
    std::vector<Piece> pieces;
    while (at_ < text_.size() && text_[at_] != ',') {
      const char c = text_[at_];
      if (c == '[') {
        pieces.push_back(group());
      } else if (is_name_character(c)) {
        if (pieces.empty() || !pieces.back().ranges.empty()) pieces.emplace_back();
        pieces.back().text += c;
        ++at_;
      } else if (c == '{' || c == '}') {
        refuse(text_, "hostlist functions are not understood; write the names out");
      } else {
        refuse(text_, "'" + base::printable(std::string_view(&text_[at_], 1)) +
                          "' cannot stand in a name");
      }
    }
    if (pieces.empty()) refuse(text_, "there is a comma without a name");
    if (!pieces.front().text.empty() && pieces.front().text.front() == '-') {
      refuse(text_, "a name cannot begin with '-'");
    }
    return pieces;
  }

  Piece group() {
    Piece piece;
    do {
      ++at_;  // '[' or ','
      Range range;
      range.first = number(&range.width);
      range.last = range.first;
      if (at_ < text_.size() && text_[at_] == '-') {
        ++at_;
        std::size_t ignored = 0;
        range.last = number(&ignored);
      }
      if (range.last < range.first) refuse(text_, "a range runs downwards");
      piece.ranges.push_back(range);
      if (piece.ranges.size() > most_) refuse(text_, too_many());
    } while (at_ < text_.size() && text_[at_] == ',');
    if (at_ == text_.size()) refuse(text_, "a bracket is not closed");
    if (text_[at_] != ']') refuse(text_, "brackets hold numbers, ranges and commas only");
    ++at_;
    return piece;
  }

  std::uint64_t number(std::size_t* width) {
    const std::size_t begin = at_;
    std::uint64_t value = 0;
    while (at_ < text_.size() && is_digit(text_[at_])) {
      if (at_ - begin == kMostDigits) refuse(text_, "a number has more than 18 digits");
      value = 10 * value + static_cast<std::uint64_t>(text_[at_] - '0');
      ++at_;
    }
    if (at_ == begin) refuse(text_, "a number is missing in brackets");
    *width = at_ - begin;
    return value;
  }

  std::string too_many() const { return "it names more than " + std::to_string(most_) + " nodes"; }

  // Counts before it makes anything: the product of the groups may be astronomically large.
  void append(const std::vector<Piece>& pieces) {
    std::uint64_t count = 1;
    const std::uint64_t room = most_ - names_.size();
    for (const Piece& piece : pieces) {
      if (piece.ranges.empty()) continue;
      std::uint64_t choices = 0;
      for (const Range& range : piece.ranges) {
        choices = std::min(choices + (range.last - range.first + 1), room + 1);
      }
      count *= choices;  // below 2^34, since both stay at most 2^16 + 1
      if (count > room) refuse(text_, too_many());
    }
    if (count > room) refuse(text_, too_many());
    std::vector<std::string> made = {""};
    for (const Piece& piece : pieces) {
      if (piece.ranges.empty()) {
        for (std::string& start : made) start += piece.text;
        continue;
      }
      std::vector<std::string> longer;
      for (const std::string& start : made) {
        for (const Range& range : piece.ranges) {
          for (std::uint64_t i = range.first; i <= range.last; ++i) {
            longer.push_back(start + padded(i, range.width));
          }
        }
      }
      made = std::move(longer);
    }
    for (std::string& one : made) names_.push_back(std::move(one));
  }

  std::string_view text_;
  std::size_t most_;
  std::size_t at_ = 0;
  std::vector<std::string> names_;
};

// The numbers behind one prefix, as Slurm writes them: "1-3,07-09".
std::string folded(const std::set<std::pair<std::size_t, std::uint64_t>>& numbers) {
  std::string out;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const std::size_t width = at->first;
    const std::uint64_t first = at->second;
    std::uint64_t last = first;
    // 9 goes on as 10, 09 as 10, but 09 not as 010: a member must be its value padded to the width
    // of the first one.
    for (++at; at != numbers.end() && at->second == last + 1 &&
               at->first == padded(at->second, width).size();
         ++at) {
      last = at->second;
    }
    if (!out.empty()) out += ',';
    out += padded(first, width);
    if (last != first) out += '-' + padded(last, width);
  }
  return out;
}

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text, std::size_t most) {
  base::check(most <= kMostHosts, "no bound above the largest cluster");
  if (text.empty() || text == "(null)" || text == "None assigned") return {};
  return HostlistReader(text, most).names();
}

std::string compress_hosts(const std::vector<std::string>& names) {
  // By prefix: (digits, value). Names without a number at their end stand under their own text.
  std::map<std::string, std::set<std::pair<std::size_t, std::uint64_t>>> groups;
  for (const std::string& name : names) {
    if (name.empty() || name.front() == '-') refuse(name, "it is not a node's name");
    for (const char c : name) {
      if (!is_name_character(c)) refuse(name, "it is not a node's name");
    }
    std::size_t digits = 0;
    while (digits < name.size() && is_digit(name[name.size() - 1 - digits])) ++digits;
    digits = std::min(digits, kMostDigits);
    const std::size_t prefix = name.size() - digits;
    auto& group = groups[name.substr(0, prefix)];
    const std::uint64_t value =
        digits == 0 ? 0 : static_cast<std::uint64_t>(*base::parse_integer(name.substr(prefix)));
    group.emplace(digits, value);
  }
  std::vector<std::string> parts;
  for (auto& [prefix, numbers] : groups) {
    if (numbers.erase({0, 0}) != 0) parts.push_back(prefix);
    if (numbers.empty()) continue;
    const std::string inside = folded(numbers);
    const bool single = numbers.size() == 1;
    parts.push_back(single ? prefix + inside : prefix + "[" + inside + "]");
  }
  return base::join(parts, ",");
}

}  // namespace regatta::topology::graph
