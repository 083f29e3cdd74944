#include "orchestrator/runs/run_presence.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"

namespace regatta::orchestrator::runs {

Presence presence_of(base::FileSystem& files, const base::Path& run_directory) {
  try {
    (void)files.read_at(run_directory / "run.json", 0, 1);
    return Presence::There;
  } catch (const base::Error& error) {
    if (error.code() != base::Code::NotFound) throw;
  }
  const base::Path runs = run_directory.parent_path();
  const std::vector<std::string> names = files.list(runs);
  if (std::all_of(names.begin(), names.end(),
                  [](const std::string& name) { return name.front() == '.'; })) {
    throw base::Error(base::Code::Operator,
                      "the runs directory " + base::printable(runs.string()) +
                          " has no run in it; is its file system mounted, or was it moved?");
  }
  const std::string name = run_directory.filename().string();
  const bool named = std::find(names.begin(), names.end(), name) != names.end();
  return named ? Presence::NoRun : Presence::Gone;
}

std::string gone_words(const base::Path& run_directory) {
  return "its directory " + base::printable(run_directory.string()) + " is gone";
}

bool is_given_up(const Run& run) {
  return run.state == RunState::Failed && run.error == gone_words(run.directory);
}

std::string gone_text(const base::Path& run_directory) {
  return "the run's directory " + base::printable(run_directory.string()) + " is gone; `" +
         base::shown_command("regatta rm", run_directory.filename().string()) + "` forgets the run";
}

void refuse_gone(base::FileSystem& files, const base::Path& run_directory) {
  if (files.exists(run_directory)) return;  // whatever its run.json is
  if (presence_of(files, run_directory) != Presence::Gone) return;
  throw base::Error(base::Code::NotFound, gone_text(run_directory));
}

}  // namespace regatta::orchestrator::runs
