#include "base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include "base/error.h"

namespace regatta::base {

void hold_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // takes the lowest number
  }
}

void finish_output() {
  std::cout.flush();
  const bool failed_before = std::ferror(stdout) != 0 || std::cout.fail();
  errno = 0;
  const bool fails_now = std::fflush(stdout) != 0;
  const int why = errno;
  if (!failed_before && !fails_now) return;
  if (why == EPIPE) return;
  throw Error(Code::Operator, std::string("what was printed did not all get to standard output") +
                                  (why != 0 ? std::string(": ") + std::strerror(why) : "") +
                                  "; make room, and run it again");
}

}  // namespace regatta::base
