// Files that commands read.
#pragma once

#include <cstdint>
#include <string>

namespace regatta::orchestrator::cli {

constexpr std::uint64_t kMaxInput = std::uint64_t{256} << 20U;  // graph.json of some thousand nodes
constexpr std::uint64_t kMaxRunFile = std::uint64_t{1} << 20U;

// A file of at most max_bytes, or stdin for "-", of which one byte more is returned at most: a
// parser refuses that. Throws as base::FileSystem::read(), and Code::User for a directory.
[[nodiscard]] std::string read_input(const std::string& file, std::uint64_t max_bytes = kMaxInput);

// What messages call it: "stdin" for "-".
[[nodiscard]] std::string input_name(const std::string& file);

}  // namespace regatta::orchestrator::cli
