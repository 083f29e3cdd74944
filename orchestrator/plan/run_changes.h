// A run's file, changed: for the run itself, or for another one that continues it.
#pragma once

#include <string>

#include "trainer/contract/run_config.h"

namespace regatta::orchestrator::plan {

struct ChangedRunFile {
  trainer::contract::RunConfig config;
  std::string text;   // canonical
  std::string words;  // "steps from 20 to 40, …"; empty: it is the same
};

// The following take a canonical run file and `changes`: the part of a run file, as JSON, that is
// to be another. Mappings are merged, and "target": 0.5 is {"value": 0.5}. Code::User for changes
// that are none or that give no run file.

// Of the run itself: keys that may change once it exists (trainer/contract/run_change.h), and
// slurm.time_limit. null is refused.
[[nodiscard]] ChangedRunFile with_changes(const std::string& config, const std::string& changes);
// The same of steps and target alone, one of which must be there.
[[nodiscard]] ChangedRunFile with_extension(const std::string& config, const std::string& changes);
// For another run of this name that continues it: all but model and data; null takes a key away
// (RFC 7386). `words` stays empty: values may be secret.
[[nodiscard]] ChangedRunFile forked_run_file(const std::string& config, const std::string& changes,
                                             const std::string& name);

// The same text for all texts of one JSON document, and for nothing and {}, which ask for the same;
// the text itself where it is none.
[[nodiscard]] std::string canonical_json(const std::string& text);

}  // namespace regatta::orchestrator::plan
