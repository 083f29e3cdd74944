#include "orchestrator/api/connections.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/error.h"
#include "base/log.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/delivery.h"
#include "orchestrator/api/exchange.h"

namespace regatta::orchestrator::api {
namespace {

constexpr int kSweepMilliseconds = 250;
constexpr int kEvents = 64;
constexpr int kAcceptsAtOnce = 64;
constexpr std::size_t kBlock = 64 * 1024;
constexpr std::size_t kMostIgnored = std::size_t{16} << 20U;
// What epoll gives back for descriptors that are no connections.
constexpr std::uint64_t kWake = ~std::uint64_t{0};
constexpr std::uint64_t kListening = std::uint64_t{1} << 62U;

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

Peer peer_of(int socket) {
  Peer peer;
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return peer;
  if (address.ss_family == AF_UNIX) {
    ucred credentials{};
    size = sizeof credentials;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return peer;
    peer.local_socket = true;
    peer.uid = credentials.uid;
    peer.pid = credentials.pid;
    return peer;
  }
  size = sizeof address;
  char text[NI_MAXHOST] = "";
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, text, sizeof text, nullptr,
                    0, NI_NUMERICHOST) == 0) {
    peer.address = text;
  }
  return peer;
}

// False when the kernel has no room for it.
[[nodiscard]] bool add(int poll, int fd, std::uint32_t events, std::uint64_t data) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = data;
  return ::epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
}

}  // namespace

std::uint32_t Connections::events_of(const Connection& connection) {
  switch (connection.stage) {
    case Stage::Working:
      return 0;
    case Stage::Answer:
      return EPOLLOUT;
    case Stage::Waiting:
      // An endless answer learns from it that its reader is gone. Who asked for one that ends may
      // close the side on which it has said all.
      if (connection.rest->size()) return 0;
      return EPOLLRDHUP;
    case Stage::Head:
    case Stage::Body:
    case Stage::Linger:
      break;
  }
  return EPOLLIN;
}

Connections::Connections(std::vector<int> listening, const ConnectionLimits& limits, Events events)
    : listening_(std::move(listening)),
      limits_(limits),
      events_(std::move(events)),
      poll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!poll_.valid() || !wake_.valid() || !add(poll_.get(), wake_.get(), EPOLLIN, kWake) ||
      !go_on_accepting()) {
    base::throw_errno(errno, "cannot wait for connections");
  }
}

Connections::~Connections() { stop(); }

void Connections::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Connections::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));
  thread_.join();
  connections_.clear();
}

void Connections::answer(Id id, Wire wire) {
  {
    const std::lock_guard lock(mutex_);
    answers_.emplace_back(id, std::move(wire));
  }
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));  // full: it wakes anyway
}

void Connections::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) turn();
  stop_reading();
  const Time stopped = std::chrono::steady_clock::now();
  while (!connections_.empty() &&
         seconds_between(stopped, std::chrono::steady_clock::now()) < limits_.stop_seconds) {
    turn();
  }
}

void Connections::turn() {
  epoll_event events[kEvents];
  const int count = ::epoll_wait(poll_.get(), events, kEvents, kSweepMilliseconds);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t data = events[i].data.u64;
    if (data == kWake) {
      std::uint64_t ignored = 0;
      static_cast<void>(!::read(wake_.get(), &ignored, sizeof ignored));
    } else if (data >= kListening) {
      accept_some(listening_[data - kListening]);
    } else {
      handle(data, events[i].events);
    }
  }
  take_answers();
  const Time now = std::chrono::steady_clock::now();
  if (seconds_between(swept_, now) * 1000 >= kSweepMilliseconds) {
    swept_ = now;
    sweep();
  }
}

void Connections::stop_reading() {
  stopping_ = true;
  pause_accepting();
  std::vector<Id> reading;
  for (const auto& [id, each] : connections_) {
    const bool endless = each.rest && !each.rest->size();
    if (each.stage == Stage::Head || each.stage == Stage::Body || endless) reading.push_back(id);
  }
  for (const Id id : reading) close(id);
}

void Connections::pause_accepting() {
  accepting_ = false;
  for (const int each : listening_) ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, each, nullptr);
}

bool Connections::go_on_accepting() {
  for (std::size_t i = 0; i < listening_.size(); ++i) {
    if (!add(poll_.get(), listening_[i], EPOLLIN, kListening + i)) return false;
  }
  return true;
}

