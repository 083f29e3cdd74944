#include "trainer/ranks/rank_star.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace regatta::trainer::ranks {
namespace {

constexpr std::uint64_t kHelloMark = 0x316f6c6c65684752;
constexpr std::uint64_t kKnown = 0x316e776f6e6b4752;
constexpr std::uint64_t kConfirm = 0x316d72666e634752;
constexpr std::uint64_t kWelcome = 0x31656d6f636c4752;
// A guest says who it is within this time, or goes.
constexpr double kHelloSeconds = 10;
// How long to wait for the first answer of what may be a stranger; doubled with every attempt,
// because rank 0 may be late.
constexpr double kAnswerSeconds = 5;
constexpr std::size_t kStrangers = 64;  // at once, beside one guest for each rank

struct Hello {
  std::uint64_t mark = kHelloMark;
  std::uint64_t secret = 0;
  std::uint32_t channel = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::uint32_t unused = 0;
};
static_assert(sizeof(Hello) == 32);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// Some thousand ranks need more descriptors than the usual 1024; failing that, accepting says so.
void raise_open_files(int ranks) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = 4 * static_cast<rlim_t>(ranks) + 1024;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

// A connection on its way to being a rank's.
struct Guest {
  base::Socket socket;
  base::Deadline until;
  std::array<std::byte, sizeof(Hello)> bytes{};
  std::size_t got = 0;
  int rank = 0;  // once known
};

class Gathering {
 public:
  Gathering(base::Listener& listener, const StarOptions& options)
      : listener_(listener), options_(options), ranks_(static_cast<std::size_t>(options.ranks)) {}

  std::vector<base::Socket> run() {
    const base::Deadline deadline = base::deadline_in(options_.connect_seconds);
    std::vector<pollfd> waiting;
    while (missing_ > 0) {
      if (!wait(&waiting, deadline)) give_up();
      std::size_t at = 1;
      for (int rank = 1; rank < options_.ranks; ++rank) {
        if (socket(rank).valid() && waiting[at++].revents != 0) lose(rank);
      }
      for (auto guest = guests_.begin(); guest != guests_.end();) {
        const bool ready = waiting[at++].revents != 0;
        const bool late = std::chrono::steady_clock::now() >= guest->until;
        guest =
            (ready && !hear(&*guest)) || (!ready && late) ? guests_.erase(guest) : std::next(guest);
      }
      if (waiting[0].revents != 0) let_in();
    }
    for (int rank = 1; rank < options_.ranks; ++rank) {
      socket(rank).send_all(bytes_of(kWelcome), deadline);
    }
    return std::move(ranks_);
  }

