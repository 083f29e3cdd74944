// Run files to begin with, of `regatta init`: those of templates/, embedded when the program is
// built. A line that begins with "#key:" or "#  key:" is a key that is off.
#pragma once

#include <array>
#include <string_view>

namespace regatta::orchestrator::cli {

struct RunFileTemplate {
  std::string_view name;     // "pretrain"
  std::string_view prepare;  // the command that makes its dataset, as it stands in the text, too
  std::string_view text;     // YAML
};

// The first is what is written if none is named.
[[nodiscard]] const std::array<RunFileTemplate, 4>& run_file_templates();

}  // namespace regatta::orchestrator::cli
