// Log lines go to stderr (and to a file when asked). spdlog stays behind this header.
#pragma once

#include <string>
#include <string_view>

namespace regatta::base {

enum class LogLevel { Debug, Info, Warning, Error };

// program: the word in front of each line. path: an extra log file, empty for none; Code::Operator
// when it cannot be opened.
void start_log(const std::string& program, LogLevel lowest, const std::string& path = {});
// Control characters in `message` are escaped, so hostile text cannot reach the terminal.
void log(LogLevel level, std::string_view message);

}  // namespace regatta::base
