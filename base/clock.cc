#include "base/clock.h"

#include <cmath>
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
  const double whole = std::floor(utc_seconds);
  const int milliseconds = static_cast<int>((utc_seconds - whole) * 1000.0);
  const auto seconds = static_cast<std::time_t>(whole);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[80];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                milliseconds);
  return text;
}

}  // namespace regatta::base
