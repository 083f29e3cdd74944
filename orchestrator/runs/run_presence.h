// Whether a run's directory is where it was made, or was removed under the runs directory.
#pragma once

#include <string>

#include "base/file_system.h"
#include "orchestrator/runs/run.h"

namespace regatta::orchestrator::runs {

// NoRun: the name is there, and nothing that is a run below it (a link that leads nowhere, what is
// not mounted). Gone: the runs directory has other runs, and nothing of this name.
enum class Presence { There, NoRun, Gone };

// Throws where nobody can say: a file system that answers with an error, or is not mounted, has not
// lost its runs.
[[nodiscard]] Presence presence_of(base::FileSystem& files, const base::Path& run_directory);

// "its directory … is gone": the error of a run that was given up for it.
[[nodiscard]] std::string gone_words(const base::Path& run_directory);
[[nodiscard]] bool is_given_up(const Run& run);

// "the run's directory … is gone": which one, and what to do.
[[nodiscard]] std::string gone_text(const base::Path& run_directory);
// Code::NotFound with this text for a directory that is gone; where it is not there, throws as
// presence_of(), too.
void refuse_gone(base::FileSystem& files, const base::Path& run_directory);

}  // namespace regatta::orchestrator::runs
