// A disk that is slow to sync, for a program that is started with LD_PRELOAD.
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace {

int sync_slowly(long call, int file) {
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  return static_cast<int>(::syscall(call, file));
}

}  // namespace

extern "C" int fsync(int file) { return sync_slowly(SYS_fsync, file); }
extern "C" int fdatasync(int file) { return sync_slowly(SYS_fdatasync, file); }
