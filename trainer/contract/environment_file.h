// environment.json of an attempt: what it was built of and ran on, in sections that two attempts
// are compared by (docs/formats/environment.md).
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace regatta::trainer::contract {

inline constexpr char kEnvironmentFile[] = "environment.json";
inline constexpr int kEnvironmentFormat = 2;  // 1 had no sections
inline constexpr std::uint64_t kMostEnvironmentBytes = std::uint64_t{1} << 20U;

// Of the sections with a digest, in the order of the file.
inline constexpr std::array<std::string_view, 10> kEnvironmentSections = {
    "build",    "machine",    "devices", "fabric", "variables",
    "numerics", "randomness", "data",    "model",  "configuration"};

// XXH3-128 of a section's JSON on one line, keys in their order, without its key "digest".
[[nodiscard]] std::string section_digest(const nlohmann::ordered_json& section);

// XXH3-128 of a line "NAME DIGEST\n" for each section of `environment`, which has all of them with
// their digests.
[[nodiscard]] std::string environment_fingerprint(const nlohmann::ordered_json& environment);

// Puts its digest in front of each section, and the fingerprint of all behind "format"; `sections`
// has all of them. What it returns is a file but for "attempt" and "training".
[[nodiscard]] nlohmann::ordered_json sealed_environment(const nlohmann::ordered_json& sections);

// What such a file says. `source` is the file's name in messages. Code::NotFound for one of format
// 1; Code::Operator for one that is larger than kMostEnvironmentBytes, no JSON, of another format,
// or whose sections are absent or not what their digests say.
[[nodiscard]] nlohmann::ordered_json parse_environment(std::string_view text,
                                                       const std::string& source);

// The id of the attempt's Slurm job, of a file of either format; empty where it was in none, or the
// file is none.
[[nodiscard]] std::string slurm_job_of_environment(std::string_view text);

}  // namespace regatta::trainer::contract
