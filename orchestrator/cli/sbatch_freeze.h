// `regatta sbatch --freeze`: the caller's words, made ones for the frozen tree.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/frozen/freeze.h"
#include "orchestrator/sbatch/sbatch_options.h"
#include "orchestrator/site/environment.h"

namespace regatta::orchestrator::cli {

// The store of frozen trees: REGATTA_FROZEN, else `.frozen` in the runs directory. Code::Operator
// where no variable says where that is.
[[nodiscard]] base::Path frozen_store(const site::ProgramEnvironment& environment);

// What --freeze and --freeze-limit ask for, with script and words for the record; nothing without
// --freeze. Code::User for a limit that is none, and for heterogeneous jobs.
[[nodiscard]] std::optional<frozen::FreezeRequest> freeze_request(
    const sbatch::SbatchCommand& asked, const std::vector<std::string>& arguments,
    const std::optional<base::Path>& script, const site::ProgramEnvironment& environment);

// The word that means the same script for an sbatch that is called in the frozen folder; `script`
// is where the word led. Code::User when the commit has no such file.
[[nodiscard]] std::string frozen_script(const std::string& word, const base::Path& script,
                                        const frozen::Frozen& tree);

// Options that keep logs and input where they would have been without --freeze, and the job's
// folder in the tree. options: those that count. directory: where sbatch was called. A `note` for
// people is added where the job's folder is none of the tree's.
[[nodiscard]] std::vector<std::string> frozen_options(
    const std::vector<sbatch::GivenOption>& options, const base::Path& directory,
    const frozen::Frozen& tree, std::vector<std::string>* notes);

// "freezes 812 files (12 MB) of /home/u/proj, at 3f2a77c1 and with changes; …"
[[nodiscard]] std::vector<std::string> frozen_notes(const frozen::Frozen& tree);

}  // namespace regatta::orchestrator::cli
