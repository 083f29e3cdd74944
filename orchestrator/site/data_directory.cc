#include "orchestrator/site/data_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace regatta::orchestrator::site {
namespace {

constexpr int kTokenBytes = 32;
constexpr std::size_t kTokenDigits = 2 * kTokenBytes;
constexpr const char* kRemedy = "; remove it and start 'regatta serve' again, which makes another";

[[noreturn]] void refuse_token(const base::Path& path, const std::string& why) {
  throw base::Error(base::Code::Operator,
                    "the token " + base::printable(path.string()) + " " + why + kRemedy);
}

}  // namespace

std::optional<base::Path> default_data_directory(const ProgramEnvironment& environment) {
  if (environment.state_home && !environment.state_home->empty()) {
    return base::Path(*environment.state_home) / "regatta";
  }
  if (environment.home && !environment.home->empty()) {
    return base::Path(*environment.home) / ".local" / "state" / "regatta";
  }
  return std::nullopt;
}

base::Path socket_path(const base::Path& data) { return data / "controller.sock"; }
base::Path token_path(const base::Path& data) { return data / "token"; }

std::string read_token(const base::Path& path) {
  // Not blocking, since it may be a pipe that somebody left there.
  const base::UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid() && errno == ELOOP) refuse_token(path, "is a symbolic link");
  if (!fd.valid()) {
    base::throw_errno(errno, "cannot read the token " + base::printable(path.string()));
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) base::throw_errno(errno, "cannot look at " + path.string());
  if (!S_ISREG(status.st_mode)) refuse_token(path, "is not a regular file");
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    refuse_token(path, "belongs to user " + std::to_string(status.st_uid) + ", not to you");
  }
  if ((status.st_mode & 077U) != 0) {
    refuse_token(path, "can be read or written by others (it needs mode 0600), so it may be known");
  }
  std::array<char, kTokenDigits + 2> bytes{};
  const ssize_t count = ::read(fd.get(), bytes.data(), bytes.size());
  if (count < 0) base::throw_errno(errno, "cannot read the token " + path.string());
  std::string token(bytes.data(), static_cast<std::size_t>(count));
  if (!token.empty() && token.back() == '\n') token.pop_back();
  if (token.size() != kTokenDigits ||
      token.find_first_not_of("0123456789abcdef") != std::string::npos) {
    refuse_token(path, "is damaged: it must be one line of 64 hexadecimal digits");
  }
  return token;
}

std::string keep_token(base::FileSystem& files, const base::Path& data) {
  struct stat status {};
  if (::stat(data.c_str(), &status) != 0) {
    base::throw_errno(errno, "cannot look at " + data.string());
  }
  if ((status.st_uid != ::geteuid() && status.st_uid != 0) || (status.st_mode & 022U) != 0) {
    throw base::Error(base::Code::Operator,
                      "others can write into the data directory " + base::printable(data.string()) +
                          ", so they could pass for this controller; chmod 700 it, or name another "
                          "with --data");
  }
  const base::Path path = token_path(data);
  try {
    return read_token(path);
  } catch (const base::Error& error) {
    if (error.code() != base::Code::NotFound) throw;
  }
  const std::string token = base::random_hex(kTokenBytes);
  base::replace_file(files, path, token + "\n");
  return token;
}

}  // namespace regatta::orchestrator::site
