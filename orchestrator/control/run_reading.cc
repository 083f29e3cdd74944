#include "orchestrator/control/run_reading.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "orchestrator/control/launch_book.h"
#include "orchestrator/runs/run_presence.h"
#include "trainer/contract/journal.h"

namespace regatta::orchestrator::control {
namespace {

constexpr std::uint64_t kFirstBytes = 65536;  // of a journal, enough for its first record

void sweep(base::FileSystem& files, const base::Path& directory) {
  for (const base::Path& folder : {directory, directory / "launches"}) {
    for (const std::string& name : files.list(folder)) {
      if (runs::is_temporary_record(name)) files.remove_file(folder / name);
    }
  }
}

void write_config(base::FileSystem& files, const base::Path& directory, const std::string& config) {
  const auto run = trainer::contract::RunDirectory::open(files, directory);
  if (run.run_json() != config) base::replace_file(files, directory / "run.json", config);
}

void write_down(base::FileSystem& files, const ReadingOrder& order) {
  if (order.submission) {
    auto submission = runs::read_submission(files, order.directory);
    const runs::SubmissionRecord& wanted = *order.submission;
    if (!submission || submission->wanted != wanted.wanted || submission->tags != wanted.tags ||
        submission->note != wanted.note || submission->changed_utc != wanted.changed_utc) {
      if (!submission) submission = wanted;
      submission->wanted = wanted.wanted;
      submission->tags = wanted.tags;
      submission->note = wanted.note;
      submission->changed_utc = wanted.changed_utc;
      runs::write_submission(files, order.directory, *submission);
    }
  }
  // After the submission, which says that it was changed.
  if (order.config) write_config(files, order.directory, *order.config);
  // The state before the launches: a launch that is over without a state that says so counts as
  // the end of its run.
  if (order.state) {
    const auto state = runs::read_state(files, order.directory);
    const bool begun = order.state->launch > 0 || runs::is_over(order.state->state);
    if (state ? *state != *order.state : begun) {
      runs::write_state(files, order.directory, *order.state);
    }
  }
  if (order.launches.empty()) return;
  const std::vector<runs::Launch> in_files = runs::read_launches(files, order.directory);
  for (const runs::Launch& launch : order.launches) {
    if (std::find(in_files.begin(), in_files.end(), launch) != in_files.end()) continue;
    LaunchBook::write_file(files, order.directory, launch);
  }
}

JournalPart read_part(base::FileSystem& files, const trainer::contract::RunDirectory& directory,
                      const trainer::contract::AttemptName& name, const ReadingOrder& order) {
  JournalPart part;
  part.name = name;
  const auto known = order.attempts.find(name.text());
  const std::int64_t offset = known == order.attempts.end() ? 0 : known->second.offset;
  try {
    part.bytes = files.read_at(directory.journal_path(name), static_cast<std::uint64_t>(offset),
                               order.chunk_bytes);
    part.more = part.bytes.size() == order.chunk_bytes;
  } catch (const base::Error& error) {
    if (error.code() != base::Code::NotFound) part.trouble = error;  // else not created yet
  }
  if (known == order.attempts.end() || !known->second.judged) {
    part.hang = read_hang(files, directory.attempt_path(name));
  }
  return part;
}

// Its end is decided without a log that cannot be read.
std::string last_words(base::FileSystem& files, const base::Path& directory,
                       const runs::Launch& launch) {
  try {
    const auto logs = runs::launch_logs(files, directory, {launch});
    return logs.empty() ? "" : runs::last_log_line(files, logs.back());
  } catch (const base::Error&) {
    return "";
  }
}

}  // namespace

RunReading read_run(base::FileSystem& files, const ReadingOrder& order) {
  RunReading reading;
  const runs::Presence presence = runs::presence_of(files, order.directory);
  reading.exists = presence == runs::Presence::There;
  reading.gone = presence == runs::Presence::Gone;
  if (!reading.exists) return reading;
  try {
    if (order.sweep) sweep(files, order.directory);
    write_down(files, order);
  } catch (const base::Error& error) {
    reading.unwritten = error;
  }
  const auto directory = trainer::contract::RunDirectory::open(files, order.directory);
  reading.attempts = directory.attempts();
  for (const trainer::contract::AttemptName& name : reading.attempts) {
    const auto known = order.attempts.find(name.text());
    const bool newest = name.number == reading.attempts.back().number;
    const bool over = known != order.attempts.end() && known->second.over && !newest;
    if (over && !order.also_old_ones) continue;
    reading.parts.push_back(read_part(files, directory, name, order));
    if (reading.parts.back().more) break;  // attempts in order: the next one after this
  }
  if (order.log_of) reading.last_log_line = last_words(files, order.directory, *order.log_of);
  return reading;
}

namespace {

bool is_anothers(const base::Path& directory) {
  struct stat status {};
  return ::stat(directory.c_str(), &status) == 0 && status.st_uid != ::geteuid();
}

// A directory that was renamed is no copy: what it was made as is not there any more.
void refuse_copy(base::FileSystem& files, const base::Path& directory, const std::string& made_as) {
  if (made_as.empty() || made_as == directory.filename() || made_as.find('/') != made_as.npos ||
      !files.exists(directory.parent_path() / made_as / "run.json")) {
    return;
  }
  throw base::Error(base::Code::User,
                    "it is a copy of run " + base::printable(made_as) +
                        ", as its submission.json says; move it out of the runs directory");
}

// What is believed must not be gone after a power failure: whoever wrote it may have been ended, or
// have had an error, before its names were on the disk.
void sync_records(base::FileSystem& files, const base::Path& directory,
                  const std::vector<runs::Launch>& launches) {
  files.sync_directory(directory);
  if (!launches.empty()) files.sync_directory(directory / "launches");
}

// Without its submission a run would pass for one that was started by hand, and without a launch
// for one that is to be started anew.
constexpr const char* kWhatHelps =
    "; mend it, or remove it: without it the run is one that was started by hand, or that launch "
    "was none";

std::optional<FoundRun> read_own(base::FileSystem& files, const base::Path& directory) {
  if (!files.exists(directory / "run.json")) return std::nullopt;
  const auto opened = trainer::contract::RunDirectory::open(files, directory);
  FoundRun found;
  found.run_json = opened.run_json();
  std::string damage, damaged_state;
  found.submission = runs::read_submission(files, directory, &damage);
  found.state = runs::read_state(files, directory, &damaged_state);
  found.launches = runs::read_launches(files, directory, found.submission ? &damage : nullptr);
  if (is_anothers(directory)) {
    // What another user wrote there starts nothing; the run is shown as one made by hand.
    found.submission.reset();
    found.state.reset();
    found.launches.clear();
  } else if (!damage.empty()) {
    throw base::Error(base::Code::User, damage + kWhatHelps);
  }
  if (found.submission && !damaged_state.empty()) {
    base::log(base::LogLevel::Warning, "run " + directory.filename().string() + ": " +
                                           damaged_state +
                                           "; launches and journals say what became of it");
  }
  if (found.submission) refuse_copy(files, directory, found.submission->id);
  if (found.submission) sync_records(files, directory, found.launches);
  const std::vector<trainer::contract::AttemptName> attempts = opened.attempts();
  found.attempts = static_cast<int>(attempts.size());
  if (attempts.empty()) return found;
  try {
    const std::string bytes = files.read_at(opened.journal_path(attempts.front()), 0, kFirstBytes);
    const trainer::contract::JournalChunk chunk = trainer::contract::parse_journal(bytes);
    if (!chunk.records.empty()) {
      found.began_utc = chunk.records.front().utc_seconds - chunk.records.front().seconds;
    }
  } catch (const base::Error&) {  // its begin is not known
  }
  return found;
}

}  // namespace

std::optional<FoundRun> read_found(base::FileSystem& files, const base::Path& directory) {
  try {
    return read_own(files, directory);
  } catch (const base::Error& error) {
    if (is_anothers(directory)) throw base::Error(base::Code::Forbidden, error.what());
    throw;
  }
}

}  // namespace regatta::orchestrator::control
