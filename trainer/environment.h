#pragma once

#include <string>

#include "base/file_system.h"

namespace regatta::trainer {

struct Environment {
  std::string program;  // path of the running trainer
  std::string device;
  int threads = 0;
  std::string data_fingerprint;
  std::string model_fingerprint;
};

// Writes environment.json of an attempt: what may explain a difference in speed or in results
// between two machines (host, kernel, processor, compiler, libraries, precision, program's digest).
void write_environment(base::FileSystem& files, const base::Path& path,
                       const Environment& environment);

}  // namespace regatta::trainer
