#include "base/clock.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <thread>

namespace regatta::base {
namespace {

class SystemClock final : public Clock {
 public:
  double monotonic_seconds() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  double utc_seconds() const override {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  void sleep(std::chrono::duration<double> duration) override {
    std::this_thread::sleep_for(duration);
  }
};

}  // namespace

Clock& system_clock() {
  static SystemClock clock;  // stateless, so shared by all threads
  return clock;
}

std::string iso8601(double utc_seconds) {
  constexpr double kLast = 253402300799.999;  // the end of the year 9999
  if (!(utc_seconds > 0)) utc_seconds = 0;
  // Rounded, because 2.001 is a little less than that as a double.
  const auto total =
      static_cast<std::int64_t>(std::floor(std::min(utc_seconds, kLast) * 1000.0 + 0.5));
  const int milliseconds = static_cast<int>(total % 1000);
  const auto seconds = static_cast<std::time_t>(total / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[80];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                milliseconds);
  return text;
}

}  // namespace regatta::base
