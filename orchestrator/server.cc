#include "orchestrator/server.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace regatta::orchestrator {
namespace {

constexpr std::size_t kMaxPath = 1024;
constexpr std::size_t kThreads = 16;
constexpr int kBacklog = 128;  // the library's own is 5
constexpr int kTimeoutSeconds = 10;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

Response refusal(int status, const std::string& message) {
  Response response;
  response.status = status;
  response.body = R"({"error": {"code": "user", "message": ")" + message + "\"}}\n";
  return response;
}

void put(const Response& from, httplib::Response& to) {
  to.status = from.status;
  for (const auto& [name, value] : from.headers) {
    if (!has_control(value)) to.set_header(name, value);
  }
  to.set_header("X-Content-Type-Options", "nosniff");
  to.set_header("Referrer-Policy", "no-referrer");
  to.set_header("X-Frame-Options", "DENY");
  to.set_header("Content-Security-Policy",
                "default-src 'self'; img-src 'self' data:; "
                "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  if (from.body.empty()) {
    if (from.status != 304) to.set_header("Content-Type", from.content_type);
    return;
  }
  // A provider instead of a body: bodies the library would compress, brotli at its slowest.
  to.set_content_provider(
      from.body.size(), from.content_type,
      [body = from.body](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
        return sink.write(body.data() + offset, length);
      });
}

class Listener final : public httplib::Server {
 public:
  // The library listens with a backlog of 5; listening again changes only that.
  void widen_backlog() { ::listen(svr_sock_, kBacklog); }
};

}  // namespace

bool is_loopback(const std::string& address) {
  if (address == "localhost" || address == "::1") return true;
  in_addr parsed{};
  return ::inet_pton(AF_INET, address.c_str(), &parsed) == 1 &&
         (ntohl(parsed.s_addr) >> 24U) == 127;
}

bool host_is_allowed(const std::string& host, const std::string& address) {
  std::string name = lower(host);
  if (!name.empty() && name.front() == '[') {
    const std::size_t end = name.find(']');
    if (end == std::string::npos) return false;
    name = name.substr(1, end - 1);
  } else {
    name = name.substr(0, name.find(':'));
  }
  return name == "localhost" || name == "127.0.0.1" || name == "::1" || name == lower(address);
}

class HttpServer::Implementation {
 public:
  Implementation(const ServerOptions& options, Handler handler)
      : options_(options), handler_(std::move(handler)) {
    if (!is_loopback(options.address)) {
      throw base::Error(base::Code::Operator,
                        "cannot listen on " + base::printable(options.address) +
                            ": without access tokens only loopback is allowed; use --address "
                            "127.0.0.1 and reach it through ssh -L");
    }
    configure();
    bind();
  }

  ~Implementation() {
    listener_.stop();
    if (thread_.joinable()) thread_.join();
  }

