// What keeps a checkpoint from being removed: pins, which stay until taken away, and reading marks,
// which end by themselves. Layout: docs/formats/checkpoint.md.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/file_system.h"

namespace regatta::checkpoint {

constexpr std::size_t kLongestReason = 500;  // bytes
constexpr double kLongestMark = 3600;        // seconds that a mark holds unless renewed
// A mark that claims to hold longer than kLongestMark and this, in seconds, was written by a clock
// that is wrong; it does not hold, else it could for ever.
constexpr double kClockTolerance = 300;

struct Pin {
  std::string reason;  // of the user; may be empty, may hold anything
  double utc_seconds = 0;
};

// Pins of the checkpoints directory, by checkpoint. A file that cannot be understood pins: better
// one checkpoint too many. What the file system throws passes through.
[[nodiscard]] std::map<std::string, Pin> read_pins(base::FileSystem& files,
                                                   const base::Path& checkpoints);

// Pins, or replaces the reason. Code::NotFound when there is no such checkpoint or it is being
// removed; Code::User for a name that is not a checkpoint's and for a reason that is too long.
void pin(base::FileSystem& files, const base::Path& checkpoints, const std::string& name,
         const Pin& pin);
// False when it was not pinned. Code::User for a name that is not a checkpoint's.
bool unpin(base::FileSystem& files, const base::Path& checkpoints, const std::string& name);

// Checkpoints that somebody is reading at `utc_seconds`. A mark that cannot be understood does not
// count, since nothing would ever end it.
[[nodiscard]] std::set<std::string> read_marks(base::FileSystem& files,
                                               const base::Path& checkpoints, double utc_seconds);
// Removes the marks of readers that died.
void remove_ended_marks(base::FileSystem& files, const base::Path& checkpoints, double utc_seconds);

// Held while reading a checkpoint for long. Not for several threads; `files` must outlive it.
class ReadingMark {
 public:
  // `reader`: what reads, for people. Code::NotFound when the checkpoint is not there or is being
  // removed; Code::User for a name that is not a checkpoint's.
  ReadingMark(base::FileSystem& files, const base::Path& checkpoints, const std::string& name,
              const std::string& reader, double utc_seconds);
  // Removes the mark; one that cannot be removed ends by itself.
  ~ReadingMark();
  ReadingMark(const ReadingMark&) = delete;
  ReadingMark& operator=(const ReadingMark&) = delete;

  // For another kLongestMark from `utc_seconds`; call it at least twice as often.
  void renew(double utc_seconds);

 private:
  base::FileSystem& files_;
  base::Path path_;
  std::string reader_;
};

// Code::Operator when `checkpoints` or its folder `inside` (may be empty) is a symbolic link:
// nothing is written or removed through one.
void refuse_links(const base::Path& checkpoints, const std::string& inside);

}  // namespace regatta::checkpoint
