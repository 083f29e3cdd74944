// The head of an HTTP/1 request, read strictly: what another reader could understand in another way
// is refused, so nobody can disagree on where the body ends. Pure; the fuzz target `request_head`
// feeds it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/api/http.h"

namespace regatta::orchestrator::api {

constexpr std::size_t kMaxLine = 8 * 1024;  // the request line, and each header, with its CRLF
constexpr std::size_t kMaxHead = 32 * 1024;
constexpr std::size_t kMaxFields = 100;
constexpr std::size_t kMaxPath = 1024;  // decoded

struct Field {
  std::string name;   // in lower case
  std::string value;  // without the white space around it and without control bytes
};

struct RequestHead {
  std::string method;
  std::string target;       // as sent, but for `authority`; begins with '/' (or is "*")
  std::string authority;    // of "http://host/path", which stands in the place of Host; or empty
  bool needs_host = false;  // of HTTP/1.1
  std::vector<Field> fields;
  std::optional<std::uint64_t> content_length;
  bool has_length = true;  // false for a POST that does not say it: then it is 0

  // The first value; nothing when the field is absent.
  [[nodiscard]] const std::string* find(std::string_view name) const;
};

// 503: ask again in a second.
[[nodiscard]] Response too_busy();

// Finds the end of a head that arrives in pieces. Each byte is looked at once.
class HeadScanner {
 public:
  enum class State { More, Whole, Refused };
  // received: everything so far, which begins with what was passed before.
  State look(std::string_view received);
  [[nodiscard]] std::size_t size() const { return looked_; }  // when Whole: with the empty line
  [[nodiscard]] const Response& why() const { return why_; }  // when Refused

 private:
  State refuse(int status, std::string_view code, const std::string& message);

  std::size_t looked_ = 0;
  std::size_t line_begin_ = 0;
  std::size_t lines_ = 0;
  Response why_;
};

struct ReadHead {
  std::optional<RequestHead> head;
  Response why;  // without a head
};
// bytes: a whole head, as HeadScanner found it.
[[nodiscard]] ReadHead read_head(std::string_view bytes);

// What a handler gets of it, but for path and body (of the path only what of it cannot be read);
// headers of one name are joined by ", ".
// Values of headers stay as they were sent, where cpp-httplib would decode %XX in them, and the
// query is read here, since the library leaves out one of two equal parameters, refuses a '?' in a
// value, and takes %u0041 for an 'A'.
[[nodiscard]] Request without_path(const RequestHead& head);

[[nodiscard]] bool is_http_token(std::string_view text);  // RFC 9110's: methods, names of headers

}  // namespace regatta::orchestrator::api
