// A store with many runs, for tests and the benchmark.
#pragma once

#include "base/file_system.h"

namespace regatta::tests {

struct FilledStore {
  int runs = 100;
  int open = 5;             // of them, the newest: they are running
  int long_run_steps = 10;  // step rows of the oldest run; the others have five
  // Where the newest run gets a directory, without which no controller begins with open runs;
  // empty: it has none, as the others.
  base::Path runs_directory{};
};

// Every run has two launches, two attempts, steps, evaluations, a checkpoint and a warning. Ids are
// "runKK-xxxxxx", names "runKK" for KK of 00 to 49; the newest runs have the largest numbers. The
// oldest 20 were submitted by "uid 1999", have the tag "first" and had the node "node99"; of the
// others every second was submitted by "token". Every run had "node01", every second has the tag
// "nightly".
// The store in `directory` is made if absent, and must not be open.
void fill_store(const base::Path& directory, const FilledStore& what);

}  // namespace regatta::tests