void Connections::accept_some(int listening) {
  for (int i = 0; i < kAcceptsAtOnce && accepting_; ++i) {
    base::UniqueFd fd(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      // Out of descriptors or memory: whoever has been idle longest makes room; else a pause, since
      // the listener would wake this thread again at once.
      const auto idle = longest_idle([](const Connection&) { return true; });
      if (idle) {
        close(*idle);
        continue;
      }
      return pause_accepting();
    }
    const int yes = 1;
    static_cast<void>(::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
    Connection made;
    made.peer = peer_of(fd.get());
    made.peer_key =
        made.peer.local_socket ? "uid " + std::to_string(made.peer.uid) : made.peer.address;
    if (!make_room(made.peer_key)) {  // all that it has are being worked on
      const std::string busy = to_wire(too_busy(), Body::Sent);
      static_cast<void>(::send(fd.get(), busy.data(), busy.size(), MSG_NOSIGNAL));
      continue;
    }
    made.fd = std::move(fd);
    made.accepted = made.progress = made.answered = std::chrono::steady_clock::now();
    const Id id = next_id_++;
    ++per_peer_[made.peer_key];
    Connection& connection = connections_.emplace(id, std::move(made)).first->second;
    connection.watched = EPOLLIN;
    if (add(poll_.get(), connection.fd.get(), EPOLLIN, id)) {
      handle(id, EPOLLIN);  // most requests are there already
    } else {
      close(id);
    }
  }
}

// Whether another connection may come: those that wait for their peers go first, longest idle
// first.
bool Connections::make_room(const std::string& peer_key) {
  const auto own = per_peer_.find(peer_key);
  if (own != per_peer_.end() && own->second >= limits_.per_peer) {
    const auto idle =
        longest_idle([&](const Connection& each) { return each.peer_key == peer_key; });
    if (!idle) return false;
    close(*idle);
  }
  if (connections_.size() >= limits_.connections) {
    const auto idle = longest_idle([](const Connection&) { return true; });
    if (!idle) return false;
    close(*idle);
  }
  return true;
}

std::optional<Connections::Id> Connections::longest_idle(
    const std::function<bool(const Connection&)>& which) const {
  std::optional<Id> found;
  const auto rank = [](const Connection& each) {  // one that has its answer misses nothing
    return std::pair(each.stage != Stage::Linger, each.progress);
  };
  for (const auto& [id, each] : connections_) {
    const bool waits_for_us = each.stage == Stage::Working || each.stage == Stage::Waiting;
    if (waits_for_us || !which(each)) continue;
    if (!found || rank(each) < rank(connections_.at(*found))) found = id;
  }
  return found;
}

void Connections::handle(Id id, std::uint32_t events) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  Connection& connection = it->second;
  if (connection.stage == Stage::Working || connection.stage == Stage::Waiting) {
    if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) close(id);  // nobody waits for it
    return;
  }
  if (connection.stage == Stage::Head || connection.stage == Stage::Body) {
    if (!receive(connection)) return close(id);
    look(id, connection);
  }
  if (connection.stage == Stage::Answer && !go_on(id, connection)) return close(id);
  if (connection.stage == Stage::Linger && !ignore_input(connection)) return close(id);
  watch(id, connection, events_of(connection));
}

// False when the peer is gone. Takes no more than the head or the body can need.
bool Connections::receive(Connection& connection) {
  const std::size_t most = connection.stage == Stage::Head
                               ? kMaxHead
                               : connection.scanner.size() + *connection.head.content_length;
  if (connection.input.size() >= most) return true;
  const std::size_t before = connection.input.size();
  connection.input.resize(std::min(most, before + kBlock));
  const ssize_t count = ::recv(connection.fd.get(), connection.input.data() + before,
                               connection.input.size() - before, 0);
  const bool waits = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  connection.input.resize(before + (count > 0 ? static_cast<std::size_t>(count) : 0));
  if (count > 0) connection.progress = std::chrono::steady_clock::now();
  return count > 0 || waits;
}

void Connections::look(Id id, Connection& connection) {
  if (connection.stage == Stage::Head) {
    switch (connection.scanner.look(connection.input)) {
      case HeadScanner::State::More:
        return;
      case HeadScanner::State::Refused:
        return refuse(connection, connection.scanner.why());
      case HeadScanner::State::Whole:
        break;
    }
    ReadHead read =
        read_head(std::string_view(connection.input).substr(0, connection.scanner.size()));
    if (!read.head) return refuse(connection, read.why);
    connection.head = std::move(*read.head);
    if (const auto refused = events_.refuse(connection.head, connection.peer)) {
      return refuse(connection, *refused);
    }
    begin_body(id, connection);
  } else if (connection.input.size() >=
             connection.scanner.size() + *connection.head.content_length) {
    finish_request(id, connection);
  }
}

// Only POST has a body here; what else follows a head is never read as anything.
void Connections::begin_body(Id id, Connection& connection) {
  if (connection.head.method != "POST") return finish_request(id, connection);
  const std::size_t whole = connection.scanner.size() + *connection.head.content_length;
  if (connection.input.size() >= whole) return finish_request(id, connection);
  connection.stage = Stage::Body;
  if (connection.head.find("expect") != nullptr) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    // Nothing was sent before, so it fits; a peer that misses it sends after a second, too.
    static_cast<void>(
        ::send(connection.fd.get(), kContinue.data(), kContinue.size(), MSG_NOSIGNAL));
  }
}

void Connections::finish_request(Id id, Connection& connection) {
  std::string body;
  if (connection.head.method == "POST") {
    body = connection.input.substr(connection.scanner.size(), *connection.head.content_length);
  }
  connection.input = std::string();
  connection.stage = Stage::Working;
  if (const auto refused = events_.take(id, connection.head, std::move(body), connection.peer)) {
    refuse(connection, *refused);
  }
}

