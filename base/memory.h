// How much memory is left before the machine, or the limit it was given, runs out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace regatta::base {

// Bytes that new pages can take without swapping: MemAvailable of /proc/meminfo, or less where this
// process's control groups (version 2 and 1) set limits; page cache that a group can give back
// counts as free. Nothing when the kernel does not say.
[[nodiscard]] std::optional<std::uint64_t> available_memory();

// For available_memory(); the text of a file in /proc or /sys, nothing when absent.
using ReadText = std::function<std::optional<std::string>(const std::string& path)>;
[[nodiscard]] std::optional<std::uint64_t> available_memory(const ReadText& read);

}  // namespace regatta::base
