#include "trainer/watch/watch_link.h"

#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace regatta::trainer::watch {
namespace {

struct Header {
  WatchKind kind = WatchKind::Beat;
  std::uint32_t size = 0;
};
struct BeatBytes {
  std::int64_t step = 0;
  std::int64_t phase = 0;
  double seconds = 0;
  double limit = 0;
};

// What a Trip says follows.
struct TripBytes {
  std::int64_t rank = 0;
  std::int64_t phase = 0;
  double seconds = 0;
  std::int64_t hangs = 0;
};

bool is_phase(std::int64_t phase) {
  return phase >= 0 && phase <= static_cast<std::int64_t>(Phase::Checkpointing);
}
bool has_standing(WatchKind kind) { return kind == WatchKind::Beat || kind == WatchKind::Answer; }

std::string bytes_of(const WatchMessage& message) {
  std::string body;
  if (has_standing(message.kind)) {
    const RankProgress& progress = message.progress;
    const BeatBytes beat{progress.step, static_cast<std::int64_t>(progress.phase), progress.seconds,
                         progress.limit};
    body.assign(reinterpret_cast<const char*>(&beat), sizeof beat);
  } else if (message.kind == WatchKind::Trip) {
    const Trip& trip = message.trip;
    const TripBytes bytes{trip.rank, static_cast<std::int64_t>(trip.phase), trip.seconds,
                          trip.hangs ? 1 : 0};
    body.assign(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    body += trip.why.substr(0, WatchLink::kMostText);
  }
  const Header header{message.kind, static_cast<std::uint32_t>(body.size())};
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
}

bool is_sound(const Header& header) {
  switch (header.kind) {
    case WatchKind::Beat:
    case WatchKind::Answer:
      return header.size == sizeof(BeatBytes);
    case WatchKind::Trip:
      return header.size >= sizeof(TripBytes) &&
             header.size <= sizeof(TripBytes) + WatchLink::kMostText;
    case WatchKind::Goodbye:
    case WatchKind::Failed:
      return header.size == 0;
  }
  return false;
}

std::optional<Trip> trip_of(std::string_view body) {
  TripBytes bytes;
  std::memcpy(&bytes, body.data(), sizeof bytes);
  if (!is_phase(bytes.phase) || !std::isfinite(bytes.seconds) || !std::in_range<int>(bytes.rank) ||
      bytes.rank < 0) {
    return std::nullopt;
  }
  return Trip{base::printable(body.substr(sizeof bytes)), static_cast<int>(bytes.rank),
              static_cast<Phase>(bytes.phase), bytes.seconds, bytes.hangs != 0};
}

std::optional<WatchMessage> message_of(const Header& header, std::string_view body) {
  WatchMessage message;
  message.kind = header.kind;
  if (header.kind == WatchKind::Trip) {
    const std::optional<Trip> trip = trip_of(body);
    if (!trip) return std::nullopt;
    message.trip = *trip;
  }
  if (!has_standing(header.kind)) return message;
  BeatBytes beat;
  std::memcpy(&beat, body.data(), sizeof beat);
  if (!is_phase(beat.phase) || !std::isfinite(beat.seconds) || !std::isfinite(beat.limit)) {
    return std::nullopt;
  }
  message.progress.step = beat.step;
  message.progress.phase = static_cast<Phase>(beat.phase);
  message.progress.seconds = beat.seconds;
  message.progress.limit = beat.limit;
  return message;
}

}  // namespace

std::optional<WatchMessage> WatchLink::receive() {
  for (;;) {
    Header header;
    const bool has_header = in_.size() >= sizeof header;
    if (has_header) std::memcpy(&header, in_.data(), sizeof header);
    bool sound = !has_header || is_sound(header);
    if (sound && has_header && in_.size() >= sizeof header + header.size) {
      const std::optional<WatchMessage> message =
          message_of(header, std::string_view(in_).substr(sizeof header, header.size));
      in_.erase(0, sizeof header + header.size);
      if (message) return message;
      sound = false;
    }
    if (!sound) {
      throw base::Error(base::Code::Retry, socket_.peer() + " sends what no watchdog sends");
    }
    std::array<std::byte, 4096> more;
    const std::size_t got = socket_.receive_some(more);
    if (got == 0) return std::nullopt;
    in_.append(reinterpret_cast<const char*>(more.data()), got);
  }
}

void WatchLink::send(const WatchMessage& message) {
  flush();
  if (has_standing(message.kind) && !out_.empty()) return;
  out_ += bytes_of(message);
  flush();
}

void WatchLink::flush() {
  while (!out_.empty()) {
    const std::size_t sent = socket_.send_some(std::as_bytes(std::span(out_)));
    if (sent == 0) return;
    out_.erase(0, sent);
  }
}

}  // namespace regatta::trainer::watch
