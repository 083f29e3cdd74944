#include "trainer/ranks/delayed_communicator.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/error.h"

namespace regatta::trainer::ranks {
namespace {

constexpr std::size_t kTimesKept = 4096;  // as Communicator::done_at says
constexpr double kHalf = 0.5;             // of the bytes

class DelayedCommunicator final : public Communicator {
 public:
  DelayedCommunicator(std::unique_ptr<Communicator> inner, base::Clock& clock,
                      const LinkModel& link)
      : inner_(std::move(inner)), clock_(clock), link_(link) {
    base::check(link.latency_seconds >= 0 && link.bytes_per_second > 0, "the link moves bytes");
  }

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
    const double left = found->second.link_done - clock_.monotonic_seconds();
    if (left > 0) clock_.sleep(std::chrono::duration<double>(left));
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

 private:
  struct Transfer {
    Pending inner = 0;
    double link_done = 0;  // monotonic seconds
    bool finished = false;
  };

  [[nodiscard]] Pending begin(device::View x, Pending inner, double share = 1) {
    link_free_ = std::max(link_free_, clock_.monotonic_seconds()) +
                 link_.seconds(share * static_cast<double>(x.bytes()));
    while (transfers_.size() >= kTimesKept && transfers_.begin()->second.finished) {
      transfers_.erase(transfers_.begin());
    }
    transfers_[++last_] = {inner, link_free_};
    return last_;
  }

  std::unique_ptr<Communicator> inner_;
  base::Clock& clock_;
  LinkModel link_;
  double link_free_ = 0;  // monotonic seconds
  Pending last_ = 0;
  std::map<Pending, Transfer> transfers_;
};

}  // namespace

std::unique_ptr<Communicator> make_delayed_communicator(std::unique_ptr<Communicator> inner,
                                                        base::Clock& clock, const LinkModel& link) {
  return std::make_unique<DelayedCommunicator>(std::move(inner), clock, link);
}

}  // namespace regatta::trainer::ranks
