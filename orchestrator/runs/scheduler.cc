#include "orchestrator/runs/scheduler.h"

#include <iterator>

namespace regatta::orchestrator::runs {
namespace {

constexpr const char* kCauses[] = {
    "",         "time limit", "node failure", "launch failure", "out of memory", "preempted",
    "deadline", "cancelled",  "held",         "stuck",          "impossible"};

}  // namespace

const char* name_of(Cause cause) { return kCauses[static_cast<std::size_t>(cause)]; }

Cause parse_cause(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kCauses); ++i) {
    if (name == kCauses[i]) return static_cast<Cause>(i);
  }
  return Cause::None;
}

std::string family_of(std::string_view scheduler) {
  return std::string(scheduler.substr(0, scheduler.find('_')));
}

}  // namespace regatta::orchestrator::runs
