// What sbatch is given, as text, beside files that were agreed.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/text.h"
#include "orchestrator/batch/batch_script.h"

namespace regatta::tests {

// The arguments, one a line, and what of the script is this job's.
inline std::string text_of(const orchestrator::batch::SlurmJob& job) {
  const std::string script = orchestrator::batch::batch_script(job);
  const std::string_view head = orchestrator::batch::batch_script_head();
  const std::string_view body = orchestrator::batch::batch_script_body();
  EXPECT_EQ(script.substr(0, head.size()), head);
  EXPECT_EQ(script.substr(script.size() - body.size()), body);
  return base::join(orchestrator::batch::sbatch_arguments(job), "\n") + "\n\n" +
         script.substr(head.size(), script.size() - head.size() - body.size());
}

inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = REGATTA_SOURCE_DIR "/tests/orchestrator/batch/golden/" + name;
  if (std::getenv("REGATTA_WRITE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << text;
  std::ifstream file(path, std::ios::binary);
  const std::string golden((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, golden) << path << "; if the new text is right, run with REGATTA_WRITE_GOLDEN=1";
}

}  // namespace regatta::tests
