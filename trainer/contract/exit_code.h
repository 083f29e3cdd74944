#pragma once

#include "base/error.h"

namespace regatta::trainer::contract {

// What `regatta-train run` returns; schedulers and the controller decide from it alone.
enum class ExitCode : int {
  Finished = 0,    // target met or the last step done
  User = 20,       // the input is wrong: no retry
  Operator = 21,   // the machine or installation is wrong: no retry until someone acts
  Retry = 22,      // start again from the last checkpoint
  Fenced = 23,     // a newer attempt owns the run: nothing to do
  Stopped = 24,    // asked to stop (TERM); a checkpoint was written; resume when wanted
  Continue = 25,   // its time is over; a checkpoint was written; start again at once
  Developer = 70,  // a bug
};

[[nodiscard]] inline ExitCode exit_code_of(base::Code code) {
  switch (code) {
    case base::Code::User:
    case base::Code::NotFound:
    case base::Code::Conflict:
      return ExitCode::User;
    case base::Code::Forbidden:
    case base::Code::Operator:
      return ExitCode::Operator;
    case base::Code::Retry:
      return ExitCode::Retry;
    case base::Code::Developer:
      return ExitCode::Developer;
  }
  return ExitCode::Developer;
}

}  // namespace regatta::trainer::contract
