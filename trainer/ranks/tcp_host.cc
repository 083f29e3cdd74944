#include "trainer/ranks/tcp_host.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "trainer/ranks/rank_star.h"

namespace regatta::trainer::ranks {
namespace {

constexpr std::uint32_t kMark = 0x32486352;
constexpr std::uint64_t kMostMessageBytes = 400;  // of a failure that other ranks hear of
// Memory is taken as bytes arrive: a size that is garbled costs no more than this.
constexpr std::size_t kStride = std::size_t{1} << 20;

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.compare(0, 4, "127.") == 0;
}

std::span<const std::byte> view(const void* bytes, std::uint64_t count) {
  return {static_cast<const std::byte*>(bytes), static_cast<std::size_t>(count)};
}

void append(std::vector<std::byte>* to, const void* bytes, std::size_t count) {
  const auto* first = static_cast<const std::byte*>(bytes);
  to->insert(to->end(), first, first + count);
}

// Receives into `to` until it has `total` bytes; what is there now. True when it has.
bool grow(base::Socket& socket, std::uint64_t total, std::vector<std::byte>* to, std::size_t* got) {
  for (;;) {
    if (*got == total) return true;
    to->resize(std::min<std::size_t>(static_cast<std::size_t>(total), *got + kStride));
    const std::size_t more = socket.receive_some(std::span(*to).subspan(*got));
    if (more == 0) return false;
    *got += more;
  }
}

// Parcels as one body: their sizes, then their bytes.
std::vector<std::byte> packed(const Parcels& parcels) {
  std::vector<std::byte> body;
  for (const auto& parcel : parcels) {
    const std::uint64_t size = parcel.size();
    append(&body, &size, sizeof size);
  }
  for (const auto& parcel : parcels) append(&body, parcel.data(), parcel.size());
  return body;
}

// Nothing when the body does not hold what its sizes say.
std::optional<Parcels> unpacked(std::span<const std::byte> body, std::size_t count) {
  if (body.size() < count * sizeof(std::uint64_t)) return std::nullopt;
  std::vector<std::uint64_t> sizes(count);
  std::memcpy(sizes.data(), body.data(), count * sizeof(std::uint64_t));
  std::span<const std::byte> rest = body.subspan(count * sizeof(std::uint64_t));
  Parcels parcels;
  for (const std::uint64_t size : sizes) {
    if (size > rest.size()) return std::nullopt;
    const auto parcel = rest.first(static_cast<std::size_t>(size));
    parcels.emplace_back(parcel.begin(), parcel.end());
    rest = rest.subspan(parcel.size());
  }
  return rest.empty() ? std::optional(std::move(parcels)) : std::nullopt;
}

}  // namespace

struct TcpHost::Header {
  std::uint32_t mark = kMark;
  Operation operation = Operation::Barrier;
  std::uint64_t call = 0;
  std::uint64_t bytes = 0;
};

struct TcpHost::Call {
  Operation operation = Operation::Barrier;
  std::uint64_t number = 0;
  base::Deadline deadline;
};

struct TcpHost::Incoming {
  bool wanted = false;
  bool complete = false;
  Bytes header, body;
  std::size_t header_got = 0;
  std::size_t body_got = 0;
};

TcpHost::TcpHost(TcpHostOptions options) : options_(std::move(options)) {
  if (rank() == 0 && ranks() > 1) {
    const std::string& host = options_.hosts.at(0);
    listener_.emplace(is_loopback(host) ? host : std::string(), options_.port);
  }
  connect(listener_ ? &*listener_ : nullptr, 0);
}
TcpHost::TcpHost(TcpHostOptions options, base::Listener listener)
    : options_(std::move(options)), listener_(std::move(listener)) {
  base::check(rank() == 0, "rank 0 listens");
  connect(&*listener_, 0);
}
TcpHost::TcpHost(TcpHostOptions options, std::uint32_t channel, base::Listener* listener)
    : options_(std::move(options)) {
  connect(listener, channel);
}

void TcpHost::connect(base::Listener* listener, std::uint32_t channel) {
  base::check(ranks() >= 1 && rank() >= 0 && rank() < ranks(), "the rank is one of the ranks");
  const StarOptions star{rank(), ranks(), options_.secret, channel, options_.connect_seconds};
  if (rank() != 0) {
    sockets_.push_back(join_rank_0(options_.hosts, options_.port, star));
  } else if (ranks() > 1) {
    base::check(listener != nullptr, "channels are opened on the first one");
    sockets_ = accept_ranks(*listener, star);
  }
}

