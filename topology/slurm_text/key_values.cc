#include "topology/slurm_text/key_values.h"

#include <algorithm>
#include <set>

#include "topology/slurm_text/values.h"

namespace regatta::topology::slurm_text {
namespace {

std::optional<std::string> said(std::string_view value) {
  if (says_nothing(value)) return std::nullopt;
  return std::string(value);
}

}  // namespace

std::map<std::string_view, std::string_view> cut_pairs(std::string_view line, const Keys& keys) {
  struct Found {
    std::string_view key;
    std::size_t begin;  // of the key
  };
  constexpr std::size_t kLongestKey = 40;
  std::vector<Found> found;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t equals = line.substr(at, kLongestKey).find_first_of("= ");
    if (equals != std::string_view::npos && line[at + equals] == '=') {
      const std::string_view key = line.substr(at, equals);
      if (std::binary_search(keys.begin(), keys.end(), key)) found.push_back({key, at});
    }
    const std::size_t space = line.find(' ', at);
    if (space == std::string_view::npos) break;
    at = space + 1;
  }
  std::map<std::string_view, std::string_view> pairs;
  std::set<std::string_view> doubtful;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::size_t begin = found[i].begin + found[i].key.size() + 1;
    const std::size_t end = i + 1 < found.size() ? found[i + 1].begin : line.size();
    std::string_view value = line.substr(begin, end - begin);
    while (!value.empty() && value.back() == ' ') value.remove_suffix(1);
    if (!pairs.emplace(found[i].key, value).second) doubtful.insert(found[i].key);
  }
  for (const std::string_view key : doubtful) pairs.erase(key);
  return pairs;
}

std::string_view Record::all(std::string_view key) const {
  const auto found = pairs_.find(key);
  return found == pairs_.end() ? std::string_view() : found->second;
}

std::string_view Record::word(std::string_view key) const {
  const std::string_view value = all(key);
  return value.substr(0, value.find(' '));
}

std::optional<std::string> Record::text(std::string_view key) const { return said(all(key)); }

std::optional<std::string> Record::text_word(std::string_view key) const { return said(word(key)); }

std::optional<std::int64_t> Record::number(std::string_view key) const {
  return whole_number(word(key));
}

std::optional<double> Record::megabytes(std::string_view key) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 42;
  const auto value = number(key);
  if (!value || *value >= kMost) return std::nullopt;
  return static_cast<double>(*value) * 1024 * 1024;
}

}  // namespace regatta::topology::slurm_text
