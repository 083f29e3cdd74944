#include "tests/trainer/nccl/thread_hosts.h"

#include <barrier>
#include <cstring>

namespace regatta::tests {
namespace {

using trainer::ranks::Parcels;

// What each rank lays out for the others, between two barriers.
struct Table {
  explicit Table(int ranks) : laid(static_cast<std::size_t>(ranks)), barrier(ranks) {}
  std::vector<Parcels> laid;
  std::barrier<> barrier;
};

class ThreadHost final : public trainer::ranks::HostCollectives {
 public:
  // Shared, since the last rank to go is known to none of them.
  ThreadHost(std::shared_ptr<Table> table, int rank) : table_(std::move(table)), rank_(rank) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return static_cast<int>(table_->laid.size()); }

  void all_reduce_sum(double* values, int count) override {
    const auto size = static_cast<std::size_t>(count);
    std::vector<double> all(size * table_->laid.size());
    all_gather(values, static_cast<std::int64_t>(size * sizeof(double)), all.data());
    std::fill(values, values + count, 0.0);
    for (std::size_t i = 0; i < all.size(); ++i) values[i % size] += all[i];
  }
  void broadcast(void* bytes, std::int64_t count, int root) override {
    Parcels to;
    if (rank_ == root) to.assign(table_->laid.size(), copy(bytes, count));
    if (rank_ != root) to.resize(table_->laid.size());
    const Parcels from = all_to_all(to);
    put(from[static_cast<std::size_t>(root)], bytes);
  }
  void all_gather(const void* bytes, std::int64_t count, void* all) override {
    const Parcels from = all_to_all(Parcels(table_->laid.size(), copy(bytes, count)));
    auto* to = static_cast<std::byte*>(all);
    for (const std::vector<std::byte>& parcel : from) to = put(parcel, to);
  }
  [[nodiscard]] Parcels all_to_all(const Parcels& to) override {
    const auto me = static_cast<std::size_t>(rank_);
    table_->laid[me] = to;
    table_->barrier.arrive_and_wait();
    Parcels from;
    for (const Parcels& laid : table_->laid) from.push_back(laid[me]);
    table_->barrier.arrive_and_wait();
    return from;
  }
  void barrier() override { table_->barrier.arrive_and_wait(); }

 private:
  static std::vector<std::byte> copy(const void* bytes, std::int64_t count) {
    const auto* from = static_cast<const std::byte*>(bytes);
    return {from, from + count};
  }
  static std::byte* put(const std::vector<std::byte>& parcel, void* to) {
    if (!parcel.empty()) std::memcpy(to, parcel.data(), parcel.size());
    return static_cast<std::byte*>(to) + parcel.size();
  }

  std::shared_ptr<Table> table_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<trainer::ranks::HostCollectives>> make_thread_hosts(int ranks) {
  auto table = std::make_shared<Table>(ranks);
  std::vector<std::unique_ptr<trainer::ranks::HostCollectives>> hosts;
  for (int r = 0; r < ranks; ++r) hosts.push_back(std::make_unique<ThreadHost>(table, r));
  return hosts;
}

std::unique_ptr<trainer::ranks::HostCollectives> ThreadHostGroups::take(
    const std::vector<int>& members, int rank) {
  const auto place = static_cast<std::size_t>(rank);
  const std::scoped_lock lock(mutex_);
  std::vector<Hosts>& made = hosts_[members];
  for (Hosts& hosts : made) {
    if (hosts[place] != nullptr) return std::move(hosts[place]);
  }
  made.push_back(make_thread_hosts(static_cast<int>(members.size())));
  return std::move(made.back()[place]);
}

}  // namespace regatta::tests
