#include "trainer/run/journal_writer.h"

#include "base/error.h"
#include "base/log.h"

namespace regatta::trainer::run {

JournalWriter::JournalWriter(base::FileSystem& files, base::Clock& clock,
                             const contract::RunDirectory& directory,
                             const contract::AttemptName& attempt, const contract::Fence& fence)
    : clock_(clock),
      fence_(fence),
      file_(files.open(directory.journal_path(attempt), base::FileSystem::Open::CreateNew)),
      start_(clock.monotonic_seconds()) {}

JournalWriter::JournalWriter(base::Clock& clock, const contract::Fence& fence)
    : clock_(clock), fence_(fence), start_(clock.monotonic_seconds()) {}

double JournalWriter::seconds() const { return clock_.monotonic_seconds() - start_; }

void JournalWriter::append(contract::JournalRecord& record) {
  if (file_ == nullptr) return;
  if (!fence_.holds()) throw Fenced{};
  put(record);
}

void JournalWriter::write_end(const contract::EndRecord& end) {
  contract::JournalRecord record;
  record.body = end;
  put(record);
}

void JournalWriter::put(contract::JournalRecord& record) {
  if (file_ == nullptr) return;
  const std::scoped_lock lock(mutex_);
  record.sequence = sequence_++;
  record.utc_seconds = clock_.utc_seconds();
  record.seconds = seconds();
  try {
    // After a failed write the line so far is closed first, so that it damages no other.
    file_->append((torn_ ? "\n" : "") + contract::to_line(record));
    torn_ = false;
  } catch (const base::Error& error) {
    if (dropped_++ == 0) {
      base::log(base::LogLevel::Error, std::string("journal record lost: ") + error.what());
    }
    torn_ = true;
  }
  if (mllog_ == nullptr) return;
  const bool is_end = std::holds_alternative<contract::EndRecord>(record.body);
  if (!is_end || fence_.holds()) mllog_->follow(record);
}

}  // namespace regatta::trainer::run
