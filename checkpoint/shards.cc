#include "checkpoint/shards.h"

#include <cstdio>
#include <map>
#include <set>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"

namespace regatta::checkpoint {
namespace {

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::size_t kDigits = 5;
constexpr int kMostShards = 99'999;

// A whole number as to_string would write it.
std::optional<std::int64_t> parse_plain(std::string_view text) {
  if (!base::is_digits(text) || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  return base::parse_integer(text);
}

// "-00002-of-00004"
std::optional<ShardName> parse_division(std::string_view text) {
  constexpr std::string_view kOf = "-of-";
  if (text.size() != 1 + kDigits + kOf.size() + kDigits || text.front() != '-') return std::nullopt;
  const std::string_view number = text.substr(1, kDigits);
  const std::string_view count = text.substr(1 + kDigits + kOf.size());
  if (text.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  if (!base::is_digits(number) || !base::is_digits(count)) return std::nullopt;
  ShardName name;
  name.shard = static_cast<int>(base::parse_integer(number).value_or(0)) - 1;
  name.shards = static_cast<int>(base::parse_integer(count).value_or(0));
  // The only shard has the name without numbers.
  if (name.shards < 2 || name.shard < 0 || name.shard >= name.shards) return std::nullopt;
  return name;
}

}  // namespace

std::string shard_file(std::string_view kind, int shard, int shards) {
  base::check(shards >= 1 && shards <= kMostShards && shard >= 0 && shard < shards,
              "a shard is one of at most 99999");
  std::string name(kind);
  if (shards > 1) {
    char division[32];
    std::snprintf(division, sizeof division, "-%05d-of-%05d", shard + 1, shards);
    name += division;
  }
  return name.append(kSuffix);
}

std::optional<ShardName> parse_shard_file(std::string_view file) {
  if (file.size() < kSuffix.size() || file.substr(file.size() - kSuffix.size()) != kSuffix) {
    return std::nullopt;
  }
  file.remove_suffix(kSuffix.size());
  for (const std::string_view kind : {kModel, kOptimizer}) {
    if (file.substr(0, kind.size()) != kind) continue;
    if (file.size() == kind.size()) return ShardName{std::string(kind), 0, 1};
    auto name = parse_division(file.substr(kind.size()));
    if (name) name->kind = kind;
    return name;
  }
  return std::nullopt;
}

std::optional<std::string> missing_shard(const std::vector<std::string>& files) {
  std::map<std::string, std::set<int>> found;  // by kind: how many shards its files say there are
  std::set<std::string> names;
  for (const std::string& file : files) {
    const auto name = parse_shard_file(file);
    if (!name) continue;
    found[name->kind].insert(name->shards);
    names.insert(file);
  }
  for (const char* kind : {kModel, kOptimizer}) {
    const std::set<int>& divisions = found[kind];
    if (divisions.size() > 1) {
      return "lists shards of several divisions of the " + std::string(kind);
    }
    const int shards = divisions.empty() ? 1 : *divisions.begin();
    if (shards > 1 && std::string_view(kind) == kModel) {
      return "lists parts of the model, which is written whole";
    }
    for (int shard = 0; shard < shards; ++shard) {
      const std::string name = shard_file(kind, shard, shards);
      if (names.count(name) == 0) return "does not list " + name;
    }
  }
  return std::nullopt;
}

std::string sidecar_file(std::string_view shard_file) {
  return std::string(shard_file) + ".digest.json";
}

std::string range_name(const TensorRange& range) {
  base::check(!range.tensor.empty() && range.begin >= 0 && range.begin < range.end,
              "a range has elements");
  return range.tensor + "[" + std::to_string(range.begin) + ":" + std::to_string(range.end) + "]";
}

std::optional<TensorRange> parse_range_name(std::string_view name) {
  if (name.empty() || name.back() != ']') return std::nullopt;
  const std::size_t open = name.rfind('[');
  if (open == std::string_view::npos || open == 0) return std::nullopt;
  const std::string_view inside = name.substr(open + 1, name.size() - open - 2);
  const std::size_t colon = inside.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto begin = parse_plain(inside.substr(0, colon));
  const auto end = parse_plain(inside.substr(colon + 1));
  if (!begin || !end || *begin >= *end) return std::nullopt;
  return TensorRange{std::string(name.substr(0, open)), *begin, *end};
}

}  // namespace regatta::checkpoint
