// Kernels with and without races, for race_test.cc.
#pragma once

#include <string>
#include <vector>

namespace regatta::tests {

// The kernel's name, and words of the report; empty words: no race. Races are in device memory of
// 1024 floats or in shared memory.
struct RaceCase {
  std::string name;
  std::string words;
  void (*kernel)(float* memory);
};
[[nodiscard]] std::vector<RaceCase> race_cases();

// Runs 2 blocks of 64 threads on fresh memory.
void run_race_case(const RaceCase& race_case);

}  // namespace regatta::tests
