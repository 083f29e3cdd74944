// Any bytes may come over a connection: refused in one well-formed answer, or a request whose parts
// keep what request_head.h promises, the same however the bytes were cut.
#include "orchestrator/api/request_head.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "orchestrator/api/exchange.h"

using regatta::base::check;
using namespace regatta::orchestrator;

namespace {

bool has_control(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return true;
  }
  return false;
}

void check_answer(const api::Response& response) {
  check(response.status >= 400, "an error");
  check(api::flaw_of(api::to_wire(response, api::Body::Sent), response, api::Body::Sent).empty(),
        "one answer");
}

// The library reads the same request as we do.
void check_exchange(const api::RequestHead& head) {
  const std::string body = head.method == "POST" ? "a body\r\n\r\n" : "";
  const api::Response answer{201, "text/plain", "an answer", {}};
  bool asked = false;
  const auto handler = [&](const api::Request& request) {
    check(request.path.size() <= api::kMaxPath && !request.path.empty(), "a path");
    check(request.body == body, "the body");
    asked = true;
    return answer;
  };
  const std::string wire = api::exchange(head, body, {}, handler).bytes;
  const api::Body sent = head.method == "HEAD" ? api::Body::LeftOut : api::Body::Sent;
  check(asked ? api::flaw_of(wire, answer, sent).empty() : wire.rfind("HTTP/1.1 414 ", 0) == 0,
        "asked, or the path is too long");
}

void check_head(const api::RequestHead& head) {
  check(head.fields.size() <= api::kMaxFields, "few headers");
  for (const api::Field& field : head.fields) {
    check(!field.name.empty() && !has_control(field.name) && !has_control(field.value),
          "no controls");
  }
  check(head.find("transfer-encoding") == nullptr, "one way to tell a body's length");
  check(head.content_length.value_or(0) <= api::kMaxBody, "bounded");
  check(head.method != "POST" || head.content_length.has_value(), "a POST has a length");
  check_exchange(head);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  api::HeadScanner whole;
  api::HeadScanner pieces;
  const api::HeadScanner::State state = whole.look(bytes);
  api::HeadScanner::State cut = api::HeadScanner::State::More;
  const std::size_t step = data[0] % 7U + 1U;
  for (std::size_t end = 0; cut == api::HeadScanner::State::More && end < bytes.size();) {
    end = std::min(bytes.size(), end + step);
    cut = pieces.look(bytes.substr(0, end));
  }
  check(state == cut && whole.size() == pieces.size(), "the same in pieces");
  check(whole.size() <= api::kMaxHead, "bounded");
  if (state == api::HeadScanner::State::Refused) check_answer(whole.why());
  if (state != api::HeadScanner::State::Whole) return 0;
  const api::ReadHead read = api::read_head(bytes.substr(0, whole.size()));
  if (read.head) {
    check_head(*read.head);
  } else {
    check_answer(read.why);
  }
  return 0;
}
