#include "trainer/watch/watchdog.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/host.h"
#include "base/log.h"
#include "base/socket.h"
#include "base/text.h"
#include "trainer/ranks/rank_star.h"
#include "trainer/ranks/rendezvous.h"
#include "trainer/watch/rank_progress.h"
#include "trainer/watch/watch_link.h"

namespace regatta::trainer::watch {
namespace {

constexpr auto kReportEvery = std::chrono::seconds(1);
constexpr double kConnectSeconds = 60;
// For the last message, and for the other end to have read it.
constexpr double kPartingSeconds = 1;
constexpr std::size_t kMostMeetingBytes = 8192;

// A rank that goes down with an error that all have would be tripped on by those that are a little
// behind it: they get the time to meet the error themselves.
double grace_seconds(const WatchdogOptions& options) { return options.silence_seconds / 6; }

// Of this machine, as long as it runs. A number and not a name, because all have to agree on it.
std::uint64_t machine_id() {
  const std::string hex = base::digest_of(base::host_name() + "\n" + base::boot_id());
  std::uint64_t id = 0;
  std::from_chars(hex.data(), hex.data() + 16, id, 16);
  return id;
}

bool on_one_machine(ranks::HostCollectives& host) {
  const std::uint64_t own = machine_id();
  std::vector<std::uint64_t> all(static_cast<std::size_t>(host.ranks()));
  host.all_gather(&own, sizeof own, all.data());
  return std::count(all.begin(), all.end(), own) == host.ranks();
}

// Links to the other ranks on rank 0, by rank; to rank 0 on the others.
std::vector<WatchLink> connect(ranks::HostCollectives& host, const WatchdogOptions& options) {
  std::vector<WatchLink> links;
  if (host.ranks() == 1) return links;
  const bool near = on_one_machine(host) && options.address.empty();
  std::optional<base::Listener> listener;
  std::array<char, kMostMeetingBytes> text{};
  if (host.rank() == 0) {
    listener.emplace(near ? "127.0.0.1" : "", 0);
    ranks::MeetingPoint point;
    point.hosts = near ? std::vector<std::string>{"127.0.0.1"} : base::own_addresses();
    if (!options.address.empty()) point.hosts = {options.address};
    point.port = listener->port();
    const std::string hex = base::random_hex(8);
    std::from_chars(hex.data(), hex.data() + hex.size(), point.secret, 16);
    const std::string address = ranks::to_text(point);
    std::memcpy(text.data(), address.data(), std::min(address.size(), text.size() - 1));
  }
  host.broadcast(text.data(), static_cast<std::int64_t>(text.size()), 0);
  const std::optional<ranks::MeetingPoint> point = ranks::parse_meeting_point(text.data());
  if (!point) {
    throw base::Error(base::Code::Operator, "the watchdog's address \"" +
                                                base::printable(options.address.substr(0, 100)) +
                                                "\" is not a host; give a name or an address");
  }
  const ranks::StarOptions star{host.rank(), host.ranks(), point->secret, 0, kConnectSeconds};
  if (host.rank() != 0) {
    links.emplace_back(ranks::join_rank_0(point->hosts, point->port, star));
    return links;
  }
  for (base::Socket& socket : ranks::accept_ranks(*listener, star))
    links.emplace_back(std::move(socket));
  return links;
}

}  // namespace

struct Watchdog::State {
  State(ranks::HostCollectives& host, const base::Clock& the_clock,
        const WatchdogOptions& the_options, std::function<void(const Trip&)> the_trip,
        std::function<void(const contract::HeartbeatRecord&)> the_report)
      : clock(the_clock),
        options(the_options),
        trip(std::move(the_trip)),
        report(std::move(the_report)),
        rank(host.rank()),
        limits(options.least_seconds),
        links(connect(host, options)),
        wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake.valid()) base::throw_errno(errno, "cannot make the watchdog's wake-up");
    last_look = clock.monotonic_seconds();
    began = now();
    // By rank on rank 0; rank 0 alone on the others.
    peers.resize(std::max<std::size_t>(links.size(), 1));
    for (std::size_t i = 0; i < peers.size(); ++i) {
      peers[i].progress.rank = static_cast<int>(i);
      peers[i].heard = began;
    }
  }

  // Seconds of a clock that stands while this process does: after the whole job was suspended,
  // nothing is judged by the time that passed meanwhile.
  [[nodiscard]] double now() {
    const double read = clock.monotonic_seconds();
    const std::scoped_lock lock(mutex);
    return count(read);
  }
  [[nodiscard]] double count(double read) {
    const double gap = read - last_look;
    last_look = std::max(last_look, read);
    if (gap > std::max(options.silence_seconds / 2, 4 * options.beat_seconds)) stood += gap;
    return last_look - stood;
  }
  [[nodiscard]] bool is_ending() {
    const std::scoped_lock lock(mutex);
    return ending;
  }
  void enter(std::int64_t next_step, Phase next_phase) {
    const double read = clock.monotonic_seconds();
    const std::scoped_lock lock(mutex);
    const double time = count(read);
    limits.observe(phase, time - began);
    step = next_step;
    phase = next_phase;
    began = time;
  }
  [[nodiscard]] RankProgress own(double time) {
    const std::scoped_lock lock(mutex);
    RankProgress progress;
    progress.rank = rank;
    progress.step = step;
    progress.phase = phase;
    progress.seconds = std::max(0.0, time - began);
    progress.limit = limits.limit(phase);
    return progress;
  }

  void watch();
  void watch_all();
  void watch_rank_0();
  void hear(std::size_t peer, double time);
  [[nodiscard]] std::vector<RankProgress> progress_of_ranks(double time);
  void wait(int socket, double seconds);
  void broadcast_and_trip(const Trip& why);
  void trip_once(const Trip& why);
  void report_furthest(const std::stop_token& stop);
  void part(WatchKind kind);

  struct Peer {
    RankProgress progress{};
    double heard = 0;
    double absent_since = 0;
  };

  const base::Clock& clock;
  const WatchdogOptions options;
  const std::function<void(const Trip&)> trip;
  const std::function<void(const contract::HeartbeatRecord&)> report;
  const int rank;

  std::mutex mutex;  // held for moments only: the training thread comes here in every phase
  PhaseLimits limits;
  std::int64_t step = 0;
  Phase phase = Phase::Loading;
  double began = 0;
  double last_look = 0;
  double stood = 0;
  bool ending = false;
  std::mutex peers_mutex;  // taken before `mutex`
  std::vector<Peer> peers;

  std::vector<WatchLink> links;  // of the watching thread, then of the destructor
  std::optional<Trip> received;  // from rank 0
  bool tripped = false;
  base::UniqueFd wake;
  const int exceptions = std::uncaught_exceptions();
  std::condition_variable_any reporting;
  std::jthread reporter, watcher;
};

