#include "orchestrator/api/server.h"

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/ascii.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/delivery.h"
#include "orchestrator/api/exchange.h"
#include "orchestrator/api/listeners.h"
#include "orchestrator/files/work_lane.h"

namespace regatta::orchestrator::api {
namespace {

// Together with their queues fewer than a peer may have connections: however many slow requests it
// sends, there is one left to ask for the version.
constexpr files::WorkLane::Size kReads{8, 96};
constexpr files::WorkLane::Size kWrites{4, 96};
constexpr files::WorkLane::Size kQuick{2, 64};
constexpr int kStreamWorkers = 4;

constexpr std::size_t kMostPort = 6;  // with its colon

std::string value_of(const RequestHead& head, std::string_view name) {
  const std::string* const value = head.find(name);
  return value == nullptr ? "" : *value;
}

}  // namespace

bool is_loopback(const std::string& address) {
  if (address == "localhost" || address == "::1") return true;
  in_addr parsed{};
  return ::inet_pton(AF_INET, address.c_str(), &parsed) == 1 &&
         (ntohl(parsed.s_addr) >> 24U) == 127;
}

bool host_is_allowed(const std::string& host, const std::string& address) {
  const std::string whole = base::lower_case(host);
  const bool v6 = !whole.empty() && whole.front() == '[';
  const std::size_t end = std::min(whole.find(v6 ? ']' : ':'), whole.size());
  if (v6 && end == whole.size()) return false;
  const std::string name = v6 ? whole.substr(1, end - 1) : whole.substr(0, end);
  const std::string_view port = std::string_view(whole).substr(v6 ? end + 1 : end);
  // Nothing but a port may follow, or "127.0.0.1:1@evil" were this host.
  if (!port.empty() && (port.front() != ':' || port.size() > kMostPort ||
                        port.find_first_not_of("0123456789", 1) != std::string_view::npos)) {
    return false;
  }
  return name == "localhost" || name == "127.0.0.1" || name == "::1" ||
         name == base::lower_case(address);
}

class HttpServer::Implementation {
 public:
  Implementation(const ServerOptions& options, Handler handler)
      : options_(options), handler_(std::move(handler)) {
    if (options.port != kNoPort) {
      if (!is_loopback(options.address)) {
        throw base::Error(base::Code::Operator,
                          "cannot listen on " + base::printable(options.address) +
                              ": without encryption only loopback is allowed; use --address "
                              "127.0.0.1 and reach it through ssh -L");
      }
      tcp_ = listen_on_tcp(options.address, options.port);
    }
    if (!options.socket.empty()) unix_.emplace(options.socket);
    std::vector<int> listening;
    if (tcp_.fd.valid()) listening.push_back(tcp_.fd.get());
    if (unix_) listening.push_back(unix_->fd());
    connections_.emplace(
        listening, options_.limits,
        Connections::Events{
            [this](const RequestHead& head, const Peer& peer) { return refuse(head, peer); },
            [this](Connections::Id id, const RequestHead& head, std::string body,
                   const Peer& peer) { return take(id, head, std::move(body), peer); },
            [this](Connections::Id id, const std::shared_ptr<BodyStream>& rest) {
              return ask(id, rest);
            }});
  }

  // No more requests begin; then the lanes end, whose last answers still find the connections.
  ~Implementation() { connections_->stop(); }

  void start() { connections_->start(); }

  [[nodiscard]] int port() const { return tcp_.port; }
  [[nodiscard]] std::string url() const {
    if (tcp_.port == 0) return "";
    const bool v6 = options_.address.find(':') != std::string::npos;
    return "http://" + (v6 ? "[" + options_.address + "]" : options_.address) + ":" +
           std::to_string(tcp_.port);
  }

