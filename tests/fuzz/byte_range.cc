// Any Range, If-Range and If-None-Match are answered as RFC 9110 has it, or with the whole. Three
// lines of headers; the rest are the bytes of the file, in segments.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/api/delivery.h"
#include "orchestrator/api/download.h"

using regatta::base::check;
using namespace regatta::orchestrator;

namespace {

std::string take_line(std::string_view* text) {
  const std::size_t end = text->find('\n');
  const std::string line(text->substr(0, end));
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return line;
}

std::string all_of(const api::Response& response) {
  if (!response.stream) return response.body;
  std::string bytes;
  for (bool last = false; !last;) {
    api::BodyStream::Piece piece = response.stream->next();
    check(!piece.bytes.empty(), "a piece has bytes");
    bytes += piece.bytes;
    last = piece.is_last;
  }
  check(response.stream->size() == bytes.size(), "as many as were promised");
  return bytes;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 18 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Of a range whose numbers are plain, what it means; nothing: any answer that hangs together.
struct Meant {
  std::size_t begin, end;  // the same: none of the file
};
std::optional<Meant> meant_by(std::string_view range, std::size_t size) {
  if (range.substr(0, 6) != "bytes=") return std::nullopt;
  range.remove_prefix(6);
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string first(range.substr(0, dash)), last(range.substr(dash + 1));
  if (first.empty() && is_number(last)) {
    return Meant{size - std::min<std::size_t>(size, std::stoull(last)), size};
  }
  if (!is_number(first) || (!last.empty() && !is_number(last))) return std::nullopt;
  const std::size_t begin = std::stoull(first);
  if (!last.empty() && std::stoull(last) < begin) return std::nullopt;
  if (begin >= size) return Meant{size, size};
  return Meant{begin, last.empty() ? size : std::min<std::size_t>(size, std::stoull(last) + 1)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  api::Request request;
  request.method = "GET";
  for (const char* const name : {"range", "if-range", "if-none-match"}) {
    if (std::string value = take_line(&text); !value.empty()) request.headers[name] = value;
  }
  const std::string whole(text);
  api::Download download;
  download.segments = {{whole.substr(0, whole.size() / 3)}, {""}, {whole.substr(whole.size() / 3)}};
  download.name = "file";
  download.digest = "0123456789abcdef";
  const api::Response sent =
      api::send(request, regatta::base::posix_file_system(), nullptr, download);
  const std::string bytes = all_of(sent);
  const auto meant = meant_by(request.headers["range"], whole.size());
  const std::string condition = request.headers["if-range"];
  const bool counts = (condition.empty() || condition == "\"0123456789abcdef\"") &&
                      !api::is_known(request.headers["if-none-match"], "\"0123456789abcdef\"");
  check(counts || sent.status == 200, "another file is sent whole");
  check(!counts || !meant || sent.status == (meant->begin < meant->end ? 206 : 416),
        "a range of it, or none");
  if (sent.status == 200) check(bytes == whole, "the whole");
  if (sent.status == 206) {
    const std::string place = sent.headers.at("Content-Range");
    unsigned long long begin = 0, last = 0, all = 0;
    check(std::sscanf(place.c_str(), "bytes %llu-%llu/%llu", &begin, &last, &all) == 3 &&
              begin <= last && last < all && all == whole.size(),
          "a place in the file");
    check(bytes == whole.substr(begin, last + 1 - begin), "these bytes of it");
    check(!meant || (meant->begin == begin && meant->end == last + 1), "those that were asked for");
  }
  const api::Response tagged = api::with_tag(
      api::send(request, regatta::base::posix_file_system(), nullptr, download), request);
  const std::string known = request.headers["if-none-match"];
  if (tagged.status == 304) {
    check(sent.status == 200 && !tagged.stream && tagged.body.empty(), "nothing is sent");
    check(known.find('*') != std::string::npos || known.find("\"0123456789abcdef\"") != known.npos,
          "since it is known");
  } else {
    check(tagged.status == sent.status, "else as without");
  }
  return 0;
}
