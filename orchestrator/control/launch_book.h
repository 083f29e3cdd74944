// What is written for a launch, and the only place that writes it: its row in the store, and
// launches/<n>.json in its run directory. A visit later both say the same.
//
// In an order in which a kill in between does no harm:
// - A launch begins with its row and its file, both with a token and no handle; then it is started;
//   then file and row get the handle. Who finds one without a handle asks the scheduler for its
//   token.
// - Everything later goes to the row at once and to the file with the next reading of the run's
//   directory, which may not answer for a while. The next controller compares them.
//
// The directory of a run that was started by hand is not written: such launches have rows only.
#pragma once

#include <optional>
#include <vector>

#include "base/file_system.h"
#include "orchestrator/control/open_run.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::control {

class LaunchBook {
 public:
  // The store outlives the book.
  explicit LaunchBook(store::Store& store) : store_(store) {}

  // All of these write the row, or throw base::Error and have changed nothing; then they change
  // open->launches and what is unwritten of it.

  // Of a new launch. Its file is for the launcher to write, before it starts anything.
  void begin(OpenRun* open, const runs::Launch& launch);
  // After that. in_file: what the launcher has written; nothing: not known.
  void note_begun(OpenRun* open, const runs::Launch& launch,
                  const std::optional<runs::Launch>& in_file);
  // Whatever else becomes of it.
  void put(OpenRun* open, const runs::Launch& launch);
  // It is over. The row of the run changes with it, both or neither.
  void end(OpenRun* open, const runs::Run& run, const runs::Launch& launch);

  // The files that say something else: whoever wrote their rows may have been killed before.
  static void write_all_again(OpenRun* open);
  // The files that say something else than the rows.
  static void write_again(OpenRun* open, const std::vector<runs::Launch>& in_files);

  // The file, on a thread that may wait for the directory. Throws base::Error.
  static void write_file(base::FileSystem& files, const base::Path& run_directory,
                         const runs::Launch& launch);

 private:
  store::Store& store_;
};

}  // namespace regatta::orchestrator::control
