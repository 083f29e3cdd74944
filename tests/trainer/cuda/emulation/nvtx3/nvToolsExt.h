// Ranges for a profiler: the emulated GPU keeps the names, for a test to look at.
#pragma once

#include <string>
#include <vector>

namespace regatta::emulation {

struct Ranges {
  std::vector<std::string> names;  // of every range begun so far
  int open = 0;
};
inline Ranges& ranges() {
  static Ranges all;
  return all;
}

}  // namespace regatta::emulation

inline int nvtxRangePushA(const char* name) {
  regatta::emulation::ranges().names.emplace_back(name);
  return regatta::emulation::ranges().open++;
}
inline int nvtxRangePop() { return --regatta::emulation::ranges().open; }
