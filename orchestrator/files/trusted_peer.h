// Who answers at the other end, asked of the kernel: a client tells what it knows only to its own
// user's controller, or to root's.
#pragma once

#include <string>

#include "base/file_system.h"
#include "base/unique_fd.h"

namespace regatta::orchestrator::files {

// A name of a unix socket that a socket address can hold (107 bytes), good while this object is.
class SocketName {
 public:
  explicit SocketName(const base::Path& path);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  base::UniqueFd folder_;
  std::string text_;
};

// Throws for a unix socket that could not be connected to: Code::Retry when nobody listens there
// (yet), Code::Operator when it is another user's.
[[noreturn]] void refuse_socket(const base::Path& path, int errno_value);

// Empty when whoever listens behind this connected unix socket is the user or root, else why
// nothing may be sent, as a clause.
[[nodiscard]] std::string why_not_own_socket(int fd);

// Empty when the listener on this address of this machine is the user's own or root's, else why
// not, as a clause. A token that is sent to a port tells it to whoever was there first.
[[nodiscard]] std::string why_not_own_listener(const std::string& address, int port);

// The same, of the text of /proc/net/tcp and tcp6: every listener on `port` at `address`, or at any
// address, must be of `user` or root.
[[nodiscard]] std::string why_not_own_listener(const std::string& tables,
                                               const std::string& address, int port, unsigned user);

}  // namespace regatta::orchestrator::files
