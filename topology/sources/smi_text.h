// What the readers of nvidia-smi's outputs share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::topology::sources {

// Lines without line ends and without a terminal's escapes. Code::User above kMostSmiBytes.
[[nodiscard]] std::vector<std::string> smi_lines(std::string_view text, const std::string& place);

[[nodiscard]] bool smi_is_cpu_list(std::string_view text);  // "0-19,40-59"

}  // namespace regatta::topology::sources