  void start() {
    thread_ = std::thread([this] { listener_.listen_after_bind(); });
    // stop() before the loop runs would be lost.
    while (!listener_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url() const {
    const bool v6 = options_.address.find(':') != std::string::npos;
    return "http://" + (v6 ? "[" + options_.address + "]" : options_.address) + ":" +
           std::to_string(port_);
  }

 private:
  void configure() {
    listener_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    listener_.set_keep_alive_max_count(1);
    listener_.set_tcp_nodelay(true);
    listener_.set_read_timeout(kTimeoutSeconds);
    listener_.set_write_timeout(kTimeoutSeconds);
    listener_.set_payload_max_length(kMaxBody);
    // The library's default is SO_REUSEPORT, with which two controllers share one port unnoticed.
    listener_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    listener_.set_pre_routing_handler([this](const httplib::Request& request,
                                             httplib::Response& response) {
      if (const auto refused = refuse(request)) {
        put(*refused, response);
        return httplib::Server::HandlerResponse::Handled;
      }
      if (request.method == "POST") return httplib::Server::HandlerResponse::Unhandled;
      put(answer(request, {}), response);  // here, so that no pattern is matched against the path
      return httplib::Server::HandlerResponse::Handled;
    });
    listener_.Post("/.*", [this](const httplib::Request& request, httplib::Response& response,
                                 const httplib::ContentReader& reader) {
      std::string body;
      const bool whole = reader([&](const char* bytes, std::size_t size) {
        if (body.size() + size > kMaxBody) return false;
        body.append(bytes, size);
        return true;
      });
      if (!whole) {
        const int status = response.status >= 400 ? response.status : 413;
        put(refusal(status,
                    status == 413 ? "the body is larger than 1 MiB" : "the body could not be read"),
            response);
        return;
      }
      put(answer(request, std::move(body)), response);
    });
    listener_.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.get_header_value("X-Content-Type-Options").empty()) {
        const int status = response.status;
        put(refusal(status, status == 413 ? "the body is larger than 1 MiB"
                                          : "the request cannot be answered"),
            response);
      }
    });
  }

  std::optional<Response> refuse(const httplib::Request& request) const {
    for (const auto& [name, value] : request.headers) {
      if (has_control(value)) return refusal(400, "a header has control characters");
    }
    if (request.path.size() > kMaxPath) return refusal(414, "the path is longer than 1024 bytes");
    if (!host_is_allowed(request.get_header_value("Host"), options_.address)) {
      return refusal(403, "this Host is not served here; use localhost or 127.0.0.1");
    }
    const std::string origin = request.get_header_value("Origin");
    const std::size_t scheme = origin.find("://");
    if (!origin.empty() &&
        (scheme == std::string::npos ||
         lower(origin.substr(scheme + 3)) != lower(request.get_header_value("Host")))) {
      return refusal(403, "requests from pages of other sites are not answered");
    }
    if (request.method != "POST") return std::nullopt;
    const std::string length = request.get_header_value("Content-Length");
    if (request.has_header("Transfer-Encoding") || length.empty()) {
      return refusal(411, "send the body with Content-Length");
    }
    if (request.get_header_value_count("Content-Length") != 1 || length.size() > 18 ||
        length.find_first_not_of("0123456789") != std::string::npos) {
      return refusal(400, "Content-Length is not a number");
    }
    if (request.has_header("Content-Encoding")) return refusal(415, "send the body uncompressed");
    if (request.is_multipart_form_data())
      return refusal(415, "send the run file itself as the body");
    return std::nullopt;
  }

  Response answer(const httplib::Request& from, std::string body) const {
    Request request;
    request.method = from.method == "HEAD" ? "GET" : from.method;
    request.path = from.path;
    for (const auto& [name, value] : from.params) request.query[name] = value;
    for (const auto& [name, value] : from.headers) request.headers[lower(name)] = value;
    request.body = std::move(body);
    try {
      return handler_(request);
    } catch (const std::exception& error) {
      base::log(base::LogLevel::Error, request.method + " " + request.path + ": " + error.what());
      return refusal(500, "the controller failed to answer; its log says why");
    }
  }

  void bind() {
    errno = 0;
    if (options_.port == 0) {
      port_ = listener_.bind_to_any_port(options_.address);
    } else if (listener_.bind_to_port(options_.address, options_.port)) {
      port_ = options_.port;
    }
    if (port_ > 0) {
      listener_.widen_backlog();
      return;
    }
    const std::string port = std::to_string(options_.port);
    if (errno == EADDRINUSE) {
      throw base::Error(base::Code::Operator,
                        "port " + port + " is in use; choose another with --port");
    }
    throw base::Error(base::Code::Operator, "cannot listen on " + options_.address + " port " +
                                                port + ": " + std::strerror(errno) +
                                                "; choose another with --address and --port");
  }

  ServerOptions options_;
  Handler handler_;
  Listener listener_;
  int port_ = 0;
  std::thread thread_;
};

HttpServer::HttpServer(const ServerOptions& options, Handler handler)
    : implementation_(std::make_unique<Implementation>(options, std::move(handler))) {}
HttpServer::~HttpServer() = default;
void HttpServer::start() { implementation_->start(); }
int HttpServer::port() const { return implementation_->port(); }
std::string HttpServer::url() const { return implementation_->url(); }

}  // namespace regatta::orchestrator
