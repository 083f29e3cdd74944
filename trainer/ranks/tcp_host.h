// Host collectives over TCP, for ranks without MPI: a star through rank 0. Meant for statistics,
// flags and setup of up to some thousand ranks; gradients take another way.
//
// A message is a header (mark, operation, number of the call, bytes) and its bytes, in the
// machine's order. Every call is one message of each rank that gives something to rank 0, and one
// back to each that gets something. When rank 0 loses a rank it tells the others which, and closes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/socket.h"
#include "trainer/ranks/host_collectives.h"

namespace regatta::trainer::ranks {

struct TcpHostOptions {
  int rank = 0;
  int ranks = 1;
  // Rank 0, as the others may reach it. It listens on all its addresses, on loopback only when the
  // first of these is that.
  std::vector<std::string> hosts;
  int port = 0;
  std::uint64_t secret = 0;  // the same on all ranks; who does not know it is turned away
  double connect_seconds = 60;
  // A call may wait so long for the other ranks.
  double call_seconds = 1800;
};

// A rank that closes its connection is noticed at once by the ranks that are in a call or come to
// one, if rank 0 is in one, too; calls throw Code::Retry from then on. Calls take at most
// kMostBytes from a rank; Code::User above.
class TcpHost final : public HostCollectives {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

  // Collective: returns when all ranks are connected. Code::Retry when they do not come in time.
  explicit TcpHost(TcpHostOptions options);
  // Rank 0, already listening (options.hosts and options.port are not read).
  TcpHost(TcpHostOptions options, base::Listener listener);

  // Collective: connections of its own. Channels are opened on this one, which outlives them.
  [[nodiscard]] std::unique_ptr<TcpHost> open_channel();
  // Ends what is under way here and on the other ranks; from any thread.
  void abandon() noexcept;

  [[nodiscard]] int rank() const override { return options_.rank; }
  [[nodiscard]] int ranks() const override { return options_.ranks; }
  void all_reduce_sum(double* values, int count) override;
  void broadcast(void* bytes, std::int64_t count, int root) override;
  void all_gather(const void* bytes, std::int64_t count, void* all) override;
  [[nodiscard]] Parcels all_to_all(const Parcels& to) override;
  void barrier() override;

 private:
  enum class Operation : std::uint32_t { Sum, Broadcast, Gather, Exchange, Barrier, Failure };
  struct Header;
  struct Incoming;
  struct Call;
  using Bytes = std::vector<std::byte>;

  TcpHost(TcpHostOptions options, std::uint32_t channel, base::Listener* listener);
  void connect(base::Listener* listener, std::uint32_t channel);
  [[nodiscard]] static const char* name_of(Operation operation);
  [[nodiscard]] Call begin(Operation operation, std::uint64_t bytes);
  [[nodiscard]] static Bytes message(const Call& call, std::span<const std::byte> body);
  [[nodiscard]] base::Socket& socket(int rank) { return sockets_[static_cast<std::size_t>(rank)]; }

  // Rank 0. exact: bytes from each; nothing: any number. from: the only rank that gives, -1 for
  // all.
  [[nodiscard]] std::vector<Bytes> collect(const Call& call, std::optional<std::uint64_t> exact,
                                           int from);
  void advance(const Call& call, std::optional<std::uint64_t> exact, int rank, Incoming* incoming);
  // messages: with header, by rank; none for who gets nothing.
  void distribute(const Call& call, const std::vector<std::span<const std::byte>>& messages);
  void distribute_same(const Call& call, std::span<const std::byte> body, int except);
  [[nodiscard]] std::vector<Parcels> sorted(const Call& call, const std::vector<Bytes>& bodies);

  // Other ranks.
  void give(const Call& call, std::span<const std::byte> body);
  [[nodiscard]] Bytes take(const Call& call, std::optional<std::uint64_t> exact);

  // Tells the ranks that nothing of the present answer has been sent to, and ends.
  [[noreturn]] void fail(const std::string& what, const std::vector<bool>& begun = {});

  TcpHostOptions options_;
  std::optional<base::Listener> listener_;
  std::uint32_t channels_ = 0;
  std::vector<base::Socket> sockets_;  // on rank 0 by rank, on others the one to rank 0
  std::uint64_t calls_ = 0;
  std::string failure_;
};

}  // namespace regatta::trainer::ranks
