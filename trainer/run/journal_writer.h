#pragma once

#include <memory>
#include <mutex>
#include <type_traits>

#include "base/clock.h"
#include "base/file_system.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_directory.h"
#include "trainer/run/mllog_writer.h"

namespace regatta::trainer::run {

// Appends records to an attempt's journal, numbered and stamped. Thread-safe.
class JournalWriter {
 public:
  // Creates the journal; time counts from now.
  JournalWriter(base::FileSystem& files, base::Clock& clock,
                const contract::RunDirectory& directory, const contract::AttemptName& attempt,
                const contract::Fence& fence);
  // Of ranks other than 0: writes nothing.
  JournalWriter(base::Clock& clock, const contract::Fence& fence);

  // Gets every record from here on, the end record only while the fence holds. It outlives this.
  void copy_to(MllogWriter& mllog) { mllog_ = &mllog; }

  // Throws Fenced when a newer attempt owns the run. A full disk only loses the line: training goes
  // on.
  template <typename Body>
  void write(const Body& body) {
    contract::JournalRecord record;
    record.body = body;
    append(record);
    if constexpr (std::is_same_v<Body, contract::StartRecord>) last_step_ = body.first_step;
    if constexpr (std::is_same_v<Body, contract::StepRecord>) last_step_ = body.step;
  }
  // The end record: written whether the fence holds or not.
  void write_end(const contract::EndRecord& end);
  [[nodiscard]] double seconds() const;
  // The last one that was told, or the one that the attempt starts after; on every rank.
  [[nodiscard]] std::int64_t last_step() const { return last_step_; }

 private:
  void append(contract::JournalRecord& record);
  void put(contract::JournalRecord& record);

  base::Clock& clock_;
  contract::Fence fence_;
  std::unique_ptr<base::WritableFile> file_;  // null: nothing is written
  MllogWriter* mllog_ = nullptr;
  double start_;
  std::int64_t last_step_ = 0;  // of the training thread
  std::mutex mutex_;            // guards what follows, and the file
  std::int64_t sequence_ = 0;
  bool torn_ = false;  // the last append failed, perhaps within a line
  int dropped_ = 0;
};

// Thrown where an attempt finds that a newer one owns the run.
struct Fenced {};

}  // namespace regatta::trainer::run
