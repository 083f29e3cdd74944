// What the kernel tells of a machine in /proc and /sys, below a root that tests replace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"

namespace regatta::trainer::plugins {

class MachineFiles {
 public:
  // `files` outlives it.
  explicit MachineFiles(base::FileSystem& files, base::Path root = "/");

  // Nothing where a file is absent, cannot be read, is larger than 16 MiB or is not UTF-8; without
  // white space at both ends. path: "/proc/meminfo".
  [[nodiscard]] std::optional<std::string> text(const std::string& path) const;
  // Also nothing for what is no whole number.
  [[nodiscard]] std::optional<std::int64_t> number(const std::string& path) const;
  [[nodiscard]] std::vector<std::string> lines(const std::string& path) const;
  [[nodiscard]] bool has(const std::string& path) const;
  // Names in a directory that are `prefix` and a number, by that: cpu0, cpu1, …, cpu10.
  [[nodiscard]] std::vector<std::string> numbered(const std::string& directory,
                                                  std::string_view prefix) const;

 private:
  base::FileSystem* files_;
  base::Path root_;
};

// "name : value" → both; nothing without a colon.
struct NamedValue {
  std::string name, value;
};
[[nodiscard]] std::optional<NamedValue> named_value(std::string_view line);
// How many the kernel's list names: "0-3,8" has 5; nothing for what is no such list.
[[nodiscard]] std::optional<std::int64_t> count_of_list(std::string_view list);

}  // namespace regatta::trainer::plugins
