#include "orchestrator/api/exchange.h"

#include <httplib.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <optional>
#include <vector>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/delivery.h"

namespace regatta::orchestrator::api {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr const char* kFailed = "the controller failed to answer; its log says why";

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 5.6.7), in English whatever the locale.
std::string http_date(double utc_seconds) {
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto seconds = static_cast<std::time_t>(utc_seconds);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return base::formatted("%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[parts.tm_wday], parts.tm_mday,
                         kMonths[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour, parts.tm_min,
                         parts.tm_sec);
}

bool has_no_body(int status) { return status == 304 || status == 204; }

// What the library reads, and what it has written.
class MemoryStream final : public httplib::Stream {
 public:
  MemoryStream(std::string_view head, std::string_view body) : unread_{head, body} {}
  [[nodiscard]] std::string take_written() { return std::move(written_); }

  [[nodiscard]] bool is_readable() const override { return true; }
  [[nodiscard]] bool is_writable() const override { return true; }
  ssize_t read(char* bytes, std::size_t size) override {
    std::string_view& from = unread_[unread_[0].empty() ? 1 : 0];
    const std::size_t count = from.copy(bytes, size);
    from.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* bytes, std::size_t size) override {
    written_.append(bytes, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  [[nodiscard]] socket_t socket() const override { return INVALID_SOCKET; }

 private:
  std::string_view unread_[2];
  std::string written_;
};

// The library for one request, so that nothing is shared between threads. Its constructor sets
// SIGPIPE to be ignored, as `serve` does.
class Exchange final : private httplib::Server {
 public:
  // Path and body as the library has read them.
  using Answer = std::function<Response(const std::string& path, std::string body)>;

  Exchange(std::string_view method, Answer answer) : answer_(std::move(answer)) {
    svr_sock_ = 0;  // never used as one; without it the library takes itself for stopped
    // What has no body is answered here, before any pattern is matched against the path; and a path
    // that is too long, since the pattern takes stack for each of its characters.
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (request.method == "POST" && request.path.size() <= kMaxPath) {
        return HandlerResponse::Unhandled;
      }
      put(answer_(request.path, ""), response);
      return HandlerResponse::Handled;
    });
    if (method == "POST") {
      Post(R"([\s\S]*)", [this](const httplib::Request& request, httplib::Response& response,
                                const httplib::ContentReader& reader) {
        std::string body;
        const bool whole = reader([&body](const char* bytes, std::size_t size) {
          body.append(bytes, size);
          return true;
        });
        if (whole) put(answer_(request.path, std::move(body)), response);
      });
    }
    // What the library adds on its own account and is not so: ranges are served of files alone, and
    // an answer without a body has no length.
    set_post_routing_handler([this](const httplib::Request&, httplib::Response& response) {
      if (!meant_ || meant_->headers.count("Accept-Ranges") == 0) {
        response.headers.erase("Accept-Ranges");
      }
      if (meant_ && has_no_body(meant_->status)) response.headers.erase("Content-Length");
    });
  }

  std::string process(std::string_view head, std::string_view body) {
    MemoryStream stream(head, body);
    bool closed = false;
    process_request(stream, true, closed, nullptr);
    return stream.take_written();
  }
  [[nodiscard]] std::shared_ptr<BodyStream> stream() const {
    return meant_ ? meant_->stream : nullptr;
  }
  // Nothing when the library answered by itself.
  [[nodiscard]] const std::optional<Response>& meant() const { return meant_; }

 private:
  void put(Response from, httplib::Response& to) {
    meant_ = std::move(from);
    to.status = meant_->status;
    for (const auto& [name, value] : meant_->headers) {
      // A value from elsewhere must not end its line.
      if (is_http_token(name) && !base::has_control(value)) to.set_header(name, value);
    }
    to.set_header("Date", http_date(base::system_clock().utc_seconds()));
    to.set_header("X-Content-Type-Options", "nosniff");
    to.set_header("Referrer-Policy", "no-referrer");
    to.set_header("X-Frame-Options", "DENY");
    to.set_header("Content-Security-Policy",
                  "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
                  "form-action 'none'; frame-ancestors 'none'");
    if (has_no_body(meant_->status)) return;
    const std::string type =
        base::has_control(meant_->content_type) ? "application/octet-stream" : meant_->content_type;
    if (meant_->stream) return put_head(*meant_->stream, type, to);
    if (meant_->body.empty()) return to.set_header("Content-Type", type);
    // A provider instead of a body: bodies the library would compress, brotli at its slowest.
    to.set_content_provider(
        meant_->body.size(), type,
        [this](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
          const std::string_view part = std::string_view(meant_->body).substr(offset, length);
          return sink.write(part.data(), part.size());
        });
  }

  // The library writes the head, and of the body nothing, since no piece is given to it.
  static void put_head(const BodyStream& stream, const std::string& type, httplib::Response& to) {
    const auto nothing = [](std::size_t, httplib::DataSink&) { return false; };
    const auto size = stream.size();
    if (!size) return to.set_content_provider(type, nothing);
    if (*size == 0) return to.set_header("Content-Type", type);
    to.set_content_provider(*size, type,
                            [](std::size_t, std::size_t, httplib::DataSink&) { return false; });
  }

  const Answer answer_;
  std::optional<Response> meant_;
};

// The one answer that the library does not write.
std::string failed(Body body) {
  const std::string text = error_response(500, "developer", kFailed).body;
  return "HTTP/1.1 500 Internal Server Error\r\nCache-Control: no-store\r\n"
         "X-Content-Type-Options: nosniff\r\nContent-Type: application/problem+json\r\n"
         "Content-Length: " +
         std::to_string(text.size()) + "\r\nConnection: close\r\n\r\n" +
         (body == Body::Sent ? text : "");
}

Wire run(std::string_view method, std::string_view target, std::string_view body,
         Exchange::Answer answer) {
  std::string head = std::string(method) + " " + std::string(target) + " HTTP/1.1\r\n";
  if (method == "POST") head += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  head += kLineEnd;
  Exchange exchange(method, std::move(answer));
  std::string wire = exchange.process(head, body);
  const Body sent = method == "HEAD" ? Body::LeftOut : Body::Sent;
  const std::string flaw = exchange.meant() ? flaw_of(wire, *exchange.meant(), sent)
                                            : "the library did not take the request";
  if (flaw.empty()) return {std::move(wire), sent == Body::Sent ? exchange.stream() : nullptr};
  base::log(base::LogLevel::Error, std::string(method) + " " + std::string(target) +
                                       ": the answer was held back: " + flaw);
  return {failed(sent)};
}

Response asked(const Request& request, const std::function<Response(const Request&)>& handler) {
  if (request.path.size() > kMaxPath) {
    return error_response(414, "path_too_long", "the path is longer than 1024 bytes");
  }
  try {
    return handler(request);
  } catch (const std::exception& error) {
    base::log(base::LogLevel::Error, request.method + " " + request.path + " (request " +
                                         request.id + "): " + error.what());
    return error_response(500, "developer", kFailed);
  }
}

// The path as the library is to read it: "%u0041" is an "A" to it and to nobody else.
std::string path_text(std::string_view target) {
  std::string text;
  for (const char c : target.substr(0, target.find('?'))) {
    if (c == 'u' && !text.empty() && text.back() == '%') text += "25";
    text += c;
  }
  return text;
}

}  // namespace

