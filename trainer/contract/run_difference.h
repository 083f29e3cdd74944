// How two run files differ.
#pragma once

#include <string>
#include <vector>

#include "trainer/contract/run_config.h"

namespace regatta::trainer::contract {

struct KeyDifference {
  std::string key;   // "optimizer.learning_rate"
  std::string a, b;  // as the canonical text has them; "absent" where one does not have the key

  bool operator==(const KeyDifference&) const = default;
};

// In the order of the canonical text: keys that `a` has first, then those that only `b` has. Lists
// are compared as wholes.
[[nodiscard]] std::vector<KeyDifference> differences(const RunConfig& a, const RunConfig& b);

// "steps is 20 there and 40 here, …", at most `most` of them, then how many more. Variables of the
// environment without their values.
[[nodiscard]] std::string to_text(const std::vector<KeyDifference>& differences, std::size_t most);

}  // namespace regatta::trainer::contract
