// A reading mark for readings that may take longer than a mark holds.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/file_system.h"
#include "checkpoint/pins.h"

namespace regatta::checkpoint {

// Twice as often as a mark needs it, so that one renewal may fail.
constexpr double kRenewalSeconds = kLongestMark / 4;

class HeldMark {
 public:
  // As ReadingMark; `checkpoint` is the checkpoint's directory. A thread of its own renews the mark
  // every `renewal_seconds`, and uses `files` and `clock` for that, which must outlive it. A
  // renewal that fails is tried again at the next.
  HeldMark(base::FileSystem& files, const base::Clock& clock, const base::Path& checkpoint,
           const std::string& reader, double renewal_seconds = kRenewalSeconds);

 private:
  void renew(const std::stop_token& stop, double renewal_seconds);

  const base::Clock& clock_;
  ReadingMark mark_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last: it ends before what it uses
};

// The same, but null where no mark can be written (a file system for reading only, a directory that
// is no checkpoint's): the reading goes on without. Code::NotFound as ReadingMark.
[[nodiscard]] std::unique_ptr<HeldMark> hold_mark(base::FileSystem& files, const base::Clock& clock,
                                                  const base::Path& checkpoint,
                                                  const std::string& reader);

}  // namespace regatta::checkpoint