 private:
  std::optional<Response> refuse(const RequestHead& head, const Peer& peer) const {
    const std::string* const origin = head.find("origin");
    if (peer.local_socket) {
      if (origin != nullptr) {
        return error_response(403, "forbidden",
                              "requests from pages do not come over the unix socket");
      }
    } else {
      const std::string host = value_of(head, "host");
      if (!host_is_allowed(host, options_.address)) {
        return error_response(403, "forbidden",
                              "this Host is not served here; use localhost or 127.0.0.1");
      }
      if (origin != nullptr && !is_own(*origin, host)) {
        return error_response(403, "forbidden",
                              "requests from pages of other sites are not answered");
      }
    }
    if (head.find("expect") != nullptr &&
        base::lower_case(value_of(head, "expect")) != "100-continue") {
      return error_response(417, "expectation_failed", "this Expect is not served");
    }
    if (head.method != "POST") return std::nullopt;
    if (head.find("content-encoding") != nullptr) {
      return error_response(415, "unsupported_media_type", "send the body uncompressed");
    }
    if (base::lower_case(value_of(head, "content-type")).rfind("multipart/form-data", 0) == 0) {
      return error_response(415, "unsupported_media_type", "send the run file itself as the body");
    }
    return std::nullopt;
  }

  static bool is_own(const std::string& origin, const std::string& host) {
    const std::size_t scheme = origin.find("://");
    return scheme != std::string::npos &&
           base::lower_case(origin.substr(scheme + 3)) == base::lower_case(host);
  }

  std::optional<Response> take(Connections::Id id, const RequestHead& head, std::string body,
                               const Peer& peer) {
    // An address that is written in another way is the same for the handler, only in another lane.
    files::WorkLane& lane = head.method == "POST" || head.method == "DELETE" ? writes_
                            : options_.quick.count(head.target.substr(0, head.target.find('?'))) > 0
                                ? quick_
                                : reads_;
    const bool taken = lane.offer([this, id, head, body = std::move(body), peer] {
      Wire wire = exchange(head, body, peer, handler_);
      if (wire.rest && !take_seat(&wire.rest)) {
        wire = {to_wire(with_request_id(no_seat(), request_id_of(head)), Body::Sent)};
      }
      connections_->answer(id, std::move(wire));
    });
    if (!taken) return too_busy();
    return std::nullopt;
  }

  bool ask(Connections::Id id, const std::shared_ptr<BodyStream>& rest) {
    return streams_.offer([this, id, rest] {
      try {
        BodyStream::Piece piece = rest->next();
        connections_->answer(id, {std::move(piece.bytes), piece.is_last ? nullptr : rest});
      } catch (const std::exception& error) {
        base::log(base::LogLevel::Warning, std::string("an answer ends early: ") + error.what());
        connections_->answer(id, {"", nullptr, true});
      }
    });
  }

  static Response no_seat() {
    Response response = too_busy();
    Response refused = error_response(
        503, "busy", "as many event streams or downloads are open as there may be; try again");
    refused.headers = std::move(response.headers);
    return refused;
  }

  // False: as many answers of its kind go out piece by piece as may. Readers of events, who stay,
  // keep nobody from downloading.
  bool take_seat(std::shared_ptr<BodyStream>* stream) {
    auto taken = (*stream)->size() ? download_seats_ : event_seats_;
    if (taken->fetch_add(1) >= options_.limits.streams) {
      taken->fetch_sub(1);
      return false;
    }
    BodyStream* const same = stream->get();
    *stream = std::shared_ptr<BodyStream>(
        same, [taken, kept = *stream](BodyStream*) { taken->fetch_sub(1); });
    return true;
  }

  const ServerOptions options_;
  const Handler handler_;
  using Seats = std::shared_ptr<std::atomic<std::size_t>>;  // that are taken
  const Seats event_seats_ = std::make_shared<std::atomic<std::size_t>>(0);
  const Seats download_seats_ = std::make_shared<std::atomic<std::size_t>>(0);
  TcpListener tcp_;
  std::optional<UnixListener> unix_;
  std::optional<Connections> connections_;
  files::WorkLane reads_{kReads};
  files::WorkLane writes_{kWrites};
  files::WorkLane quick_{kQuick};
  files::WorkLane streams_{{kStreamWorkers, 2 * options_.limits.streams}};
};

HttpServer::HttpServer(const ServerOptions& options, Handler handler)
    : implementation_(std::make_unique<Implementation>(options, std::move(handler))) {}
HttpServer::~HttpServer() = default;
void HttpServer::start() { implementation_->start(); }
int HttpServer::port() const { return implementation_->port(); }
std::string HttpServer::url() const { return implementation_->url(); }

}  // namespace regatta::orchestrator::api
