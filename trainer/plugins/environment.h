#pragma once

#include <string>

#include "base/file_system.h"

namespace regatta::trainer::plugins {

struct Environment {
  std::string program;  // path of the running trainer
  std::string device;
  std::string precision;  // of activations and products
  int ranks = 1;
  int threads = 0;
  std::string data_fingerprint;
  std::string model_fingerprint;
  std::string slurm_job;  // its id; empty: none
};

// XXH3-128 of a file, as environment.json has it; empty when it cannot be read.
[[nodiscard]] std::string digest_of_file(base::FileSystem& files, const base::Path& path);

// Writes environment.json of an attempt: what may explain a difference in speed or in results
// between two machines (host, kernel, processor, compiler, libraries, precision, program's digest).
void write_environment(base::FileSystem& files, const base::Path& path,
                       const Environment& environment);

}  // namespace regatta::trainer::plugins
