#include "orchestrator/api/listeners.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::api {
namespace {

constexpr int kBacklog = 128;
constexpr std::size_t kMaxName = 64;  // "/proc/self/fd/N/" and this fit into sun_path's 108 bytes

[[noreturn]] void refuse(const std::string& message) {
  throw base::Error(base::Code::Operator, message);
}

int port_of(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return 0;
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

// A path of a socket may have 107 bytes; through the folder's descriptor it is always short.
sockaddr_un address_of(int folder, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(folder) + "/" + name;
  base::check(path.size() < sizeof address.sun_path, "the name of a socket is short");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

base::UniqueFd unix_socket() {
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) base::throw_errno(errno, "cannot make a socket");
  return fd;
}

// Removes what a server that is gone left; the folder is locked meanwhile, so that of two that
// start together one cannot remove the other's.
void clear_place(int folder, const std::string& name, const std::string& path) {
  struct stat found {};
  if (::fstatat(folder, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return;
    base::throw_errno(errno, "cannot look at " + path);
  }
  if (!S_ISSOCK(found.st_mode)) refuse(path + " is not a socket; remove it or use another path");
  const base::UniqueFd probe = unix_socket();
  const sockaddr_un address = address_of(folder, name);
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno != ECONNREFUSED) {
    refuse("a controller already answers on " + path + "; stop it first");
  }
  if (::unlinkat(folder, name.c_str(), 0) != 0 && errno != ENOENT) {
    base::throw_errno(errno, "cannot remove the old socket " + path);
  }
}

}  // namespace

TcpListener listen_on_tcp(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string number = std::to_string(port);
  const std::string where = base::printable(address) + " port " + number;
  const int status = ::getaddrinfo(address.c_str(), number.c_str(), &hints, &found);
  if (status != 0) {
    refuse("cannot listen on " + where + ": " + ::gai_strerror(status) +
           "; choose another with --address and --port");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  int reason = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    TcpListener out{
        base::UniqueFd(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
    // Not SO_REUSEPORT, with which two controllers would share one port unnoticed.
    const int yes = 1;
    if (out.fd.valid() &&
        ::setsockopt(out.fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        ::bind(out.fd.get(), each->ai_addr, each->ai_addrlen) == 0 &&
        ::listen(out.fd.get(), kBacklog) == 0) {
      out.port = port_of(out.fd.get());
      return out;
    }
    if (reason != EADDRINUSE) reason = errno;
  }
  if (reason == EADDRINUSE) refuse("port " + number + " is in use; choose another with --port");
  refuse("cannot listen on " + where + ": " + std::strerror(reason) +
         "; choose another with --address and --port");
}

UnixListener::UnixListener(const base::Path& path) : name_(path.filename().string()) {
  const std::string text = base::printable(path.string());
  if (name_.empty() || name_ == "." || name_ == ".." || name_.size() > kMaxName) {
    refuse("the socket's name '" + base::printable(name_) + "' is not one of 1 to " +
           std::to_string(kMaxName) + " bytes");
  }
  const base::Path folder = path.has_parent_path() ? path.parent_path() : base::Path(".");
  folder_ = base::UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.valid()) base::throw_errno(errno, "cannot open the folder of the socket " + text);
  if (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) base::throw_errno(errno, "cannot lock the folder of " + text);
    refuse("another controller is just opening " + text);
  }
  clear_place(folder_.get(), name_, text);
  fd_ = unix_socket();
  const sockaddr_un address = address_of(folder_.get(), name_);
  // The mode of the descriptor becomes the file's, whatever the umask; nobody can connect before
  // listen().
  struct stat made {};
  if (::fchmod(fd_.get(), 0600) != 0 ||
      ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::fstatat(folder_.get(), name_.c_str(), &made, AT_SYMLINK_NOFOLLOW) != 0) {
    base::throw_errno(errno, "cannot make the socket " + text);
  }
  inode_ = made.st_ino;
  if ((made.st_mode & 0177U) != 0 && ::fchmodat(folder_.get(), name_.c_str(), 0600, 0) != 0) {
    base::throw_errno(errno, "cannot protect the socket " + text);
  }
  if (::listen(fd_.get(), kBacklog) != 0) base::throw_errno(errno, "cannot listen on " + text);
  ::flock(folder_.get(), LOCK_UN);
}

UnixListener::~UnixListener() {
  struct stat found {};
  if (::fstatat(folder_.get(), name_.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
      found.st_ino == inode_) {
    ::unlinkat(folder_.get(), name_.c_str(), 0);
  }
}

}  // namespace regatta::orchestrator::api
