#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/file_system.h"
#include "orchestrator/api/connections.h"
#include "orchestrator/api/http.h"

namespace regatta::orchestrator::api {

constexpr int kNoPort = -1;

struct ServerOptions {
  std::string address = "127.0.0.1";
  int port = 8420;         // 0: any free one; kNoPort: no TCP
  base::Path socket = {};  // of a unix socket, made with mode 0600 and removed at the end; or empty
  ConnectionLimits limits = {};
  // Paths whose GET takes no time: they never wait for other requests.
  std::set<std::string> quick = {"/api/v1/version", "/healthz", "/readyz"};
};

// An HTTP/1.1 server on one address, on a unix socket, or on both. Before the handler sees a
// request, it is whole, its head is one that can be read in one way only (`request_head.h`: 400,
// 411, 413, 414, 431, 501, 505), and: Host must name this machine's loopback or the given address,
// and Origin must be this server (403; over the unix socket any Host will do, and there is no
// Origin); bodies are neither compressed nor forms (415). A request that is late gets 408, one for
// which no worker is free and the queue full 503. One request per connection: a body that was
// refused can then never be read as another request. Ranges are not served: every answer is the
// whole one.
class HttpServer {
 public:
  // Called from several threads; POST and DELETE from other ones than the rest. Exceptions that
  // leave it become a 500 without detail.
  using Handler = std::function<Response(const Request&)>;

  // Binds and listens. Code::Operator for a port in use (naming --port), for an address that is not
  // loopback, and for a socket on which another server answers.
  HttpServer(const ServerOptions& options, Handler handler);
  // Closes all connections and waits for handlers that are at work.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Answers in threads of its own from now on.
  void start();
  [[nodiscard]] int port() const;         // 0 without TCP
  [[nodiscard]] std::string url() const;  // empty without TCP

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Whether `host` (a Host header, or the part of an Origin after "://"; any port) names loopback or
// `address`.
[[nodiscard]] bool host_is_allowed(const std::string& host, const std::string& address);
[[nodiscard]] bool is_loopback(const std::string& address);

}  // namespace regatta::orchestrator::api
