#pragma once

#include <memory>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_directory.h"

namespace regatta::trainer {

// Appends records to an attempt's journal, numbered and stamped. Not thread-safe.
class JournalWriter {
 public:
  // Creates the journal; time counts from now.
  JournalWriter(base::FileSystem& files, base::Clock& clock, const RunDirectory& directory,
                const AttemptName& attempt, const Fence& fence);

  // Throws Fenced when a newer attempt owns the run. A full disk only loses the line: training goes
  // on, and dropped() tells how many.
  template <typename Body>
  void write(const Body& body) {
    JournalRecord record;
    record.body = body;
    append(record);
  }
  // The last word of an attempt: written whether the fence holds or not.
  void write_end(const EndRecord& end);
  [[nodiscard]] int dropped() const { return dropped_; }
  [[nodiscard]] double seconds() const;

 private:
  void append(JournalRecord& record);
  void put(JournalRecord& record);

  base::Clock& clock_;
  Fence fence_;
  std::unique_ptr<base::WritableFile> file_;
  double start_;
  std::int64_t sequence_ = 0;
  bool torn_ = false;  // the last append failed, perhaps within a line
  int dropped_ = 0;
};

// Thrown where an attempt finds that a newer one owns the run.
struct Fenced {};

}  // namespace regatta::trainer
