// Every operation of a device once, on one batch, in one list of results: to compare devices with
// one another.
#pragma once

#include <string>
#include <vector>

#include "tests/trainer/device/op_cases.h"

namespace regatta::tests {

struct NamedResult {
  std::string name;
  std::vector<float> values;
};

[[nodiscard]] std::vector<NamedResult> run_every_operation(trainer::device::Device& device);

}  // namespace regatta::tests
