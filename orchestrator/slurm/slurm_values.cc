#include "orchestrator/slurm/slurm_values.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/text.h"

namespace regatta::orchestrator::slurm {
namespace {

// Digits only, at most 15: exact in a double and far from overflow.
std::optional<std::int64_t> natural(std::string_view text) {
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

// "131072M", "7.50G", "1024": without a unit Slurm means megabytes of 2^20 bytes.
std::optional<double> memory(std::string_view text) {
  if (text.empty()) return std::nullopt;
  constexpr std::string_view kUnits = "KMGTP";
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

  void add(std::string_view type, std::int64_t count) {
    seen = true;
    if (type.empty()) {
      untyped = untyped.value_or(0) + count;
    } else {
      typed.by_type[std::string(type)] += count;
      typed.count += count;
    }
  }
};

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

}  // namespace

bool says_nothing(std::string_view text) {
  constexpr std::array<std::string_view, 10> kNothing = {
      "", "(null)", "None assigned", "N/A", "n/a", "n/s", "Unknown", "NONE", "None", "none"};
  return std::find(kNothing.begin(), kNothing.end(), text) != kNothing.end();
}

std::optional<double> parse_slurm_time(std::string_view text) {
  if (text.size() != 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':') {
    return std::nullopt;
  }
  const auto year = natural(text.substr(0, 4));
  const auto month = natural(text.substr(5, 2));
  const auto day = natural(text.substr(8, 2));
  const auto hour = natural(text.substr(11, 2));
  const auto minute = natural(text.substr(14, 2));
  const auto second = natural(text.substr(17, 2));
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  if (*year < 1970 || *month < 1 || *month > 12 || *day < 1 || *day > 31 || *hour > 23 ||
      *minute > 59 || *second > 60) {
    return std::nullopt;
  }
  tm parts = {};
  parts.tm_year = static_cast<int>(*year - 1900);
  parts.tm_mon = static_cast<int>(*month - 1);
  parts.tm_mday = static_cast<int>(*day);
  parts.tm_hour = static_cast<int>(*hour);
  parts.tm_min = static_cast<int>(*minute);
  parts.tm_sec = static_cast<int>(*second);
  const time_t seconds = ::timegm(&parts);
  if (parts.tm_mday != *day) return std::nullopt;  // 31 February went on into March
  return static_cast<double>(seconds);
}

std::optional<double> parse_slurm_duration(std::string_view text) {
  if (text == "UNLIMITED" || text == "INFINITE") return std::numeric_limits<double>::infinity();
  if (text.size() > 40) return std::nullopt;
  double fraction = 0;
  if (const std::size_t dot = text.find('.'); dot != std::string_view::npos) {
    const std::string_view digits = text.substr(dot + 1);
    const auto part = natural(digits);
    if (!part || text.find(':') == std::string_view::npos) return std::nullopt;
    fraction = static_cast<double>(*part) / std::pow(10.0, static_cast<double>(digits.size()));
    text = text.substr(0, dot);
  }
  std::optional<std::int64_t> days;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    days = natural(text.substr(0, dash));
    if (!days) return std::nullopt;
    text.remove_prefix(dash + 1);
  }
  std::vector<double> numbers;
  for (const std::string_view piece : pieces(text, ':')) {
    const auto number = natural(piece);
    if (!number) return std::nullopt;
    numbers.push_back(static_cast<double>(*number));
  }
  if (numbers.size() > 3) return std::nullopt;
  // With days the first number is hours; without, a lone one is minutes and two are minutes and
  // seconds.
  const std::size_t leading = days || numbers.size() == 3 ? 0 : 1;
  constexpr std::array<double, 3> kSeconds = {3600, 60, 1};
  double seconds = static_cast<double>(days.value_or(0)) * 86400 + fraction;
  for (std::size_t i = 0; i < numbers.size(); ++i) seconds += numbers[i] * kSeconds[leading + i];
  return seconds;
}

std::optional<ExitStatus> parse_exit_status(std::string_view text) {
  const auto parts = pieces(text, ':');
  if (parts.size() != 2) return std::nullopt;
  const auto code = natural(parts[0]);
  const auto signal = natural(parts[1]);
  constexpr std::int64_t kLargest = 65535;
  if (!code || !signal || *code > kLargest || *signal > kLargest) return std::nullopt;
  return ExitStatus{static_cast<int>(*code), static_cast<int>(*signal)};
}

Tres parse_tres(std::string_view text) {
  Tres tres;
  GpuCounter gpus;
  for (const std::string_view piece : pieces(text, ',')) {
    const std::size_t equals = piece.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = piece.substr(0, equals);
    const std::string_view value = piece.substr(equals + 1);
    const auto count = natural(value);
    if (key == "cpu") tres.cpus = count;
    if (key == "node") tres.nodes = count;
    if (key == "mem") tres.memory_bytes = memory(value);
    if (count && key == "gres/gpu") gpus.add("", *count);
    if (count && starts_with(key, "gres/gpu:")) gpus.add(key.substr(9), *count);
  }
  if (gpus.seen) {
    tres.gpus = gpus.typed;
    if (gpus.untyped) tres.gpus->count = *gpus.untyped;
  }
  return tres;
}

std::optional<Gpus> parse_gres(std::string_view text) {
  // What stands in parentheses (sockets, device numbers) has commas of its own.
  std::string bare;
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (depth == 0) bare += c;
    if (c == ')' && depth > 0) --depth;
  }
  GpuCounter gpus;
  for (std::string_view piece : pieces(bare, ',')) {
    for (const std::string_view prefix : {"gres/", "gres:"}) {
      if (starts_with(piece, prefix)) piece.remove_prefix(prefix.size());
    }
    auto parts = pieces(piece, ':');
    if (parts.front() != "gpu") continue;
    // The count is last; without one it is 1.
    std::int64_t count = 1;
    if (parts.size() > 1) {
      if (const auto last = natural(parts.back())) {
        count = *last;
        parts.pop_back();
      }
    }
    if (parts.size() > 2) continue;
    gpus.add(parts.size() == 2 ? parts[1] : std::string_view(), count);
  }
  if (!gpus.seen) return std::nullopt;
  // Here untyped ones stand beside typed ones, as other devices.
  Gpus out = gpus.typed;
  out.count += gpus.untyped.value_or(0);
  return out;
}

std::optional<SlurmVersion> parse_slurm_version(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (const std::size_t space = text.rfind(' '); space != std::string_view::npos) {
    text.remove_prefix(space + 1);
  }
  const auto parts = pieces(text, '.');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  const auto major = natural(parts[0]);
  const auto minor = natural(parts[1]);
  if (!major || !minor || *major < 2 || *major > 999 || *minor > 99) return std::nullopt;
  SlurmVersion version{static_cast<int>(*major), static_cast<int>(*minor), 0};
  if (parts.size() == 3) {
    // "8", "5-1", "0-0rc1"
    const std::string_view micro = parts[2].substr(0, parts[2].find_first_not_of("0123456789"));
    version.micro = static_cast<int>(std::min<std::int64_t>(natural(micro).value_or(0), 9999));
  }
  return version;
}

std::string to_string(const SlurmVersion& version) {
  const std::string minor = std::to_string(version.minor);
  return std::to_string(version.major) + (minor.size() < 2 ? ".0" : ".") + minor + "." +
         std::to_string(version.micro);
}

}  // namespace regatta::orchestrator::slurm
