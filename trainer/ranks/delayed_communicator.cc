#include "trainer/ranks/delayed_communicator.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"

namespace regatta::trainer::ranks {
namespace {

constexpr std::size_t kTimesKept = 4096;  // as Communicator::done_at says
constexpr double kHalf = 0.5;             // of the bytes

// The link of a communicator and its groups, which share it.
class Link {
 public:
  Link(base::Clock& clock, const LinkModel& model) : clock_(clock), model_(model) {
    base::check(model.latency_seconds >= 0 && model.bytes_per_second > 0, "the link moves bytes");
  }
  // When so many bytes that are given to it now are through, in monotonic seconds.
  [[nodiscard]] double carry(double bytes) {
    free_ = std::max(free_, clock_.monotonic_seconds()) + model_.seconds(bytes);
    return free_;
  }
  void wait_until(double seconds) {
    const double left = seconds - clock_.monotonic_seconds();
    if (left > 0) clock_.sleep(std::chrono::duration<double>(left));
  }

 private:
  base::Clock& clock_;
  LinkModel model_;
  double free_ = 0;  // monotonic seconds
};

class DelayedCommunicator final : public Communicator {
 public:
  // The link lives as long.
  DelayedCommunicator(std::unique_ptr<Communicator> inner, Link& link)
      : inner_(std::move(inner)), link_(link) {}
  DelayedCommunicator(std::unique_ptr<Communicator> inner, std::unique_ptr<Link> link)
      : own_link_(std::move(link)), inner_(std::move(inner)), link_(*own_link_) {}

  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int ranks() const override { return inner_->ranks(); }
  [[nodiscard]] int part() const override { return inner_->part(); }
  [[nodiscard]] int parts() const override { return inner_->parts(); }

  [[nodiscard]] Pending all_reduce_sum(device::Stream stream, device::View x) override {
    return begin(x, inner_->all_reduce_sum(stream, x));
  }
  [[nodiscard]] Pending reduce_scatter_sum(device::Stream stream, device::View x) override {
    return begin(x, inner_->reduce_scatter_sum(stream, x), kHalf);
  }
  [[nodiscard]] Pending all_gather(device::Stream stream, device::View x) override {
    return begin(x, inner_->all_gather(stream, x), kHalf);
  }
  [[nodiscard]] Pending broadcast(device::Stream stream, device::View x, int root) override {
    return begin(x, inner_->broadcast(stream, x, root));
  }
  [[nodiscard]] Pending send(device::Stream stream, device::View x, int to) override {
    return begin(x, inner_->send(stream, x, to));
  }
  [[nodiscard]] Pending receive(device::Stream stream, device::View x, int from) override {
    return begin(x, inner_->receive(stream, x, from));
  }
  void finish(device::Stream stream, Pending pending) override {
    const auto found = transfers_.find(pending);
    if (found == transfers_.end()) return;  // 0, or finished long ago
    inner_->finish(stream, found->second.inner);
    found->second.finished = true;
    link_.wait_until(found->second.link_done);
  }
  [[nodiscard]] double done_at(Pending pending) override {
    const auto found = transfers_.find(pending);
    if (found == transfers_.end()) return 0;
    return std::max(found->second.link_done, inner_->done_at(found->second.inner));
  }
  void abandon() noexcept override { inner_->abandon(); }
  [[nodiscard]] std::string library_version() const override { return inner_->library_version(); }

  [[nodiscard]] HostCollectives& host() override { return inner_->host(); }
  [[nodiscard]] std::unique_ptr<HostCollectives> open_channel() override {
    return inner_->open_channel();
  }
  // A rank by itself has nothing on the link.
  [[nodiscard]] std::unique_ptr<Communicator> open_group(const std::vector<int>& members) override {
    std::unique_ptr<Communicator> group = inner_->open_group(members);
    if (group == nullptr || group->ranks() == 1) return group;
    return std::make_unique<DelayedCommunicator>(std::move(group), link_);
  }

 private:
  struct Transfer {
    Pending inner = 0;
    double link_done = 0;  // monotonic seconds
    bool finished = false;
  };

  [[nodiscard]] Pending begin(device::View x, Pending inner, double share = 1) {
    const double link_done = link_.carry(share * static_cast<double>(x.bytes()));
    while (transfers_.size() >= kTimesKept && transfers_.begin()->second.finished) {
      transfers_.erase(transfers_.begin());
    }
    transfers_[++last_] = {inner, link_done};
    return last_;
  }

  std::unique_ptr<Link> own_link_;  // null in groups
  std::unique_ptr<Communicator> inner_;
  Link& link_;
  Pending last_ = 0;
  std::map<Pending, Transfer> transfers_;
};

}  // namespace

std::unique_ptr<Communicator> make_delayed_communicator(std::unique_ptr<Communicator> inner,
                                                        base::Clock& clock, const LinkModel& link) {
  return std::make_unique<DelayedCommunicator>(std::move(inner),
                                               std::make_unique<Link>(clock, link));
}

}  // namespace regatta::trainer::ranks
