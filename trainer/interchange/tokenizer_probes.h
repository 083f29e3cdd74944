// Texts that tell tokenizers apart: each exercises one rule.
#pragma once

#include <string>
#include <vector>

namespace regatta::trainer::interchange {

struct Probe {
  std::string about;  // the rule: "accents"
  std::string text;   // UTF-8
};

// Always the same, in this order.
[[nodiscard]] const std::vector<Probe>& fixed_probes();

}  // namespace regatta::trainer::interchange
