#include "orchestrator/control/launch_book.h"

#include <algorithm>

#include "orchestrator/runs/run_records.h"

namespace regatta::orchestrator::control {
namespace {

// By number.
template <typename Launches>
auto find(Launches& launches, int number) {
  return std::find_if(launches.begin(), launches.end(),
                      [number](const runs::Launch& each) { return each.number == number; });
}

void remember(OpenRun* open, const runs::Launch& launch) {
  const auto known = find(open->launches, launch.number);
  if (known == open->launches.end()) {
    open->launches.push_back(launch);
  } else {
    *known = launch;
  }
}

void mark(OpenRun* open, int number) {
  if (!open->foreign.empty() || open->run.wanted == runs::Wanted::Observe) return;
  open->unwritten.launches.insert(number);
}

}  // namespace

void LaunchBook::begin(OpenRun* open, const runs::Launch& launch) {
  store_.put_launch(open->run.number, launch);
  remember(open, launch);
}

void LaunchBook::note_begun(OpenRun* open, const runs::Launch& launch,
                            const std::optional<runs::Launch>& in_file) {
  begin(open, launch);
  if (in_file != launch) mark(open, launch.number);
}

void LaunchBook::put(OpenRun* open, const runs::Launch& launch) {
  store_.put_launch(open->run.number, launch);
  remember(open, launch);
  mark(open, launch.number);
}

void LaunchBook::end(OpenRun* open, const runs::Run& run, const runs::Launch& launch) {
  store_.end_launch(run, launch);
  remember(open, launch);
  mark(open, launch.number);
}

void LaunchBook::write_all_again(OpenRun* open) {
  for (const runs::Launch& launch : open->launches) mark(open, launch.number);
}

void LaunchBook::write_again(OpenRun* open, const std::vector<runs::Launch>& in_files) {
  for (const runs::Launch& launch : open->launches) {
    const auto in_file = find(in_files, launch.number);
    if (in_file == in_files.end() || *in_file != launch) mark(open, launch.number);
  }
}

void LaunchBook::write_file(base::FileSystem& files, const base::Path& run_directory,
                            const runs::Launch& launch) {
  runs::write_launch(files, run_directory, launch);
}

}  // namespace regatta::orchestrator::control
