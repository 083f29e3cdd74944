// A run that starts from weights made elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"

namespace regatta::trainer::interchange {

struct ImportOptions {
  base::Path from;              // as StartConfig::path has it
  base::Path run_file;          // what the run is; its model must be the imported one
  base::Path run_directory;     // to make
  base::Path vocabulary;        // the model's vocab.txt; empty: the one in `from`
  bool with_optimizer = false;  // the moments too, and the step that they were made at
};

struct ImportReport {
  std::string checkpoint;          // name of the one in the new run directory
  std::int64_t step = 0;           // where the run goes on: 0 without moments
  std::vector<std::string> notes;  // one line each: what was initialised, cut or not used
};

// Makes the run directory with one checkpoint, from which `run` resumes: whole or not at all. Heads
// that the model lacks are initialised as for a new run. What is taken and what is refused is as
// starting_state() says (any_model.h), for the run file and its dataset.
ImportReport import_model(base::FileSystem& files, const base::Clock& clock,
                          const ImportOptions& options);

}  // namespace regatta::trainer::interchange
