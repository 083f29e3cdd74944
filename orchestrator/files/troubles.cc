#include "orchestrator/files/troubles.h"

#include "base/log.h"

namespace regatta::orchestrator::files {
namespace {

constexpr double kMinute = 60;
constexpr int kMostAMinute = 5;

}  // namespace

void Troubles::tell(const std::string& subject, const std::string& message, double now) {
  if (now - minute_ >= kMinute) begin_minute(now);
  std::string& newest = newest_[subject];
  if (newest == message) return;
  newest = message;
  if (said_ >= kMostAMinute) {
    ++unsaid_;
    return;
  }
  ++said_;
  base::log(base::LogLevel::Error, subject + ": " + message);
}

void Troubles::begin_minute(double now) {
  if (unsaid_ > 0) {
    base::log(base::LogLevel::Error,
              std::to_string(unsaid_) + " more such messages about other runs were left out");
  }
  minute_ = now;
  said_ = 0;
  unsaid_ = 0;
}

}  // namespace regatta::orchestrator::files
