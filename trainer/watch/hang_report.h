// What is left behind when ranks stand still: who it was, for the controller, and the stacks of all
// ranks, which whoever started them takes.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/watch/watchdog.h"

namespace regatta::trainer::watch {

// Where a tripping rank asks for the stacks of all ranks (orchestrator/batch/README.md).
constexpr const char* kDumpRequestVariable = "REGATTA_DUMP_REQUEST";
// So long it waits for them at most.
constexpr double kMostDumpSeconds = 45;

struct HangPlaces {
  base::Path report;   // hang.json of the attempt
  base::Path request;  // empty: nobody would answer
};

// One line of JSON (docs/formats/run_directory.md, "hang.json"). `host` is that of the rank to
// blame.
[[nodiscard]] std::string hang_json(const Trip& trip, const std::string& host, int told_by);

// By every rank that trips over one that hangs: the first to come writes the report and makes the
// request; all return when the request has been taken away, or after kMostDumpSeconds. What cannot
// be written is logged, never thrown.
void report_hang(base::FileSystem& files, base::Clock& clock, const HangPlaces& places,
                 const std::string& json);

}  // namespace regatta::trainer::watch
