#include "orchestrator/slurm/slurm_values.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace regatta::orchestrator::slurm {

using topology::slurm_text::pieces;
using topology::slurm_text::whole_number;

std::optional<double> parse_slurm_time(std::string_view text) {
  if (text.size() != 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':') {
    return std::nullopt;
  }
  const auto year = whole_number(text.substr(0, 4));
  const auto month = whole_number(text.substr(5, 2));
  const auto day = whole_number(text.substr(8, 2));
  const auto hour = whole_number(text.substr(11, 2));
  const auto minute = whole_number(text.substr(14, 2));
  const auto second = whole_number(text.substr(17, 2));
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
    const auto part = whole_number(digits);
    if (!part || text.find(':') == std::string_view::npos) return std::nullopt;
    fraction = static_cast<double>(*part) / std::pow(10.0, static_cast<double>(digits.size()));
    text = text.substr(0, dot);
  }
  std::optional<std::int64_t> days;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    days = whole_number(text.substr(0, dash));
    if (!days) return std::nullopt;
    text.remove_prefix(dash + 1);
  }
  std::vector<double> numbers;
  for (const std::string_view piece : pieces(text, ':')) {
    const auto number = whole_number(piece);
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
  const auto code = whole_number(parts[0]);
  const auto signal = whole_number(parts[1]);
  constexpr std::int64_t kLargest = 65535;
  if (!code || !signal || *code > kLargest || *signal > kLargest) return std::nullopt;
  return ExitStatus{static_cast<int>(*code), static_cast<int>(*signal)};
}

std::optional<SlurmVersion> parse_slurm_version(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (const std::size_t space = text.rfind(' '); space != std::string_view::npos) {
    text.remove_prefix(space + 1);
  }
  const auto parts = pieces(text, '.');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  const auto major = whole_number(parts[0]);
  const auto minor = whole_number(parts[1]);
  if (!major || !minor || *major < 2 || *major > 999 || *minor > 99) return std::nullopt;
  SlurmVersion version{static_cast<int>(*major), static_cast<int>(*minor), 0};
  if (parts.size() == 3) {
    // "8", "5-1", "0-0rc1"
    const std::string_view micro = parts[2].substr(0, parts[2].find_first_not_of("0123456789"));
    version.micro = static_cast<int>(std::min<std::int64_t>(whole_number(micro).value_or(0), 9999));
  }
  return version;
}

std::string to_string(const SlurmVersion& version) {
  const std::string minor = std::to_string(version.minor);
  return std::to_string(version.major) + (minor.size() < 2 ? ".0" : ".") + minor + "." +
         std::to_string(version.micro);
}

}  // namespace regatta::orchestrator::slurm
