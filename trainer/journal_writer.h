#pragma once

#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_directory.h"

namespace regatta::trainer {

// Appends records to an attempt's journal, numbered and stamped. Thread-safe.
class JournalWriter {
 public:
  // Creates the journal; time counts from now.
  JournalWriter(base::FileSystem& files, base::Clock& clock, const RunDirectory& directory,
                const AttemptName& attempt, const Fence& fence);
  // Of ranks other than 0: writes nothing.
  JournalWriter(base::Clock& clock, const Fence& fence);

  // Throws Fenced when a newer attempt owns the run. A full disk only loses the line: training goes
  // on.
  template <typename Body>
  void write(const Body& body) {
    JournalRecord record;
    record.body = body;
    append(record);
  }
  // The last word of an attempt: written whether the fence holds or not.
  void write_end(const EndRecord& end);
  [[nodiscard]] double seconds() const;

 private:
  void append(JournalRecord& record);
  void put(JournalRecord& record);

  base::Clock& clock_;
  Fence fence_;
  std::unique_ptr<base::WritableFile> file_;  // null: nothing is written
  double start_;
  std::mutex mutex_;  // guards what follows, and the file
  std::int64_t sequence_ = 0;
  bool torn_ = false;  // the last append failed, perhaps within a line
  int dropped_ = 0;
};

// Thrown where an attempt finds that a newer one owns the run.
struct Fenced {};

}  // namespace regatta::trainer
