#include "checkpoint/held_mark.h"

#include <chrono>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/store.h"

namespace regatta::checkpoint {

HeldMark::HeldMark(base::FileSystem& files, const base::Clock& clock, const base::Path& checkpoint,
                   const std::string& reader, double renewal_seconds)
    : clock_(clock),
      mark_(files, checkpoint.parent_path(), checkpoint.filename().string(), reader,
            clock.utc_seconds()),
      thread_(
          [this, renewal_seconds](const std::stop_token& stop) { renew(stop, renewal_seconds); }) {}

void HeldMark::renew(const std::stop_token& stop, double renewal_seconds) {
  const std::chrono::duration<double> pause(renewal_seconds);
  while (true) {
    {
      std::unique_lock lock(mutex_);
      stopped_.wait_for(lock, stop, pause, [] { return false; });
    }
    if (stop.stop_requested()) return;
    try {
      mark_.renew(clock_.utc_seconds());
    } catch (const base::Error& error) {
      base::log(base::LogLevel::Warning,
                std::string("the mark of a reader was not renewed: ") + error.what());
    }
  }
}

std::unique_ptr<HeldMark> hold_mark(base::FileSystem& files, const base::Clock& clock,
                                    const base::Path& checkpoint, const std::string& reader) {
  if (!parse_checkpoint_name(checkpoint.filename().string())) return nullptr;
  try {
    return std::make_unique<HeldMark>(files, clock, checkpoint, reader);
  } catch (const base::Error& error) {
    if (error.code() == base::Code::NotFound) throw;
    return nullptr;
  }
}

}  // namespace regatta::checkpoint
