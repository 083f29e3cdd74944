#include "topology/slurm_text/values.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"

namespace regatta::topology::slurm_text {
namespace {

constexpr std::string_view kUnits = "KMGTP";  // times 1024, 1024^2, …

// "131072M", "7.50G", "1024": without a unit Slurm means megabytes of 2^20 bytes.
std::optional<double> memory(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double factor = 1024.0 * 1024.0;
  const std::size_t unit = kUnits.find(text.back());
  if (unit != std::string_view::npos) {
    factor = std::pow(1024.0, static_cast<double>(unit + 1));
    text.remove_suffix(1);
  }
  if (text.size() > 24 || text.find_first_not_of("0123456789.") != std::string_view::npos) {
    return std::nullopt;
  }
  const auto number = base::parse_number(text);
  if (!number) return std::nullopt;
  return *number * factor;
}

// Types as they come, and the untyped figure beside or instead of them.
struct GpuCounter {
  std::optional<std::int64_t> untyped;
  Gpus typed;
  bool seen = false;
  bool damaged = false;

  void add(std::string_view type, std::int64_t count) {
    seen = true;
    const std::int64_t before = type.empty() ? untyped.value_or(0) : typed.count;
    damaged = damaged || count > kMostGpus - before;
    if (damaged) return;
    if (type.empty()) {
      untyped = before + count;
    } else {
      typed.by_type[std::string(type)] += count;
      typed.count += count;
    }
  }
};

// The text without what stands in parentheses, which has commas of its own.
std::optional<std::string> without_parentheses(std::string_view text) {
  std::string bare;
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (depth == 0) bare += c;
    if (c == ')' && --depth < 0) return std::nullopt;
  }
  return depth == 0 ? std::optional(bare) : std::nullopt;
}

// "8", "2K"; a count that is out of range is more than kMostGpus. Nothing for what is a type.
std::optional<std::int64_t> gres_count(std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::int64_t factor = 1;
  const char last = text.back();
  const std::size_t unit = kUnits.find(last >= 'a' ? static_cast<char>(last - 'a' + 'A') : last);
  if (unit != std::string_view::npos) {
    factor = std::int64_t{1} << (10 * (unit + 1));
    text.remove_suffix(1);
  }
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  const auto number = whole_number(text);
  if (!number || *number > kMostGpus / factor) return kMostGpus + 1;
  return *number * factor;
}

bool is_type(std::string_view text) {
  return text.empty() ||
         (text.front() != '-' && std::all_of(text.begin(), text.end(),
                                             [](unsigned char c) { return c > ' ' && c != 0x7f; }));
}

}  // namespace

bool says_nothing(std::string_view text) {
  constexpr std::array<std::string_view, 10> kNothing = {
      "", "(null)", "None assigned", "N/A", "n/a", "n/s", "Unknown", "NONE", "None", "none"};
  return std::find(kNothing.begin(), kNothing.end(), text) != kNothing.end();
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  if (text.empty() || text.size() > 15) return std::nullopt;
  if (text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return base::parse_integer(text);
}

std::vector<std::string_view> pieces(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t end = text.find(separator);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> parse_names(std::string_view text) {
  std::vector<std::string> out;
  if (says_nothing(text)) return out;
  for (const std::string_view name : pieces(text, ',')) {
    if (!name.empty()) out.emplace_back(name);
  }
  return out;
}

Tres parse_tres(std::string_view text) {
  Tres tres;
  GpuCounter gpus;
  for (const std::string_view piece : pieces(text, ',')) {
    const std::size_t equals = piece.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = piece.substr(0, equals);
    const std::string_view value = piece.substr(equals + 1);
    const auto count = whole_number(value);
    if (key == "cpu") tres.cpus = count;
    if (key == "node") tres.nodes = count;
    if (key == "mem") tres.memory_bytes = memory(value);
    if (count && key == "gres/gpu") gpus.add("", *count);
    if (count && key.starts_with("gres/gpu:")) gpus.add(key.substr(9), *count);
  }
  if (gpus.seen && !gpus.damaged) {
    tres.gpus = gpus.typed;
    if (gpus.untyped) tres.gpus->count = *gpus.untyped;
  }
  return tres;
}

std::optional<Gpus> parse_gres(std::string_view text) {
  const auto bare = without_parentheses(text);
  if (!bare) return std::nullopt;
  GpuCounter gpus;
  for (std::string_view piece : pieces(*bare, ',')) {
    if (piece.starts_with("gres/") || piece.starts_with("gres:")) piece.remove_prefix(5);
    auto parts = pieces(piece, ':');
    if (parts.front() != "gpu") continue;
    std::int64_t count = 1;
    if (parts.size() > 1) {
      if (const auto last = gres_count(parts.back())) {
        count = *last;
        parts.pop_back();
      }
    }
    if (parts.size() > 1 && parts.back() == "no_consume") parts.pop_back();
    const std::string_view type = parts.size() == 2 ? parts[1] : std::string_view();
    if (parts.size() > 2 || !is_type(type)) return std::nullopt;
    gpus.add(type, count);
  }
  // Here untyped ones stand beside typed ones, as other devices.
  const std::int64_t untyped = gpus.untyped.value_or(0);
  if (!gpus.seen || gpus.damaged || untyped > kMostGpus - gpus.typed.count) return std::nullopt;
  Gpus out = gpus.typed;
  out.count += untyped;
  return out;
}

}  // namespace regatta::topology::slurm_text
