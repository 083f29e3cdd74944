#include "orchestrator/api/request_head.h"

#include <algorithm>
#include <cctype>

#include "base/ascii.h"
#include "base/text.h"
#include "orchestrator/api/answers.h"

namespace regatta::orchestrator::api {
namespace {

constexpr std::size_t kMaxMethod = 32;
constexpr std::size_t kMaxLengthDigits = 18;

ReadHead bad(int status, std::string_view code, const std::string& message) {
  return {std::nullopt, error_response(status, code, message)};
}
ReadHead bad(const std::string& message) { return bad(400, "bad_request", message); }

// The line at the front, without its CRLF, which is taken off.
std::string_view take_line(std::string_view* text) {
  const std::size_t end = text->find("\r\n");
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 2);
  return line;
}

// Of "http://host/path", which says more than Host does (RFC 9112, 3.2.2), the host is taken off.
void take_authority(RequestHead* head) {
  constexpr std::string_view kScheme = "http://";
  if (base::lower_case(head->target.substr(0, kScheme.size())) != kScheme) return;
  const std::string rest = head->target.substr(kScheme.size());
  const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
  if (end == 0) return;
  head->authority = rest.substr(0, end);
  head->target = (end < rest.size() && rest[end] == '/' ? "" : "/") + rest.substr(end);
}

// Why the request line will not do; nothing when it will.
std::optional<Response> read_request_line(std::string_view line, RequestHead* head) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || last == first) {
    return error_response(400, "bad_request", "the request line is not 'METHOD /path HTTP/1.1'");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_http_token(method) || method.size() > kMaxMethod) {
    return error_response(400, "bad_request", "the method is not a word");
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return version.rfind("HTTP/", 0) == 0
               ? error_response(505, "version_not_supported", "use HTTP/1.1")
               : error_response(400, "bad_request",
                                "the request line is not 'METHOD /path HTTP/1.1'");
  }
  if (method == "CONNECT" || method == "TRACE") {
    Response response = error_response(405, "method_not_allowed",
                                       "this method is not served; use GET, HEAD, POST or DELETE");
    response.headers["Allow"] = "GET, HEAD, POST, DELETE";
    return response;
  }
  static const std::vector<std::string_view> known{"GET",    "HEAD",  "POST",   "PUT",
                                                   "DELETE", "PATCH", "OPTIONS"};
  if (std::find(known.begin(), known.end(), method) == known.end()) {
    return error_response(501, "not_implemented",
                          "this method is unknown; use GET, HEAD, POST or DELETE");
  }
  const bool plain = std::all_of(target.begin(), target.end(),
                                 [](char c) { return c > 0x20 && c < 0x7F && c != '#'; });
  head->method = method;
  head->target = target;
  take_authority(head);
  if (head->target.empty() || !plain || (head->target.front() != '/' && target != "*")) {
    return error_response(400, "bad_request", "the target is not a path that begins with '/'");
  }
  head->needs_host = version == "HTTP/1.1";
  return std::nullopt;
}

// The headers that say where the body ends, and Host, of which two would be two answers.
std::optional<Response> read_framing(RequestHead* head) {
  if (head->find("transfer-encoding") != nullptr) {
    return error_response(411, "length_required", "send the body with Content-Length");
  }
  std::size_t hosts = 0;
  for (Field& field : head->fields) {
    if (field.name == "host" && ++hosts > 1) {
      return error_response(400, "bad_request", "there are two Host headers");
    }
    if (field.name == "host" && !head->authority.empty()) field.value = head->authority;
    if (field.name != "content-length") continue;
    if (head->content_length || field.value.empty() || field.value.size() > kMaxLengthDigits ||
        field.value.find_first_not_of("0123456789") != std::string::npos) {
      return error_response(400, "bad_request", "Content-Length is not a number");
    }
    head->content_length = std::stoull(field.value);
  }
  if (hosts == 0 && head->needs_host) {
    return error_response(400, "bad_request", "there is no Host header; HTTP/1.1 needs one");
  }
  // No body (RFC 9112, 6.3), which is right for addresses that take none; others refuse it
  // (find_route()).
  if (head->method == "POST" && !head->content_length) {
    head->content_length = 0;
    head->has_length = false;
  }
  if (head->content_length.value_or(0) > kMaxBody) {
    return error_response(413, "too_large", "the body is larger than 1 MiB");
  }
  return std::nullopt;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Of a query: %XX as bytes, '+' as a space (a path's own). Nothing where a '%' has no two digits,
// or where what comes out is not UTF-8.
std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size() || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0) {
      return std::nullopt;
    }
    out += static_cast<char>(16 * digit(text[i + 1]) + digit(text[i + 2]));
    i += 2;
  }
  if (!base::is_utf8(out)) return std::nullopt;
  return out;
}

