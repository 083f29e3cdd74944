#include "orchestrator/api/download.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "base/wording.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/delivery.h"

namespace regatta::orchestrator::api {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{512} << 10U;
constexpr double kPieceSeconds = 10;  // for a piece of a file; then the answer breaks off

std::uint64_t size_of(const Segment& segment) {
  return segment.file.empty() ? segment.bytes.size() : segment.size;
}

struct Range {
  std::uint64_t begin = 0, end = 0;
};

class SegmentStream final : public BodyStream {
 public:
  SegmentStream(base::FileSystem& files, files::SharedFiles* shared, Download download, Range range)
      : files_(files),
        shared_(shared),
        download_(std::move(download)),
        range_(range),
        at_(range.begin) {}

  [[nodiscard]] std::optional<std::uint64_t> size() const override {
    return range_.end - range_.begin;
  }

  Piece next() override {
    while (segment_ < download_.segments.size() &&
           at_ >= begin_ + size_of(download_.segments[segment_])) {
      begin_ += size_of(download_.segments[segment_++]);
    }
    base::check(segment_ < download_.segments.size(), "a range lies within its segments");
    const Segment& segment = download_.segments[segment_];
    const std::uint64_t offset = at_ - begin_;
    const std::uint64_t count = std::min({kPiece, size_of(segment) - offset, range_.end - at_});
    Piece piece;
    piece.bytes = segment.file.empty() ? segment.bytes.substr(offset, count)
                                       : read(segment.file, offset, count);
    at_ += count;
    piece.is_last = at_ == range_.end;
    return piece;
  }

 private:
  std::string read(const base::Path& path, std::uint64_t offset, std::uint64_t count) {
    std::string bytes = files::call_if(
        shared_, download_.directory, kPieceSeconds,
        [files = &files_, path, offset, count] { return files->read_at(path, offset, count); });
    if (bytes.size() != count) {
      throw base::Error(base::Code::Conflict,
                        base::printable(path.string()) + " became shorter while it was sent");
    }
    return bytes;
  }

  base::FileSystem& files_;
  files::SharedFiles* shared_;
  const Download download_;
  const Range range_;
  std::uint64_t at_;         // of all bytes
  std::size_t segment_ = 0;  // that `at_` is in, or one before
  std::uint64_t begin_ = 0;  // of that segment
};

// Digits. What no integer holds lies behind the end of every file.
std::optional<std::uint64_t> place_in_file(const std::string& digits) {
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(
      base::parse_integer(digits).value_or(std::numeric_limits<std::int64_t>::max()));
}

// "bytes=0-499", "bytes=500-", "bytes=-500". Nothing: no range, or one that is not understood, or
// several, which may be answered with the whole.
std::optional<Range> parse_range(const std::string& text, std::uint64_t size) {
  constexpr std::string_view kBytes = "bytes=";
  if (text.rfind(kBytes, 0) != 0) return std::nullopt;
  const std::string range = text.substr(kBytes.size());
  const std::size_t dash = range.find('-');
  if (dash == std::string::npos) return std::nullopt;
  const auto first = place_in_file(range.substr(0, dash));
  const auto last = place_in_file(range.substr(dash + 1));
  if (dash == 0) {
    if (!last) return std::nullopt;
    return Range{size - std::min(size, *last), size};
  }
  if (!first || (!last && dash + 1 != range.size())) return std::nullopt;
  if (!last) return Range{*first, std::max(*first, size)};
  if (*last < *first) return std::nullopt;
  return Range{*first, std::max(*first, std::min(size, *last + 1))};
}

std::string tag_of(const Download& download, std::uint64_t size) {
  const std::string& version = download.version.empty() ? download.digest : download.version;
  return "\"" + version + (download.grows ? "-" + std::to_string(size) : "") + "\"";
}

// Whether what had this tag is there unchanged, as a whole or as the beginning of what has grown.
bool still_holds(const std::string& tag, const Download& download, std::uint64_t size) {
  if (tag == tag_of(download, size)) return true;
  const std::size_t dash = tag.rfind('-');
  if (!download.grows || dash == std::string::npos) return false;
  const auto before = base::parse_integer(tag.substr(dash + 1, tag.size() - dash - 2));
  return before && *before >= 0 && static_cast<std::uint64_t>(*before) <= size &&
         tag == tag_of(download, static_cast<std::uint64_t>(*before));
}

// By If-Match, whose comparison is a strong one.
bool may_be_sent(const std::string& if_match, const std::string& tag) {
  if (if_match.empty()) return true;
  const std::vector<std::string> tags = base::split(if_match, ',');
  return std::any_of(tags.begin(), tags.end(), [&](const std::string& each) {
    const std::string_view named = base::trimmed(each, " \t");
    return named == "*" || named == tag;
  });
}

std::string safe_name(std::string name) {
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return name;
}

constexpr std::size_t kTarBlock = 512;

// ustar's header: each field at its offset.
std::string tar_header(const ArchivedFile& file, double modified_utc) {
  constexpr std::size_t kMostName = 100;
  if (file.name.size() > kMostName) {
    throw base::Error(base::Code::User, "the name " + base::printable(file.name) +
                                            " is too long for an archive; download the files "
                                            "one by one");
  }
  std::string block(kTarBlock, '\0');
  const auto put = [&block](std::size_t at, std::string_view text) {
    block.replace(at, text.size(), text);
  };
  put(0, file.name);
  put(100, "0000600");
  put(108, "0000000");  // owner and group are whose it becomes
  put(116, "0000000");
  constexpr std::uint64_t kMostOctal = std::uint64_t{1} << 33U;
  if (file.size < kMostOctal) {
    put(124, base::formatted("%011llo", static_cast<unsigned long long>(file.size)));
  } else {
    block[124] = '\x80';
    for (std::size_t i = 0; i < 8; ++i) {
      block[135 - i] = static_cast<char>((file.size >> (8 * i)) & 0xFFU);
    }
  }
  const auto seconds = static_cast<unsigned long long>(std::max(0.0, modified_utc));
  put(136, base::formatted("%011llo", seconds));
  put(148, "        ");
  block[156] = '0';
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  const unsigned sum = std::accumulate(block.begin(), block.end(), 0U, [](unsigned all, char c) {
    return all + static_cast<unsigned char>(c);
  });
  put(148, base::formatted("%06o", sum));
  block[154] = '\0';
  return block;
}

}  // namespace