std::unique_ptr<TcpHost> TcpHost::open_channel() {
  return std::unique_ptr<TcpHost>(
      new TcpHost(options_, ++channels_, listener_ ? &*listener_ : nullptr));
}

void TcpHost::abandon() noexcept {
  for (base::Socket& one : sockets_) one.shut_down();
}

const char* TcpHost::name_of(Operation operation) {
  switch (operation) {
    case Operation::Sum:
      return "a sum";
    case Operation::Broadcast:
      return "a broadcast";
    case Operation::Gather:
      return "a gather";
    case Operation::Exchange:
      return "an exchange";
    case Operation::Barrier:
      return "a barrier";
    case Operation::Failure:
      return "a failure";
  }
  return "something unknown";
}

TcpHost::Call TcpHost::begin(Operation operation, std::uint64_t bytes) {
  if (!failure_.empty()) throw base::Error(base::Code::Retry, failure_);
  if (bytes > kMostBytes) {
    throw base::Error(base::Code::User, std::string(name_of(operation)) + " of " +
                                            base::human_bytes(bytes) +
                                            " is too large for TCP; run with MPI");
  }
  const int longer = rank() == 0 ? 0 : kLongerThanRank0;
  return {operation, ++calls_, base::deadline_in(options_.call_seconds + longer)};
}

TcpHost::Bytes TcpHost::message(const Call& call, std::span<const std::byte> body) {
  const Header header{kMark, call.operation, call.number, body.size()};
  Bytes all;
  all.reserve(sizeof header + body.size());
  append(&all, &header, sizeof header);
  append(&all, body.data(), body.size());
  return all;
}

void TcpHost::fail(const std::string& what, const std::vector<bool>& begun) {
  failure_ = what.substr(0, kMostMessageBytes);
  if (rank() == 0) {
    const Call call{Operation::Failure, calls_, {}};
    const Bytes farewell = message(call, view(failure_.data(), failure_.size()));
    for (int r = 1; r < ranks(); ++r) {
      if (!begun.empty() && begun[static_cast<std::size_t>(r)]) continue;
      try {
        static_cast<void>(socket(r).send_some(farewell));
      } catch (const base::Error&) {
        // The one that was lost, or another: they notice by themselves.
      }
    }
  }
  abandon();
  throw base::Error(base::Code::Retry, failure_);
}

void TcpHost::advance(const Call& call, std::optional<std::uint64_t> exact, int rank,
                      Incoming* incoming) {
  if (!grow(socket(rank), sizeof(Header), &incoming->header, &incoming->header_got)) return;
  Header header;
  std::memcpy(&header, incoming->header.data(), sizeof header);
  if (header.mark != kMark || header.operation != call.operation || header.call != call.number ||
      header.bytes > kMostBytes || (exact && header.bytes != *exact)) {
    fail("rank " + std::to_string(rank) + " came to " + name_of(call.operation) +
         " with something else; all ranks must run the same version with the same run file");
  }
  incoming->complete = grow(socket(rank), header.bytes, &incoming->body, &incoming->body_got);
}

std::vector<TcpHost::Bytes> TcpHost::collect(const Call& call, std::optional<std::uint64_t> exact,
                                             int from) {
  std::vector<Incoming> all(static_cast<std::size_t>(ranks()));
  int missing = 0;
  for (int r = 1; r < ranks(); ++r) {
    all[static_cast<std::size_t>(r)].wanted = from < 0 || from == r;
    missing += all[static_cast<std::size_t>(r)].wanted ? 1 : 0;
  }
  std::vector<pollfd> waiting;
  while (missing > 0) {
    waiting.assign(static_cast<std::size_t>(ranks()), {-1, 0, 0});
    for (int r = 1; r < ranks(); ++r) {
      const Incoming& one = all[static_cast<std::size_t>(r)];
      // Who waits for an answer does not close before it has one.
      const bool owed = call.operation != Operation::Broadcast || r != from;
      const bool wanted = one.wanted && !one.complete;
      if (!wanted && !owed) continue;
      waiting[static_cast<std::size_t>(r)] = {socket(r).fd(),
                                              static_cast<short>(wanted ? POLLIN : POLLRDHUP), 0};
    }
    if (!base::poll_until(waiting, call.deadline)) {
      const auto late = std::find_if(
          all.begin(), all.end(), [](const Incoming& one) { return one.wanted && !one.complete; });
      fail("rank " + std::to_string(late - all.begin()) + " did not come to " +
           name_of(call.operation) + " within " + base::human_seconds(options_.call_seconds) +
           "; start again from the last checkpoint");
    }
    for (int r = 1; r < ranks(); ++r) {
      Incoming& one = all[static_cast<std::size_t>(r)];
      if (waiting[static_cast<std::size_t>(r)].revents == 0) continue;
      std::string why = socket(r).peer() + " closed the connection";
      try {
        if (one.wanted && !one.complete) {
          advance(call, exact, r, &one);
          missing -= one.complete ? 1 : 0;
          continue;
        }
      } catch (const base::Error& error) {
        if (!failure_.empty()) throw;
        why = error.what();
      }
      fail("rank " + std::to_string(r) + " is lost at " + name_of(call.operation) + " (" + why +
           "); start again from the last checkpoint");
    }
  }
  std::vector<Bytes> bodies;
  for (Incoming& one : all) bodies.push_back(std::move(one.body));
  return bodies;
}

