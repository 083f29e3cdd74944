#pragma once

#include <functional>
#include <memory>
#include <string>

#include "orchestrator/http.h"

namespace regatta::orchestrator {

struct ServerOptions {
  std::string address = "127.0.0.1";
  int port = 8420;  // 0: any free one
};

constexpr std::size_t kMaxBody = std::size_t{1} << 20U;

// An HTTP/1.1 server on one address. Before the handler sees a request: Host must name this
// machine's loopback or the given address (403), Origin must be this server (403), a POST needs
// Content-Length (411), no Content-Encoding (415) and at most kMaxBody bytes (413), paths end at
// 1024 bytes (414), header values have no control bytes (400). One request per connection: a body
// that was refused can then never be read as another request.
class HttpServer {
 public:
  // Called from several threads. Exceptions that leave it become a 500 without detail.
  using Handler = std::function<Response(const Request&)>;

  // Binds and listens. Code::Operator for a port in use (naming --port) and for an address that is
  // not loopback.
  HttpServer(const ServerOptions& options, Handler handler);
  // Stops answering and joins.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Answers in threads of its own from now on.
  void start();
  [[nodiscard]] int port() const;
  [[nodiscard]] std::string url() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Whether `host` (a Host header, or the part of an Origin after "://"; any port) names loopback or
// `address`.
[[nodiscard]] bool host_is_allowed(const std::string& host, const std::string& address);
[[nodiscard]] bool is_loopback(const std::string& address);

}  // namespace regatta::orchestrator
