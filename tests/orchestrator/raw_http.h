// HTTP by hand, so that a test can send what no library would.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>

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

// Sends `bytes` to 127.0.0.1:`port` and reads until the server closes (at most 20 s of silence).
enum class Afterwards { Listen, HangUp };
inline RawAnswer send_raw(int port, const std::string& bytes,
                          Afterwards afterwards = Afterwards::Listen) {
  const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{20, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return {};
  }
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count = ::send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    sent += static_cast<std::size_t>(count);
  }
  if (afterwards == Afterwards::HangUp) return {};
  std::string answer;
  char block[4096];
  for (;;) {
    const ssize_t count = ::recv(fd.get(), block, sizeof block, 0);
    if (count < 0 && errno == EINTR) continue;  // the end of a child is enough, with a time limit
    if (count <= 0) break;
    answer.append(block, static_cast<std::size_t>(count));
  }
  RawAnswer parsed;
  const std::size_t end = answer.find("\r\n\r\n");
  if (end == std::string::npos || answer.rfind("HTTP/1.1 ", 0) != 0) return parsed;
  parsed.status = std::atoi(answer.c_str() + 9);
  parsed.headers = answer.substr(0, end + 2);
  parsed.body = answer.substr(end + 4);
  return parsed;
}

inline std::string request_text(const std::string& method, const std::string& target,
                                const std::string& headers = "", const std::string& body = "") {
  std::string text = method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers;
  if (method == "POST") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}

}  // namespace regatta::tests
