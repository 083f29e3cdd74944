// One look at a run's directory: what the controller has to write down there, and what there is to
// read. It touches the directory and nothing else, so that it can be done where waiting is
// allowed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "orchestrator/control/node_judge.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/runs/run_records.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::control {

struct ReadingOrder {
  base::Path directory;
  // Written first, in this order.
  std::optional<std::string> config;  // run.json, where it says something else
  std::optional<runs::SubmissionRecord> submission;
  std::optional<runs::RecordedState> state;
  std::vector<runs::Launch> launches;
  // Temporary files that a controller left when it was killed are removed.
  bool sweep = false;
  struct Known {
    std::int64_t offset = 0;  // read so far
    bool over = false;        // a later attempt has begun, and this one was judged
    bool judged = false;
  };
  std::map<std::string, Known> attempts;  // by AttemptName::text(); unknown ones are read, too
  bool also_old_ones = false;             // attempts that are over
  std::uint64_t chunk_bytes = 0;          // of each journal
  std::optional<runs::Launch> log_of;     // a launch that ended: the last line of its log
};

struct JournalPart {
  trainer::contract::AttemptName name;
  std::string bytes;
  bool more = false;  // as many bytes as were asked for
  std::optional<base::Error> trouble;
  std::optional<Hang> hang;  // unless it was judged
};

struct RunReading {
  bool exists = false;  // run.json is there
  bool gone = false;    // the directory was removed
  std::optional<base::Error> unwritten;
  std::vector<trainer::contract::AttemptName> attempts;  // in order
  std::vector<JournalPart> parts;                        // in the same order
  std::string last_log_line;
};

// Throws base::Error where the directory cannot be read at all.
[[nodiscard]] RunReading read_run(base::FileSystem& files, const ReadingOrder& order);

// What a run directory that the store does not know says of its run.
struct FoundRun {
  std::string run_json;
  std::optional<runs::SubmissionRecord> submission;
  std::optional<runs::RecordedState> state;
  std::vector<runs::Launch> launches;
  std::optional<double> began_utc;  // of the first record of the first attempt
  int attempts = 0;
};
// Nothing where there is no run. Code::User for a copy of a run that is beside it: its launches are
// the other's, so both would be shown, and one be cancelled, for one job. Code::Forbidden where the
// directory is another user's and cannot be read.
[[nodiscard]] std::optional<FoundRun> read_found(base::FileSystem& files,
                                                 const base::Path& directory);

}  // namespace regatta::orchestrator::control