void Connections::refuse(Connection& connection, const Response& response) {
  // Of a head that could not be read, the first word is all that is known.
  const bool head = connection.head.method == "HEAD" || connection.input.rfind("HEAD ", 0) == 0;
  const Response sent = with_request_id(response, request_id_of(connection.head));
  set_answer(connection, {to_wire(sent, head ? Body::LeftOut : Body::Sent)});
}

void Connections::set_answer(Connection& connection, Wire wire) {
  connection.stage = Stage::Answer;
  connection.input = std::string();
  connection.output = std::move(wire.bytes);
  connection.rest = std::move(wire.rest);
  connection.asked = false;
  connection.sent = 0;
  connection.answered = connection.progress = std::chrono::steady_clock::now();
  unsent_ += connection.output.size();
}

// False when the peer is gone.
bool Connections::send_more(Connection& connection) {
  while (connection.sent < connection.output.size()) {
    const ssize_t count =
        ::send(connection.fd.get(), connection.output.data() + connection.sent,
               std::min(kBlock, connection.output.size() - connection.sent), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    connection.sent += static_cast<std::size_t>(count);
    connection.progress = std::chrono::steady_clock::now();
  }
  unsent_ -= connection.output.size();
  connection.output = std::string();
  connection.stage = connection.rest ? Stage::Waiting : Stage::Linger;
  if (connection.rest) return true;
  // Closing with unread input would reset the connection, and the peer might lose the answer.
  ::shutdown(connection.fd.get(), SHUT_WR);
  return true;
}

// send_more(), and asks for what follows.
bool Connections::go_on(Id id, Connection& connection) {
  if (!send_more(connection)) return false;
  if (connection.stage != Stage::Waiting) return true;
  if (stopping_ && !connection.rest->size()) return false;
  ask(id, connection);
  return true;
}

void Connections::ask(Id id, Connection& connection) {
  connection.asked = events_.ask(id, connection.rest);
}

// False at the peer's end, or when it goes on sending.
bool Connections::ignore_input(Connection& connection) {
  char block[kBlock];
  const ssize_t count = ::recv(connection.fd.get(), block, sizeof block, 0);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  connection.ignored += static_cast<std::size_t>(count);
  return count > 0 && connection.ignored <= kMostIgnored;
}

void Connections::watch(Id id, Connection& connection, std::uint32_t events) {
  if (connection.watched == events) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, connection.fd.get(), &event) != 0) return close(id);
  connection.watched = events;
}

void Connections::close(Id id) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  unsent_ -= it->second.output.size();
  const auto peer = per_peer_.find(it->second.peer_key);
  if (--peer->second == 0) per_peer_.erase(peer);
  connections_.erase(it);
}

void Connections::take_answers() {
  std::vector<std::pair<Id, Wire>> answers;
  {
    const std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (auto& [id, wire] : answers) {
    const auto it = connections_.find(id);
    if (it == connections_.end()) continue;
    if (wire.is_broken) {
      close(id);
      continue;
    }
    if (wire.bytes.empty() && wire.rest) {  // the next sweep asks again
      it->second.asked = false;
      continue;
    }
    set_answer(it->second, std::move(wire));
    handle(id, EPOLLOUT);
    while (unsent_ > limits_.unsent_bytes) {
      const auto idle =
          longest_idle([](const Connection& each) { return each.stage == Stage::Answer; });
      if (!idle) break;
      close(*idle);
    }
  }
}

void Connections::sweep() {
  const Time now = std::chrono::steady_clock::now();
  std::vector<Id> late;
  for (auto& [id, connection] : connections_) {
    if (is_late(connection, now)) late.push_back(id);
    if (connection.stage == Stage::Waiting && !connection.asked) ask(id, connection);
  }
  for (const Id id : late) {
    Connection& connection = connections_.at(id);
    const bool reading = connection.stage == Stage::Head || connection.stage == Stage::Body;
    if (reading && !connection.input.empty()) {
      refuse(connection, error_response(408, "timeout", "the request did not arrive in time"));
      handle(id, EPOLLOUT);
    } else {
      close(id);
    }
  }
  if (!accepting_ && !stopping_) accepting_ = go_on_accepting();
}

bool Connections::is_late(Connection& connection, Time now) {
  const double age = seconds_between(connection.accepted, now);
  const double answered = seconds_between(connection.answered, now);
  switch (connection.stage) {
    case Stage::Head:
      return age > (connection.input.empty() ? limits_.first_byte_seconds : limits_.head_seconds);
    case Stage::Body:
      return age > limits_.request_seconds;
    case Stage::Working:
    case Stage::Waiting:
      return false;  // it waits for us
    case Stage::Answer:
      return answered > limits_.answer_seconds;
    case Stage::Linger:
      return seconds_between(connection.progress, now) > limits_.linger_seconds;
  }
  return false;
}

}  // namespace regatta::orchestrator::api
