// Where the server listens: descriptors that are bound, listen and never block.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/file_system.h"
#include "base/unique_fd.h"

namespace regatta::orchestrator::api {

struct TcpListener {
  base::UniqueFd fd;
  int port = 0;
};
// port 0: any free one. Code::Operator for a port in use (naming --port).
[[nodiscard]] TcpListener listen_on_tcp(const std::string& address, int port);

// A socket in the file system that only its owner can connect to (mode 0600 from the first moment).
class UnixListener {
 public:
  // What a controller that is gone left there is removed. Code::Operator when another one answers,
  // when the file is no socket, when its folder cannot be used. Any length of path will do, as long
  // as the last part has at most 64 bytes.
  explicit UnixListener(const base::Path& path);
  // Removes the file, unless it is another's by now.
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  base::UniqueFd folder_;
  base::UniqueFd fd_;
  std::string name_;
  ino_t inode_ = 0;
};

}  // namespace regatta::orchestrator::api