void TcpHost::distribute(const Call& call,
                         const std::vector<std::span<const std::byte>>& messages) {
  std::vector<std::size_t> sent(messages.size());
  std::vector<bool> begun(messages.size());
  std::vector<pollfd> waiting;
  for (;;) {
    waiting.assign(messages.size(), {-1, 0, 0});
    bool blocked = false;
    for (std::size_t r = 1; r < messages.size(); ++r) {
      if (sent[r] == messages[r].size()) continue;
      try {
        sent[r] += sockets_[r].send_some(messages[r].subspan(sent[r]));
      } catch (const base::Error& error) {
        fail("rank " + std::to_string(r) + " is lost at " + name_of(call.operation) + " (" +
                 error.what() + "); start again from the last checkpoint",
             begun);
      }
      begun[r] = sent[r] > 0 && sent[r] < messages[r].size();
      if (sent[r] == messages[r].size()) continue;
      waiting[r] = {sockets_[r].fd(), POLLOUT, 0};
      blocked = true;
    }
    if (!blocked) return;
    if (!base::poll_until(waiting, call.deadline)) {
      fail(std::string("some ranks did not take what they get from ") + name_of(call.operation) +
               " within " + base::human_seconds(options_.call_seconds) + "; start again",
           begun);
    }
  }
}

void TcpHost::distribute_same(const Call& call, std::span<const std::byte> body, int except) {
  const Bytes all = message(call, body);
  std::vector<std::span<const std::byte>> messages(sockets_.size(), all);
  if (!messages.empty()) messages[static_cast<std::size_t>(except)] = {};
  distribute(call, messages);
}

void TcpHost::give(const Call& call, std::span<const std::byte> body) {
  const Bytes all = message(call, body);
  try {
    sockets_[0].send_all(all, call.deadline);
  } catch (const base::Error& error) {
    static_cast<void>(take(call, std::nullopt));  // rank 0 may have said why before it closed
    fail(std::string("rank 0 is lost at ") + name_of(call.operation) + " (" + error.what() +
         "); start again from the last checkpoint");
  }
}

TcpHost::Bytes TcpHost::take(const Call& call, std::optional<std::uint64_t> exact) {
  Header header;
  Bytes body;
  try {
    sockets_[0].receive_all(std::as_writable_bytes(std::span(&header, 1)), call.deadline);
    const bool failed = header.operation == Operation::Failure && header.bytes <= kMostMessageBytes;
    const bool expected = header.operation == call.operation && header.call == call.number &&
                          (!exact || header.bytes == *exact);
    if (header.mark == kMark && (failed || expected)) {
      for (std::size_t got = 0; !grow(sockets_[0], header.bytes, &body, &got);) {
        pollfd waiting{sockets_[0].fd(), POLLIN, 0};
        if (!base::poll_until({&waiting, 1}, call.deadline)) {
          throw base::Error(base::Code::Retry, "it sent only a part in time");
        }
      }
      if (!failed) return body;
    }
  } catch (const base::Error& error) {
    fail(std::string("rank 0, or the way to it, is lost at ") + name_of(call.operation) + " (" +
         error.what() + "); start again from the last checkpoint");
  }
  if (body.empty()) {
    fail(std::string("rank 0 answers ") + name_of(call.operation) +
         " with something else; all ranks must run the same version with the same run file");
  }
  fail(base::printable(std::string(reinterpret_cast<const char*>(body.data()), body.size())));
}

