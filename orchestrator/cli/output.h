// What commands print.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "orchestrator/cli/command_options.h"

namespace regatta::orchestrator::cli {

enum class Format { Text, Json };

// -o, --output: text or json.
void add_format_option(OptionList& options, Format* format);

// Over several lines, or in one.
void print_json(const nlohmann::ordered_json& json);
void print_json_line(const nlohmann::ordered_json& json);

}  // namespace regatta::orchestrator::cli