Wire exchange(const RequestHead& head, std::string_view body, const Peer& peer,
              const std::function<Response(const Request&)>& handler) {
  const auto answer = [&](const std::string& path, std::string whole) {
    Request request = without_path(head);
    request.id = request_id_of(head);
    request.path = path;
    request.body =
        whole.empty() ? std::string(body) : std::move(whole);  // of a POST alone: the library's
    request.peer = peer;
    Response response = with_request_id(asked(request, handler), request.id);
    return compressed(with_tag(std::move(response), request), request);
  };
  return run(head.method, path_text(head.target), body, answer);
}

std::string to_wire(const Response& response, Body body) {
  return run(body == Body::Sent ? "GET" : "HEAD", "/", "",
             [&](const std::string&, const std::string&) { return response; })
      .bytes;
}

std::string flaw_of(std::string_view wire, const Response& meant, Body body) {
  const std::size_t end = wire.find("\r\n\r\n");
  if (end == std::string_view::npos) return "its head has no end";
  const std::string_view sent = wire.substr(end + 4);
  std::string_view head = wire.substr(0, end + 2);
  std::size_t next = head.find(kLineEnd) + 2;
  const std::string status = "HTTP/1.1 " + std::to_string(meant.status) + " ";
  if (meant.status < 200 || meant.status > 599 || head.rfind(status, 0) != 0 ||
      base::has_control(head.substr(0, next - 2))) {
    return "its status line is not that of " + std::to_string(meant.status);
  }
  std::vector<std::string> lengths;
  for (head.remove_prefix(next); !head.empty(); head.remove_prefix(next)) {
    next = head.find(kLineEnd) + 2;
    const std::string_view line = head.substr(0, next - 2);
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos || !is_http_token(line.substr(0, colon)) ||
        base::has_control(line)) {
      return "a line of its head is not 'Name: value'";
    }
    const std::string name = base::lower_case(line.substr(0, colon));
    if (name == "transfer-encoding") return "it has a Transfer-Encoding";
    if (name == "content-length") lengths.emplace_back(line.substr(colon + 2));
  }
  if (has_no_body(meant.status)) {
    if (!lengths.empty()) return "it has a length and no body";
    return sent.empty() ? "" : "bytes follow its head";
  }
  const std::optional<std::uint64_t> size =
      meant.stream ? meant.stream->size() : std::optional<std::uint64_t>(meant.body.size());
  if (!size) {
    if (!lengths.empty()) return "it has a length, and nobody knows its body's";
    return sent.empty() ? "" : "bytes follow its head";
  }
  if (lengths.size() != 1) return "it has " + std::to_string(lengths.size()) + " lengths";
  if (lengths[0] != std::to_string(*size)) {
    return "its length is " + base::printable(lengths[0]) + " and its body has " +
           std::to_string(*size) + " bytes";
  }
  const std::string_view expected = body == Body::Sent ? std::string_view(meant.body) : "";
  if (sent.size() != expected.size()) {
    return std::to_string(sent.size()) + " bytes follow its head, not " +
           std::to_string(expected.size());
  }
  return sent == expected ? "" : "other bytes than its body's follow its head";
}

}  // namespace regatta::orchestrator::api
