// Time as a parameter: everything that waits or stamps takes a Clock, so tests can simulate it.
#pragma once

#include <chrono>
#include <string>

namespace regatta::base {

class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds on a monotonic clock with an arbitrary origin; the only source of durations.
  [[nodiscard]] virtual double monotonic_seconds() const = 0;
  // Seconds since 1970 (UTC); for display and for records, never for durations.
  [[nodiscard]] virtual double utc_seconds() const = 0;
  virtual void sleep(std::chrono::duration<double> duration) = 0;
};

// The machine's clocks. Thread-safe; lives for the whole process.
[[nodiscard]] Clock& system_clock();

// "2026-11-21T11:48:02.125Z" of seconds since 1970, to the nearest millisecond; kept within the
// years 1970 to 9999, and not-a-number reads as 1970.
[[nodiscard]] std::string iso8601(double utc_seconds);

}  // namespace regatta::base
