// The key with which a request may be repeated (the header Idempotency-Key).
#pragma once

#include <string>

#include "base/error.h"
#include "orchestrator/control/request_error.h"

namespace regatta::orchestrator::control {

constexpr std::size_t kLongestKey = 200;

// Code::User for one that cannot be one.
inline void check_key(const std::string& key) {
  bool good = !key.empty() && key.size() <= kLongestKey;
  for (const char c : key) good = good && c > 0x20 && c < 0x7F;
  if (good) return;
  throw RequestError(base::Code::User,
                     "the idempotency key is not usable; use 1 to 200 printable ASCII characters",
                     "Idempotency-Key");
}

// As a name to be locked; no run's id.
[[nodiscard]] inline std::string lock_name(const std::string& key) { return "key " + key; }

// Submissions keep their keys with their runs, other requests beside them: of both a key is one.
[[noreturn]] inline void refuse_key_of_submission(const std::string& run) {
  throw base::Error(
      base::Code::Conflict,
      "the idempotency key was used for the submission of run " + run + "; use a new key");
}
// run: empty where it was removed.
[[noreturn]] inline void refuse_key_of_change(const std::string& run) {
  throw base::Error(base::Code::Conflict,
                    "the idempotency key was used for another request about " +
                        (run.empty() ? "a run that was removed" : "run " + run) +
                        "; use a new key");
}

}  // namespace regatta::orchestrator::control