// Runs on the watching thread.
void Watchdog::State::watch() {
  try {
    if (rank == 0) {
      watch_all();
    } else {
      watch_rank_0();
    }
  } catch (const std::exception& error) {
    Trip own_failure;
    own_failure.why =
        "the watchdog of rank " + std::to_string(rank) + " fails: " + base::printable(error.what());
    own_failure.rank = rank;
    broadcast_and_trip(own_failure);
  }
}

// Until there is something at the socket, the time has come, or the watch ends.
void Watchdog::State::wait(int socket, double seconds) {
  std::array<pollfd, 2> waiting{pollfd{wake.get(), POLLIN, 0}, pollfd{socket, POLLIN, 0}};
  static_cast<void>(base::poll_until(waiting, base::deadline_in(seconds)));
}

// Takes in what a peer has sent.
void Watchdog::State::hear(std::size_t peer, double time) {
  WatchLink& link = links[peer];
  Peer& one = peers[peer];
  if (!link.is_open()) return;
  try {
    while (const std::optional<WatchMessage> message = link.receive()) {
      one.heard = time;
      switch (message->kind) {
        case WatchKind::Beat:
        case WatchKind::Answer:
          one.progress = message->progress;
          one.progress.rank = static_cast<int>(peer);
          if (message->kind == WatchKind::Beat) link.send({WatchKind::Answer, own(time)});
          break;
        case WatchKind::Trip:
          received = message->trip;
          break;
        case WatchKind::Goodbye:
          one.progress.presence = Presence::Left;
          link.close();
          return;
        case WatchKind::Failed:
          one.progress.presence = Presence::Failed;
          one.absent_since = time;
          link.close();
          return;
      }
    }
    link.flush();
  } catch (const base::Error&) {
    one.progress.presence = Presence::Closed;
    one.absent_since = time;
    link.close();
  }
}

// Of this rank, and of those that it is connected with.
std::vector<RankProgress> Watchdog::State::progress_of_ranks(double time) {
  std::vector<RankProgress> all;
  for (const Peer& peer : peers) {
    all.push_back(peer.progress);
    all.back().silent_seconds = time - peer.heard;
    all.back().absent_seconds = time - peer.absent_since;
  }
  if (rank == 0) {
    all[0] = own(time);
  } else {
    all.push_back(own(time));
  }
  return all;
}

// All sockets are looked at together, twice per beat: at a thousand ranks, waking up for each
// message would cost a good part of a core.
void Watchdog::State::watch_all() {
  while (!is_ending()) {
    const double time = now();
    std::vector<RankProgress> all;
    {
      const std::scoped_lock lock(peers_mutex);
      for (std::size_t peer = 1; peer < links.size(); ++peer) hear(peer, time);
      all = progress_of_ranks(time);
    }
    const auto why = verdict(all, options.silence_seconds, grace_seconds(options));
    if (why) return broadcast_and_trip(*why);
    wait(-1, options.beat_seconds / 2);
  }
}