void TcpHost::all_reduce_sum(double* values, int count) {
  base::check(count >= 0, "a sum of some values");
  const std::uint64_t size = static_cast<std::uint64_t>(count) * sizeof(double);
  const Call call = begin(Operation::Sum, size);
  if (rank() != 0) {
    give(call, view(values, size));
    const Bytes sum = take(call, size);
    if (size > 0) std::memcpy(values, sum.data(), sum.size());
    return;
  }
  const std::vector<Bytes> bodies = collect(call, size, -1);
  std::vector<double> others(static_cast<std::size_t>(count));
  for (std::size_t r = 1; r < bodies.size() && count > 0; ++r) {
    std::memcpy(others.data(), bodies[r].data(), bodies[r].size());
    for (std::size_t i = 0; i < others.size(); ++i) values[i] += others[i];
  }
  distribute_same(call, view(values, size), 0);
}

void TcpHost::broadcast(void* bytes, std::int64_t count, int root) {
  base::check(count >= 0 && root >= 0 && root < ranks(), "the root is a rank");
  const auto size = static_cast<std::uint64_t>(count);
  const Call call = begin(Operation::Broadcast, size);
  if (rank() == 0) {
    const std::vector<Bytes> bodies = collect(call, size, root);
    if (root != 0 && size > 0) {
      std::memcpy(bytes, bodies[static_cast<std::size_t>(root)].data(), size);
    }
    distribute_same(call, view(bytes, size), root);
  } else if (rank() == root) {
    give(call, view(bytes, size));
  } else {
    const Bytes body = take(call, size);
    if (size > 0) std::memcpy(bytes, body.data(), body.size());
  }
}

void TcpHost::all_gather(const void* bytes, std::int64_t count, void* all) {
  base::check(count >= 0, "a gather of some bytes");
  const auto size = static_cast<std::uint64_t>(count);
  const std::uint64_t total = size * static_cast<std::uint64_t>(ranks());
  const Call call = begin(Operation::Gather, total);
  if (rank() != 0) {
    give(call, view(bytes, size));
    const Bytes body = take(call, total);
    if (total > 0) std::memcpy(all, body.data(), body.size());
    return;
  }
  const std::vector<Bytes> bodies = collect(call, size, -1);
  if (size > 0) {
    auto* to = static_cast<std::byte*>(all);
    std::memmove(to, bytes, size);
    for (std::size_t r = 1; r < bodies.size(); ++r)
      std::memcpy(to + r * size, bodies[r].data(), size);
  }
  distribute_same(call, view(all, total), 0);
}

std::vector<Parcels> TcpHost::sorted(const Call& call, const std::vector<Bytes>& bodies) {
  std::vector<Parcels> all(bodies.size());
  for (std::size_t r = 1; r < bodies.size(); ++r) {
    std::optional<Parcels> parcels = unpacked(bodies[r], bodies.size());
    if (!parcels) {
      fail("rank " + std::to_string(r) + " came to " + name_of(call.operation) +
           " with damaged parcels; start again");
    }
    all[r] = std::move(*parcels);
  }
  return all;
}

Parcels TcpHost::all_to_all(const Parcels& to) {
  const auto count = static_cast<std::size_t>(ranks());
  const auto own = static_cast<std::size_t>(rank());
  base::check(to.size() == count, "a parcel for each rank");
  Parcels given = to;
  given[own].clear();  // stays here
  const Bytes body = packed(given);
  const Call call = begin(Operation::Exchange, body.size());
  Parcels got;
  if (rank() != 0) {
    give(call, body);
    std::optional<Parcels> parcels = unpacked(take(call, std::nullopt), count);
    if (!parcels) fail("rank 0 sent damaged parcels; start again");
    got = std::move(*parcels);
  } else {
    std::vector<Parcels> from = sorted(call, collect(call, std::nullopt, -1));
    from[0] = std::move(given);
    std::vector<Bytes> answers(count);
    std::vector<std::span<const std::byte>> messages(count);
    for (std::size_t r = 1; r < count; ++r) {
      Parcels parcels;
      for (Parcels& one : from) parcels.push_back(std::move(one[r]));
      answers[r] = message(call, packed(parcels));
      messages[r] = answers[r];
    }
    distribute(call, messages);
    for (Parcels& one : from) got.push_back(std::move(one[0]));
  }
  got[own] = to[own];
  return got;
}

void TcpHost::barrier() {
  const Call call = begin(Operation::Barrier, 0);
  if (rank() != 0) {
    give(call, {});
    static_cast<void>(take(call, 0));
    return;
  }
  static_cast<void>(collect(call, 0, -1));
  distribute_same(call, {}, 0);
}

}  // namespace regatta::trainer::ranks
