#include "orchestrator/files/trusted_peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/error.h"
#include "base/text.h"

namespace regatta::orchestrator::files {
namespace {

constexpr std::uint64_t kMostTable = std::uint64_t{64} << 20U;  // of /proc/net/tcp

// An address of 4 bytes becomes the 16 of ::ffff:a.b.c.d, so that both tables compare alike.
using Address = std::array<std::uint8_t, 16>;
Address mapped(const std::uint8_t* four) {
  Address address{};
  address[10] = address[11] = 0xFF;
  std::memcpy(address.data() + 12, four, 4);
  return address;
}

// As the tables have it: words of 32 bits in the machine's order.
std::optional<Address> parse_table_address(const std::string& digits) {
  if (digits.size() != 8 && digits.size() != 32) return std::nullopt;
  Address bytes{};
  for (std::size_t word = 0; word < digits.size() / 8; ++word) {
    const std::string part = digits.substr(8 * word, 8);
    if (part.find_first_not_of("0123456789ABCDEF") != std::string::npos) return std::nullopt;
    const auto value = static_cast<std::uint32_t>(std::stoul(part, nullptr, 16));
    std::memcpy(bytes.data() + 4 * word, &value, 4);
  }
  return digits.size() == 8 ? mapped(bytes.data()) : bytes;
}

std::optional<Address> parse_address(const std::string& text) {
  Address address{};
  if (::inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  std::array<std::uint8_t, 4> four{};
  if (::inet_pton(AF_INET, text.c_str(), four.data()) == 1) return mapped(four.data());
  return std::nullopt;
}

bool is_any(const Address& address) {
  constexpr std::array<std::uint8_t, 4> kNone{};
  return address == Address{} || address == mapped(kNone.data());
}

}  // namespace

SocketName::SocketName(const base::Path& path) : text_(path.string()) {
  if (text_.size() < sizeof(sockaddr_un::sun_path)) return;
  folder_ = base::UniqueFd(::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.valid()) refuse_socket(path, errno);
  text_ = "/proc/self/fd/" + std::to_string(folder_.get()) + "/" + path.filename().string();
  if (text_.size() >= sizeof(sockaddr_un::sun_path)) refuse_socket(path, ENAMETOOLONG);
}

void refuse_socket(const base::Path& path, int errno_value) {
  const std::string name = "the controller at unix:" + base::printable(path.string());
  if (errno_value == EACCES || errno_value == EPERM) {
    throw base::Error(base::Code::Forbidden,
                      name + " is another user's; start your own with 'regatta serve'");
  }
  const std::string why = errno_value == ENOENT         ? "there is no such socket"
                          : errno_value == ECONNREFUSED ? "it has ended"
                                                        : std::strerror(errno_value);
  throw base::Error(base::Code::Retry, "cannot reach " + name + " (" + why +
                                           "); start it with 'regatta serve', or name another "
                                           "with --server");
}

std::string why_not_own_socket(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::strerror(errno);
  if (peer.uid == ::geteuid() || peer.uid == 0) return "";
  return "the program behind it is of user " + std::to_string(peer.uid) + ", not of yours";
}

std::string why_not_own_listener(const std::string& tables, const std::string& address, int port,
                                 unsigned user) {
  constexpr const char* kListens = "0A";
  const std::optional<Address> wanted = parse_address(address);
  bool found = false;
  std::istringstream lines(tables);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits;
    unsigned owner = 0;
    if (!(words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> owner) ||
        state != kListens) {
      continue;
    }
    const std::size_t colon = local.find(':');
    if (colon == std::string::npos || std::strtol(local.c_str() + colon + 1, nullptr, 16) != port) {
      continue;
    }
    const std::optional<Address> listens = parse_table_address(local.substr(0, colon));
    if (!listens || (listens != wanted && !is_any(*listens))) continue;
    if (owner != user && owner != 0)
      return "port " + std::to_string(port) + " is held by user " + std::to_string(owner);
    found = true;
  }
  return found ? "" : "nobody can tell whose port " + std::to_string(port) + " is";
}

std::string why_not_own_listener(const std::string& address, int port) {
  std::string tables;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    try {
      tables += base::posix_file_system().read(table, kMostTable) + "\n";
    } catch (const base::Error&) {  // a kernel without IPv6 has one table
    }
  }
  return why_not_own_listener(tables, address, port, ::geteuid());
}

}  // namespace regatta::orchestrator::files