void Watchdog::State::watch_rank_0() {
  double next_beat = now();
  while (!is_ending()) {
    const double time = now();
    std::vector<RankProgress> both;
    {
      const std::scoped_lock lock(peers_mutex);
      hear(0, time);
      both = progress_of_ranks(time);
    }
    if (received) return trip_once(*received);
    if (both[0].presence == Presence::Left) return;  // the run is over
    // How long a phase may take is judged by rank 0, which sees who waits for whom.
    for (RankProgress& one : both) one.limit = std::numeric_limits<double>::infinity();
    const auto why = verdict(both, options.silence_seconds, grace_seconds(options));
    if (why) return trip_once(*why);
    if (links[0].is_open() && time >= next_beat) {
      try {
        links[0].send({WatchKind::Beat, own(time)});
      } catch (const base::Error&) {
        // Its last message may still be there to be read.
      }
      next_beat = time + options.beat_seconds;
    }
    wait(links[0].is_open() ? links[0].socket().fd() : -1, options.beat_seconds);
  }
}

void Watchdog::State::broadcast_and_trip(const Trip& why) {
  if (rank == 0) {
    const base::Deadline deadline = base::deadline_in(kPartingSeconds);
    for (WatchLink& link : links) {
      if (!link.is_open()) continue;
      try {
        link.send({WatchKind::Trip, {}, why});
        while (!link.is_flushed()) {
          pollfd waiting{link.socket().fd(), POLLOUT, 0};
          if (!base::poll_until({&waiting, 1}, deadline)) break;
          link.flush();
        }
      } catch (const base::Error&) {
        // It is gone, perhaps the very reason.
      }
    }
  }
  trip_once(why);
}

void Watchdog::State::trip_once(const Trip& why) {
  {
    const std::scoped_lock lock(mutex);
    if (ending) return;
    tripped = true;
  }
  trip(why);
}

// On a thread of its own: a journal on a slow file system must not make rank 0 fall silent.
void Watchdog::State::report_furthest(const std::stop_token& stop) {
  std::mutex sleeping;
  std::unique_lock lock(sleeping);
  while (!reporting.wait_for(lock, stop, kReportEvery, [&] { return stop.stop_requested(); })) {
    const double time = now();
    std::vector<RankProgress> all;
    {
      const std::scoped_lock peers_lock(peers_mutex);
      all = progress_of_ranks(time);
    }
    const RankProgress* last = furthest_behind(all);
    if (last == nullptr) continue;
    try {
      report({last->step, last->rank, name_of(last->phase), last->seconds});
    } catch (const base::Error& error) {
      base::log(base::LogLevel::Warning,
                std::string("heartbeats are no longer reported: ") + error.what());
      return;
    }
  }
}

// Says goodbye, and waits a moment for the other ends to close: a connection that is closed with
// bytes unread may lose the last message.
void Watchdog::State::part(WatchKind kind) {
  const base::Deadline deadline = base::deadline_in(kPartingSeconds);
  for (WatchLink& link : links) {
    if (!link.is_open()) continue;
    try {
      link.send({kind});
      link.socket().finish_sending();
    } catch (const base::Error&) {
      link.close();
    }
  }
  std::vector<pollfd> waiting;
  for (;;) {
    waiting.clear();
    for (WatchLink& link : links) {
      try {
        while (link.is_open() && link.receive()) {
        }
      } catch (const base::Error&) {
        link.close();
      }
      if (link.is_open()) waiting.push_back({link.socket().fd(), POLLIN, 0});
    }
    if (waiting.empty() || !base::poll_until(waiting, deadline)) return;
  }
}

Watchdog::Watchdog(ranks::HostCollectives& host, const base::Clock& clock,
                   const WatchdogOptions& options, std::function<void(const Trip&)> trip,
                   std::function<void(const contract::HeartbeatRecord&)> report)
    : state_(std::make_unique<State>(host, clock, options, std::move(trip), std::move(report))) {
  State& state = *state_;
  if (host.rank() == 0 && host.ranks() > 1 && state.report) {
    state.reporter =
        std::jthread([&state](const std::stop_token& stop) { state.report_furthest(stop); });
  }
  state.watcher = std::jthread([&state] { state.watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->ending = true;
  }
  const std::uint64_t one = 1;
  static_cast<void>(!::write(state_->wake.get(), &one, sizeof one));
  state_->watcher.join();
  if (state_->reporter.joinable()) {
    state_->reporter.request_stop();
    state_->reporter.join();
  }
  if (state_->tripped) return;
  const bool failing = std::uncaught_exceptions() > state_->exceptions;
  try {
    state_->part(failing ? WatchKind::Failed : WatchKind::Goodbye);
  } catch (const std::exception& error) {
    base::log(base::LogLevel::Warning, error.what());
  }
}

void Watchdog::beat(std::int64_t step, Phase phase) { state_->enter(step, phase); }

}  // namespace regatta::trainer::watch
