#include "base/error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace regatta::base {

CodeMeaning meaning(Code code) {
  switch (code) {
    case Code::User:
      return {"user", 7, 422};
    case Code::NotFound:
      return {"not_found", 3, 404};
    case Code::Forbidden:
      return {"forbidden", 4, 403};
    case Code::Conflict:
      return {"conflict", 5, 409};
    case Code::Operator:
      return {"operator", 1, 500};
    case Code::Retry:
      return {"retry", 6, 503};
    case Code::Developer:
      return {"developer", 1, 500};
  }
  return {"developer", 1, 500};
}

void check(bool condition, std::string_view invariant) {
  if (condition) return;
  std::fprintf(stderr, "regatta: broken invariant: %.*s\n", static_cast<int>(invariant.size()),
               invariant.data());
  std::abort();
}

void throw_errno(int errno_value, const std::string& what) {
  const std::string reason = std::strerror(errno_value);
  if (errno_value == ENOSPC || errno_value == EDQUOT) {
    throw Error(Code::Operator, what + ": the disk is full; free some space and try again");
  }
  if (errno_value == ENOENT) throw Error(Code::NotFound, what + ": " + reason);
  throw Error(Code::Operator, what + ": " + reason);
}

}  // namespace regatta::base
