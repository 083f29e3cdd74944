// One exception type for the whole project. The code says who must act, and one table maps it to an
// exit code and an HTTP status.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace regatta::base {

enum class Code {
  User,       // the input is wrong: the user changes it
  NotFound,   // what the user named does not exist
  Forbidden,  // who asks may not: root, another user, no token
  Conflict,   // what the user asks clashes with the present state
  Operator,   // the machine or the installation is wrong: full disk, port in use, mixed versions
  Retry,      // it may work if tried again: lost node, unreachable server
  Developer,  // a bug
};

struct CodeMeaning {
  std::string_view name;
  int exit_code;    // of the command line (docs/guide.md, "Exit codes")
  int http_status;  // of the API
};

[[nodiscard]] CodeMeaning meaning(Code code);

// message: one line, in the order what failed, the value, what to do next. key: of the document at
// fault, with the mappings that it is in ("model.hidden"), for programs; empty: no key is, or
// nobody knows which.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message, std::string key = {})
      : std::runtime_error(message), code_(code), key_(std::move(key)) {}
  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] const std::string& key() const { return key_; }

 private:
  Code code_;
  std::string key_;
};

// Aborts the process with the invariant in words: for programmer errors only, never for input.
void check(bool condition, std::string_view invariant);

// Throws Error(Operator) with `what` and the text of `errno_value`; ENOSPC and EDQUOT say that the
// disk is full, ENOENT becomes NotFound.
[[noreturn]] void throw_errno(int errno_value, const std::string& what);

}  // namespace regatta::base
