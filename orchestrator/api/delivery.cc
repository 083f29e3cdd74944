#include "orchestrator/api/delivery.h"

#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/ascii.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/api/answers.h"

namespace regatta::orchestrator::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostId = 64;
constexpr int kIdBytes = 8;
constexpr std::size_t kWorthCompressing = 1024;  // bytes
constexpr int kLevel = 4;                        // of 9
constexpr int kGzip = 15 + 16;                   // zlib's window, and a gzip header

bool is_id(const std::string& text) {
  return !text.empty() && text.size() <= kMostId &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || c == '.';
         });
}

// "gzip, deflate;q=0.5": whether gzip, or anything, is among them with a weight above zero.
bool takes_gzip(const std::string& accepted) {
  for (const std::string& each : base::split(base::lower_case(accepted), ',')) {
    const std::string_view whole = each;
    const std::size_t semicolon = std::min(whole.find(';'), whole.size());
    const std::string_view coding = base::trimmed(whole.substr(0, semicolon));
    if (coding != "gzip" && coding != "*") continue;
    const std::string_view weight =
        base::trimmed(whole.substr(std::min(semicolon + 1, whole.size())));
    const bool none =
        weight.rfind("q=0", 0) == 0 && weight.find_first_not_of("0.", 2) == std::string::npos;
    return !none;
  }
  return false;
}

bool is_text(const std::string& type) {
  return type.rfind("text/", 0) == 0 || type.rfind("application/json", 0) == 0 ||
         type == kProblemType || type == "image/svg+xml";
}

// Nothing where zlib has no memory.
std::optional<std::string> gzip_of(const std::string& text) {
  z_stream stream{};
  if (::deflateInit2(&stream, kLevel, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return std::nullopt;
  }
  std::string out(::deflateBound(&stream, text.size()), '\0');
  std::string in = text;  // zlib takes what it reads as changeable
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int ended = ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  if (ended != Z_STREAM_END) return std::nullopt;
  return out;
}

}  // namespace

std::string request_id_of(const RequestHead& head) {
  const std::string* const given = head.find("x-request-id");
  return given != nullptr && is_id(*given) ? *given : base::random_hex(kIdBytes);
}

Response with_request_id(Response response, const std::string& id) {
  response.headers["X-Request-Id"] = id;
  if (response.content_type != kProblemType) return response;
  Json problem = base::parse_json<Json>(response.body);
  if (!problem.is_object()) return response;
  problem["request_id"] = id;
  response.body = base::json_text(problem) + "\n";
  return response;
}

bool is_known(const std::string& if_none_match, const std::string& tag) {
  return if_none_match.find(tag.substr(tag.find('"'))) != std::string::npos ||
         base::trimmed(if_none_match) == "*";
}

Response with_tag(Response response, const Request& request) {
  if (request.method != "GET" || response.status != 200) return response;
  if (response.headers.count("ETag") == 0) {
    if (response.stream) return response;
    // Weak: whether compressed or not, it is the same answer.
    response.headers["ETag"] = "W/\"" + base::digest_of(response.body) + "\"";
  }
  if (!is_known(request.header("if-none-match"), response.headers["ETag"])) return response;
  response.status = 304;
  response.body.clear();
  response.stream.reset();
  return response;
}

Response compressed(Response response, const Request& request) {
  if (response.body.size() <= kWorthCompressing || !is_text(response.content_type)) return response;
  response.headers["Vary"] = "Accept-Encoding";
  if (!takes_gzip(request.header("accept-encoding"))) return response;
  if (auto smaller = gzip_of(response.body)) {
    response.body = std::move(*smaller);
    response.headers["Content-Encoding"] = "gzip";
  }
  return response;
}

}  // namespace regatta::orchestrator::api
