// What `regatta compare` reads from a file, where one is named in place of a run.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>

#include "base/file_system.h"
#include "trainer/contract/platform_bench.h"

namespace regatta::orchestrator::cli {

// An environment.json (docs/formats/environment.md), or a bench (docs/platform_bench.md).
using ComparedFile = std::variant<nlohmann::ordered_json, trainer::contract::PlatformBench>;

// Whether the argument is a path and not a run's id or name: it has a '/' or ends in ".json".
[[nodiscard]] bool names_file(const std::string& argument);

// Throws Code::NotFound where there is none, and Code::User for what is neither of the two.
[[nodiscard]] ComparedFile read_compared_file(const base::Path& path);

}  // namespace regatta::orchestrator::cli