Response send(const Request& request, base::FileSystem& files, files::SharedFiles* shared,
              Download download) {
  std::uint64_t size = 0;
  for (const Segment& segment : download.segments) size += size_of(segment);
  Response response;
  response.content_type = download.type;
  response.headers["ETag"] = tag_of(download, size);
  response.headers["Accept-Ranges"] = "bytes";
  response.headers["Content-Disposition"] =
      "attachment; filename=\"" + safe_name(download.name) + "\"";
  if (!download.digest.empty()) response.headers["X-Digest-XXH3-128"] = download.digest;
  if (!may_be_sent(request.header("if-match"), response.headers["ETag"])) {
    return error_response(412, "precondition_failed",
                          "the file is another one than If-Match names; ask without it");
  }
  Range range{0, size};
  const std::string condition = request.header("if-range");
  // What the client has it gets no part of (RFC 9110, 13.2.2): with_tag() makes it a 304.
  const bool known = is_known(request.header("if-none-match"), response.headers["ETag"]);
  if (!known && (condition.empty() || still_holds(condition, download, size))) {
    if (const auto asked = parse_range(request.header("range"), size)) {
      if (asked->begin >= asked->end) {
        Response refused = error_response(
            416, "range_not_satisfiable",
            "there are only " + std::to_string(size) + " bytes; ask for a range of these");
        refused.headers["Content-Range"] = "bytes */" + std::to_string(size);
        return refused;
      }
      range = *asked;
      response.status = 206;
      response.headers["Content-Range"] = "bytes " + std::to_string(range.begin) + "-" +
                                          std::to_string(range.end - 1) + "/" +
                                          std::to_string(size);
    }
  }
  if (range.begin == range.end) return response;
  response.stream = std::make_shared<SegmentStream>(files, shared, std::move(download), range);
  return response;
}

void check_sizes(base::FileSystem& files, const Download& download) {
  for (const Segment& segment : download.segments) {
    if (segment.file.empty()) continue;
    const std::string path = base::printable(segment.file.string());
    if (!files.exists(segment.file)) {
      throw base::Error(base::Code::Conflict, path + " is missing; verify the checkpoint");
    }
    const std::uint64_t size = files.size(segment.file);
    if (size >= segment.size) continue;
    throw base::Error(base::Code::Conflict,
                      path + " has " + std::to_string(size) + " bytes and should have " +
                          std::to_string(segment.size) + "; verify the checkpoint");
  }
}

std::vector<Segment> tar_archive(const std::vector<ArchivedFile>& files, double modified_utc) {
  std::vector<Segment> segments;
  for (const ArchivedFile& file : files) {
    segments.push_back({tar_header(file, modified_utc)});
    segments.push_back({"", file.path, file.size});
    const std::size_t rest = file.size % kTarBlock;
    if (rest != 0) segments.push_back({std::string(kTarBlock - rest, '\0')});
  }
  segments.push_back({std::string(2 * kTarBlock, '\0')});
  return segments;
}

}  // namespace regatta::orchestrator::api
