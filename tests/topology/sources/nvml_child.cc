// ask_nvml() as a program: LIBRARY [--skip CALL]…
#include <cstdio>
#include <set>
#include <string>

#include "topology/sources/nvml_calls.h"

int main(int count, char** arguments) {
  std::set<std::string> skip;
  for (int i = 3; i < count; i += 2) skip.insert(arguments[i]);
  return regatta::topology::sources::ask_nvml(arguments[1], skip, [](const std::string& line) {
    std::puts(line.c_str());
    std::fflush(stdout);
  });
}