 private:
  [[nodiscard]] base::Socket& socket(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  // The listener, then the ranks that have come, then the guests. False at the deadline.
  bool wait(std::vector<pollfd>* waiting, base::Deadline deadline) {
    waiting->assign(1, {listener_.fd(), POLLIN, 0});
    for (const base::Socket& one : ranks_) {
      if (one.valid()) waiting->push_back({one.fd(), POLLIN, 0});
    }
    base::Deadline next_late = deadline;
    for (const Guest& guest : guests_) {
      waiting->push_back({guest.socket.fd(), POLLIN, 0});
      next_late = std::min(next_late, guest.until);
    }
    return base::poll_until(*waiting, next_late) || std::chrono::steady_clock::now() < deadline;
  }

  void let_in() {
    while (std::optional<base::Socket> socket = listener_.accept_some()) {
      if (guests_.size() >= ranks_.size() + kStrangers) guests_.pop_front();  // the oldest
      Guest guest;
      guest.socket = std::move(*socket);
      guest.until = base::deadline_in(kHelloSeconds);
      guests_.push_back(std::move(guest));
    }
  }

  // False when the guest is to go: it is a rank now, a stranger, or gone.
  bool hear(Guest* guest) {
    try {
      const std::size_t wanted = guest->rank == 0 ? sizeof(Hello) : sizeof kConfirm;
      const std::span<std::byte> rest(guest->bytes.data() + guest->got, wanted - guest->got);
      guest->got += guest->socket.receive_some(rest);
      if (guest->got < wanted) return true;
      guest->got = 0;
      return guest->rank == 0 ? knows(guest) : !joins(guest);
    } catch (const base::Error&) {
      return false;  // whoever it was can come again
    }
  }
  bool knows(Guest* guest) {
    Hello hello;
    std::memcpy(&hello, guest->bytes.data(), sizeof hello);
    if (hello.mark != kHelloMark || hello.secret != options_.secret ||
        hello.channel != options_.channel || hello.ranks != options_.ranks || hello.rank < 1 ||
        hello.rank >= options_.ranks || socket(hello.rank).valid()) {
      return false;
    }
    guest->rank = hello.rank;
    return guest->socket.send_some(bytes_of(kKnown)) == sizeof kKnown;
  }
  bool joins(Guest* guest) {
    if (std::memcmp(guest->bytes.data(), &kConfirm, sizeof kConfirm) == 0 &&
        !socket(guest->rank).valid()) {
      socket(guest->rank) = std::move(guest->socket);
      --missing_;
    }
    return true;
  }

  // A rank says nothing before it is welcomed.
  [[noreturn]] void lose(int rank) {
    throw base::Error(base::Code::Retry, "rank " + std::to_string(rank) + " (" +
                                             socket(rank).peer() +
                                             ") was lost while the ranks gathered; start again");
  }
  [[noreturn]] void give_up() {
    int first = 1;
    while (socket(first).valid()) ++first;
    throw base::Error(base::Code::Retry,
                      std::to_string(missing_) + " of " + std::to_string(options_.ranks) +
                          " ranks, the first of them rank " + std::to_string(first) +
                          ", did not connect to port " + std::to_string(listener_.port()) +
                          " of rank 0 within " + base::human_seconds(options_.connect_seconds) +
                          "; see whether they run and no firewall is between");
  }

  base::Listener& listener_;
  const StarOptions& options_;
  std::vector<base::Socket> ranks_;
  int missing_ = options_.ranks - 1;
  std::list<Guest> guests_;
};

}  // namespace

std::vector<base::Socket> accept_ranks(base::Listener& listener, const StarOptions& options) {
  raise_open_files(options.ranks);
  return Gathering(listener, options).run();
}

base::Socket join_rank_0(const std::vector<std::string>& hosts, int port,
                         const StarOptions& options) {
  const base::Deadline deadline = base::deadline_in(options.connect_seconds);
  Hello hello;
  hello.secret = options.secret;
  hello.channel = options.channel;
  hello.rank = options.rank;
  hello.ranks = options.ranks;
  std::vector<std::string> order = hosts;
  std::uint64_t answer = 0;
  base::Socket socket;
  for (double patience = kAnswerSeconds;; patience *= 2) {
    try {
      socket = base::Socket::connect(order, port, deadline);
      const base::Deadline until = std::min(deadline, base::deadline_in(patience));
      socket.send_all(bytes_of(hello), until);
      socket.receive_all(std::as_writable_bytes(std::span(&answer, 1)), until);
      if (answer == kKnown) break;
      throw base::Error(base::Code::Retry, "something else than rank 0 of this run answers at " +
                                               socket.peer() + "; choose another port");
    } catch (const base::Error&) {
      if (std::chrono::steady_clock::now() >= deadline) throw;
    }
    // Perhaps somebody else was at this address: the next one first.
    std::rotate(order.begin(), order.begin() + 1, order.end());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const base::Deadline later = deadline + std::chrono::seconds(kLongerThanRank0);
  try {
    socket.send_all(bytes_of(kConfirm), later);
    socket.receive_all(std::as_writable_bytes(std::span(&answer, 1)), later);
  } catch (const base::Error& error) {
    throw base::Error(base::Code::Retry, std::string("rank 0 gave up while the ranks gathered (") +
                                             error.what() + "); its own message says why");
  }
  if (answer != kWelcome) {
    throw base::Error(base::Code::Retry,
                      "rank 0 at " + socket.peer() + " does not follow the protocol; start again");
  }
  return socket;
}

}  // namespace regatta::trainer::ranks
