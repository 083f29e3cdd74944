// Collectives among the ranks of a run. Sum only: 1/N is folded into the loss, because averaging
// inside a collective switches NCCL's NVLS off.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/device/device.h"
#include "trainer/ranks/host_collectives.h"

namespace regatta::trainer::ranks {

// A collective under way; 0 is one that is done.
using Pending = std::int64_t;

// Parts begin at multiples of this many elements: 256 bytes of float32.
constexpr std::int64_t kPartAlignment = 64;

// Contract: every rank makes the same calls in the same order with the same sizes. Collectives on
// views begin when what `stream` has enqueued so far is done, and return at once; the view must not
// be touched before finish(). All views are float32. A lost peer throws Code::Retry, from any call.
//
// Parts: x is cut into parts() parts of part_size(x.size) elements, the last ones shorter or empty.
// Flat: one part for each rank. Hierarchical, for several nodes: one for each rank of a node, so
// that ranks of the same place in their nodes hold the same part; sums then go through the node
// first, between nodes each rank moves only its own part.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;
  [[nodiscard]] virtual int part() const { return rank(); }
  [[nodiscard]] virtual int parts() const { return ranks(); }

  // In place.
  [[nodiscard]] virtual Pending all_reduce_sum(device::Stream stream, device::View x) = 0;
  // Part part() becomes the sum over all ranks; the other parts are undefined afterwards.
  [[nodiscard]] virtual Pending reduce_scatter_sum(device::Stream stream, device::View x) = 0;
  // Every part becomes what the rank that holds it had there.
  [[nodiscard]] virtual Pending all_gather(device::Stream stream, device::View x) = 0;
  [[nodiscard]] virtual Pending broadcast(device::Stream stream, device::View x, int root) = 0;
  // To and from one other rank; sends to one rank arrive in their order. Begun in either order on
  // the two ranks.
  [[nodiscard]] virtual Pending send(device::Stream stream, device::View x, int to) = 0;
  [[nodiscard]] virtual Pending receive(device::Stream stream, device::View x, int from) = 0;
  // What `stream` enqueues from now on comes after the collective.
  virtual void finish(device::Stream stream, Pending pending) = 0;
  // When a finished collective was over, in this host's monotonic seconds (base::Clock); known
  // once what was enqueued after finish() has run. For the journal: kept for the last 4096.
  [[nodiscard]] virtual double done_at(Pending pending) = 0;
  // On the way out of a failure: gives up what is under way, and touches no view any more. The
  // other ranks are not waited for; nothing but destruction may follow.
  virtual void abandon() noexcept = 0;

  // Host values, for the thread that makes the calls above.
  [[nodiscard]] virtual HostCollectives& host() = 0;
  // More of them, for another thread: calls there and here do not wait for one another. All ranks
  // open channels in the same order. The communicator outlives the channel.
  [[nodiscard]] virtual std::unique_ptr<HostCollectives> open_channel() = 0;

  // A communicator among `members`, ranks of this one: members[p] is rank p of the group.
  // Collective over all ranks of this one, in the thread of host(): each names the group that it is
  // in, alike on all members; groups are disjoint, and a rank in none names none and gets null.
  // Flat, also where this one is hierarchical; a group of one rank is a SingleCommunicator. Groups
  // have groups.
  //
  // A group has all of the above for its members only, and is used by the same thread; ranks that
  // are in two (or in one and here) call them in one order. This one outlives its groups, and what
  // they hold is freed with it, so that groups are opened once and kept. abandon() here gives up
  // the groups, too, and abandoning a group of several ranks is abandoning this one; so it is with
  // a lost peer.
  //
  // Throws AgreedError of Code::Developer on all ranks as agree_on_groups() of rank_groups.h.
  [[nodiscard]] virtual std::unique_ptr<Communicator> open_group(
      const std::vector<int>& members) = 0;

  // What moves the bytes, with its version: "NCCL 2.28.9"; for people, and to tell measurements
  // apart. Empty: not known.
  [[nodiscard]] virtual std::string library_version() const { return ""; }

  [[nodiscard]] std::int64_t part_size(std::int64_t size) const {
    const std::int64_t even = (size + parts() - 1) / parts();
    return (even + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  }
  // Where this rank's part of `size` elements begins, and how long it is.
  [[nodiscard]] std::int64_t part_begin(std::int64_t size) const {
    return std::min(size, part_size(size) * part());
  }
  [[nodiscard]] std::int64_t part_count(std::int64_t size) const {
    return std::min(size, part_size(size) * (part() + 1)) - part_begin(size);
  }
};

// One rank: every collective is the identity.
class SingleCommunicator final : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int ranks() const override { return 1; }
  [[nodiscard]] Pending all_reduce_sum(device::Stream, device::View) override { return 0; }
  [[nodiscard]] Pending reduce_scatter_sum(device::Stream, device::View) override { return 0; }
  [[nodiscard]] Pending all_gather(device::Stream, device::View) override { return 0; }
  [[nodiscard]] Pending broadcast(device::Stream, device::View, int) override { return 0; }
  [[nodiscard]] Pending send(device::Stream, device::View, int) override { return 0; }
  [[nodiscard]] Pending receive(device::Stream, device::View, int) override { return 0; }
  void finish(device::Stream, Pending) override {}
  [[nodiscard]] double done_at(Pending) override { return 0; }
  void abandon() noexcept override {}
  [[nodiscard]] HostCollectives& host() override { return host_; }
  [[nodiscard]] std::unique_ptr<HostCollectives> open_channel() override {
    return std::make_unique<SingleHost>();
  }
  [[nodiscard]] std::unique_ptr<Communicator> open_group(const std::vector<int>& members) override;

 private:
  SingleHost host_;
};

}  // namespace regatta::trainer::ranks
