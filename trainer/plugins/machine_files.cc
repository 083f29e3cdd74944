#include "trainer/plugins/machine_files.h"

#include <algorithm>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"

namespace regatta::trainer::plugins {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20U;
constexpr std::string_view kWhite = " \t\r\n";

}  // namespace

std::optional<NamedValue> named_value(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  return NamedValue{std::string(base::trimmed(line.substr(0, colon), kWhite)),
                    std::string(base::trimmed(line.substr(colon + 1), kWhite))};
}

std::optional<std::int64_t> count_of_list(std::string_view list) {
  std::int64_t count = 0;
  for (const std::string& part : base::split(list, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = base::parse_integer(part.substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : base::parse_integer(part.substr(dash + 1));
    constexpr std::int64_t kMost = std::int64_t{1} << 20U;
    if (!first || !last || *first < 0 || *last < *first || *last > kMost) return std::nullopt;
    count += *last - *first + 1;
  }
  return count;
}

MachineFiles::MachineFiles(base::FileSystem& files, base::Path root)
    : files_(&files), root_(std::move(root)) {}

std::optional<std::string> MachineFiles::text(const std::string& path) const {
  try {
    const std::string whole = files_->read(root_ / base::Path(path).relative_path(), kMostBytes);
    const std::string_view text = base::trimmed(whole, kWhite);
    if (base::is_utf8(text)) return std::string(text);
  } catch (const base::Error&) {  // told by its absence, nothing worse
  }
  return std::nullopt;
}

std::optional<std::int64_t> MachineFiles::number(const std::string& path) const {
  const auto found = text(path);
  return found ? base::parse_integer(*found) : std::nullopt;
}

std::vector<std::string> MachineFiles::lines(const std::string& path) const {
  const auto found = text(path);
  return found ? base::split(*found, '\n') : std::vector<std::string>();
}

bool MachineFiles::has(const std::string& path) const {
  try {
    return files_->exists(root_ / base::Path(path).relative_path());
  } catch (const base::Error&) {
    return false;
  }
}

std::vector<std::string> MachineFiles::numbered(const std::string& directory,
                                                std::string_view prefix) const {
  std::vector<std::pair<std::int64_t, std::string>> found;
  try {
    for (const std::string& name : files_->list(root_ / base::Path(directory).relative_path())) {
      if (name.rfind(prefix, 0) != 0) continue;
      if (const auto number = base::parse_integer(name.substr(prefix.size()))) {
        found.emplace_back(*number, name);
      }
    }
  } catch (const base::Error&) {
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (auto& [number, name] : found) names.push_back(std::move(name));
  return names;
}

}  // namespace regatta::trainer::plugins
