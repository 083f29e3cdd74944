// How far each webhook has been told of events; what the store keeps of it.
#pragma once

#include <cstdint>
#include <string>

namespace regatta::orchestrator::store {

struct WebhookPlace {
  std::string name;
  std::string address;         // a digest of its URL: another one is tried anew
  std::int64_t position = 0;   // events up to this number are settled: delivered, or skipped
  std::int64_t delivered = 0;  // the newest that was delivered; 0: none so far, and
  double delivered_utc = 0;    // when
  int failures = 0;            // of the event that is next, in a row, and
  double failing_since_utc = 0;
  double next_try_utc = 0;  // not before
  bool dead = false;        // it failed for so long that nothing is tried until somebody asks
  std::string error;        // of the newest try; empty: it went well

  bool operator==(const WebhookPlace&) const = default;
};

}  // namespace regatta::orchestrator::store
