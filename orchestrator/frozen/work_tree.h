// The files that a job would find where sbatch is called: what git keeps or would keep, or, without
// git, all of a folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace regatta::orchestrator::frozen {

// Paths are relative to `root`, sorted, and as the kernel has them (any bytes but NUL).
struct WorkTree {
  base::Path root;                    // top of the working tree, or the folder; no link in it
  std::optional<std::string> commit;  // what HEAD is; nothing without git or before the first one
  bool has_git = false;
  std::vector<std::string> files;  // tracked, and untracked ones that git does not ignore; those of
                                   // submodules, too. A tracked one may be gone.
  std::vector<std::string> ignored;  // what git ignores; of a whole folder only its name
};

// directory: absolute, no link in it. Code::Operator when git fails, with its words (as where the
// tree is another user's); Code::User above `most_files`.
[[nodiscard]] WorkTree read_work_tree(const base::Path& directory, std::size_t most_files);

// The id of the commit that `name` means in the tree at `root`. Code::User when it means none.
[[nodiscard]] std::string commit_of(const base::Path& root, const std::string& name);

// Writes the files of a commit below `target`, an absent folder, as a checkout would, those of
// submodules, too; nothing of the tree's own index changes. Code::User when a submodule's commit is
// not here.
void check_out(const base::Path& root, const std::string& commit, const base::Path& target);

// Every file below `directory`.
[[nodiscard]] std::vector<std::string> files_below(const base::Path& directory,
                                                   std::size_t most_files);

}  // namespace regatta::orchestrator::frozen