void read_query(std::string_view text, Request* request) {
  for (const std::string& pair : base::split(text, '&')) {
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    const auto name = decoded(std::string_view(pair).substr(0, equals));
    const auto value =
        decoded(equals == std::string::npos ? "" : std::string_view(pair).substr(equals + 1));
    if (!name || name->empty() || !value) {
      request->unreadable_query = pair;
    } else if (!request->query.emplace(*name, *value).second) {
      request->repeated_query = *name;
    }
  }
}

std::string unreadable_part(std::string_view path) {
  for (const std::string& part : base::split(path, '/')) {
    if (!decoded(part)) return part;
  }
  return "";
}

}  // namespace

bool is_http_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

const std::string* RequestHead::find(std::string_view name) const {
  for (const Field& field : fields) {
    if (field.name == name) return &field.value;
  }
  return nullptr;
}

Response too_busy() {
  Response response =
      error_response(503, "busy", "too many requests are waiting; ask again in a second");
  response.headers["Retry-After"] = "1";
  return response;
}

HeadScanner::State HeadScanner::refuse(int status, std::string_view code,
                                       const std::string& message) {
  why_ = error_response(status, code, message);
  return State::Refused;
}

HeadScanner::State HeadScanner::look(std::string_view received) {
  while (looked_ < received.size()) {
    const char c = received[looked_];
    const bool after_return = looked_ > line_begin_ && received[looked_ - 1] == '\r';
    if (c == '\0') return refuse(400, "bad_request", "the head has control characters");
    if (after_return != (c == '\n')) {
      return refuse(400, "bad_request", "a line of the head does not end with CR LF");
    }
    ++looked_;
    if (c == '\n') {
      const bool empty = looked_ - line_begin_ == 2;
      if (empty && lines_ == 0) return refuse(400, "bad_request", "the request line is empty");
      if (empty) return State::Whole;
      line_begin_ = looked_;
      if (++lines_ > kMaxFields + 1) {
        return refuse(431, "headers_too_large",
                      "there are more than " + std::to_string(kMaxFields) + " headers");
      }
    } else if (looked_ - line_begin_ >= kMaxLine) {
      return lines_ == 0 ? refuse(414, "path_too_long", "the request line is longer than 8 KiB")
                         : refuse(431, "headers_too_large", "a header is longer than 8 KiB");
    } else if (looked_ >= kMaxHead) {
      return refuse(431, "headers_too_large", "the headers are longer than 32 KiB");
    }
  }
  return State::More;
}

ReadHead read_head(std::string_view bytes) {
  RequestHead head;
  if (auto why = read_request_line(take_line(&bytes), &head)) {
    return {std::nullopt, std::move(*why)};
  }
  for (std::string_view line = take_line(&bytes); !line.empty(); line = take_line(&bytes)) {
    if (line.front() == ' ' || line.front() == '\t') return bad("a header goes over two lines");
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_http_token(line.substr(0, colon))) {
      return bad("a header is not 'Name: value'");
    }
    Field field{base::lower_case(line.substr(0, colon)),
                std::string(base::trimmed(line.substr(colon + 1), " \t"))};
    if (base::has_control(field.value)) return bad("a header has control characters");
    head.fields.push_back(std::move(field));
  }
  if (auto why = read_framing(&head)) return {std::nullopt, std::move(*why)};
  return {std::move(head), {}};
}

Request without_path(const RequestHead& head) {
  const std::size_t mark = head.target.find('?');
  Request request;
  request.method = head.method == "HEAD" ? "GET" : head.method;
  request.has_length = head.has_length;
  request.unreadable_path = unreadable_part(std::string_view(head.target).substr(0, mark));
  if (mark != std::string::npos) {
    read_query(std::string_view(head.target).substr(mark + 1), &request);
  }
  for (const Field& field : head.fields) {
    // A range is asked for by GET alone (RFC 9110, 14.2).
    if (head.method == "HEAD" && (field.name == "range" || field.name == "if-range")) continue;
    const auto [it, first] = request.headers.emplace(field.name, field.value);
    if (!first) it->second += ", " + field.value;
  }
  return request;
}

}  // namespace regatta::orchestrator::api
