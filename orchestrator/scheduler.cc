#include "orchestrator/scheduler.h"

#include <iterator>

namespace regatta::orchestrator {
namespace {

constexpr const char* kCauses[] = {
    "",          "time limit", "node failure", "launch failure", "out of memory",
    "preempted", "cancelled",  "held",         "stuck",          "impossible"};

}  // namespace

const char* name_of(Cause cause) { return kCauses[static_cast<std::size_t>(cause)]; }

Cause parse_cause(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kCauses); ++i) {
    if (name == kCauses[i]) return static_cast<Cause>(i);
  }
  return Cause::None;
}

}  // namespace regatta::orchestrator
