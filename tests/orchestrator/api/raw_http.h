// HTTP by hand, so that a test can send what no library would.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace regatta::tests {

struct RawAnswer {
  int status = 0;
  std::string headers;  // with the status line
  std::string body;

  // The value of a header; empty when absent.
  [[nodiscard]] std::string header(const std::string& name) const {
    const std::size_t at = headers.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "";
    const std::size_t begin = at + name.size() + 4;
    return headers.substr(begin, headers.find("\r\n", begin) - begin);
  }
};

// A connection to 127.0.0.1:`port`, which gives up after 20 s of silence; none when refused.
inline base::UniqueFd connect_tcp(int port) {
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{20, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return {};
  }
  return fd;
}

// The same to a unix socket, whose path must be short.
inline base::UniqueFd connect_unix(const std::string& path) {
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{20, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  base::check(path.size() < sizeof address.sun_path, "a short path");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return {};
  }
  return fd;
}

// Whether all of it went out.
inline bool send_bytes(const base::UniqueFd& fd, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count = ::send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

// Everything until the server closes.
inline std::string receive_all(const base::UniqueFd& fd) {
  std::string answer;
  char block[4096];
  for (;;) {
    const ssize_t count = ::recv(fd.get(), block, sizeof block, 0);
    if (count < 0 && errno == EINTR) continue;  // the end of a child is enough, with a time limit
    if (count <= 0) break;
    answer.append(block, static_cast<std::size_t>(count));
  }
  return answer;
}

inline RawAnswer parse_answer(const std::string& answer) {
  RawAnswer parsed;
  const std::size_t end = answer.find("\r\n\r\n");
  if (end == std::string::npos || answer.rfind("HTTP/1.1 ", 0) != 0) return parsed;
  parsed.status = std::atoi(answer.c_str() + 9);
  parsed.headers = answer.substr(0, end + 2);
  parsed.body = answer.substr(end + 4);
  return parsed;
}

// Why an answer is not exactly one answer; empty when it is: one status line, one Content-Length,
// that many bytes and none after them (none at all for HEAD, 304 and 204).
inline std::string flaw_of(const std::string& answer, bool of_head) {
  const std::size_t end = answer.find("\r\n\r\n");
  if (answer.rfind("HTTP/1.1 ", 0) != 0 || end == std::string::npos) return "no HTTP/1.1 answer";
  const std::string head = answer.substr(0, end + 2);
  const std::size_t body = answer.size() - end - 4;
  const std::size_t first = head.find("\r\nContent-Length: ");
  if (head.find("\r\nTransfer-Encoding") != std::string::npos) return "a transfer encoding";
  const int status = std::atoi(answer.c_str() + 9);
  if (status == 304 || status == 204) {
    if (first != std::string::npos) return "a length without a body";
    return body == 0 ? "" : "bytes after a head";
  }
  if (first == std::string::npos) return "no Content-Length";
  if (head.find("\r\nContent-Length: ", first + 1) != std::string::npos) return "two lengths";
  const std::size_t said = std::stoul(head.substr(first + 18));
  if (of_head) return body == 0 ? "" : "a body after HEAD";
  return said == body ? "" : std::to_string(said) + " said, " + std::to_string(body) + " sent";
}

// Sends `bytes` to 127.0.0.1:`port` and reads until the server closes.
enum class Afterwards { Listen, HangUp };
inline RawAnswer send_raw(int port, const std::string& bytes,
                          Afterwards afterwards = Afterwards::Listen) {
  const base::UniqueFd fd = connect_tcp(port);
  if (!fd.valid()) return {};
  send_bytes(fd, bytes);  // a refusal may come before the end
  return afterwards == Afterwards::HangUp ? RawAnswer{} : parse_answer(receive_all(fd));
}

inline RawAnswer send_unix(const std::string& path, const std::string& bytes) {
  const base::UniqueFd fd = connect_unix(path);
  if (!fd.valid()) return {};
  send_bytes(fd, bytes);
  return parse_answer(receive_all(fd));
}

inline std::string request_text(const std::string& method, const std::string& target,
                                const std::string& headers = "", const std::string& body = "") {
  std::string text = method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers;
  if (method == "POST") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}

}  // namespace regatta::tests
