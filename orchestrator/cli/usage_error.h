// A command line that parses and still is wrong, which only its command sees.
#pragma once

#include <string>

#include "base/error.h"

namespace regatta::orchestrator::cli {

// The program ends with kUsageError. Thrown before anything was done.
class UsageError : public base::Error {
 public:
  explicit UsageError(const std::string& message) : base::Error(base::Code::User, message) {}
};

}  // namespace regatta::orchestrator::cli
