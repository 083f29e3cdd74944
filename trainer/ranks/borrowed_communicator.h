// Somebody else's communicator where one of our own is wanted: passes everything on. What changes
// one call overrides it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/ranks/communicator.h"

namespace regatta::trainer::ranks {

// The owner lives as long.
class BorrowedCommunicator : public Communicator {
 public:
  explicit BorrowedCommunicator(Communicator& owner) : owner_(&owner) {}
  [[nodiscard]] int rank() const override { return owner_->rank(); }
  [[nodiscard]] int ranks() const override { return owner_->ranks(); }
  [[nodiscard]] int part() const override { return owner_->part(); }
  [[nodiscard]] int parts() const override { return owner_->parts(); }
  [[nodiscard]] Pending all_reduce_sum(device::Stream stream, device::View x) override {
    return owner_->all_reduce_sum(stream, x);
  }
  [[nodiscard]] Pending reduce_scatter_sum(device::Stream stream, device::View x) override {
    return owner_->reduce_scatter_sum(stream, x);
  }
  [[nodiscard]] Pending all_gather(device::Stream stream, device::View x) override {
    return owner_->all_gather(stream, x);
  }
  [[nodiscard]] Pending broadcast(device::Stream stream, device::View x, int root) override {
    return owner_->broadcast(stream, x, root);
  }
  [[nodiscard]] Pending send(device::Stream stream, device::View x, int to) override {
    return owner_->send(stream, x, to);
  }
  [[nodiscard]] Pending receive(device::Stream stream, device::View x, int from) override {
    return owner_->receive(stream, x, from);
  }
  void finish(device::Stream stream, Pending pending) override { owner_->finish(stream, pending); }
  [[nodiscard]] double done_at(Pending pending) override { return owner_->done_at(pending); }
  void abandon() noexcept override { owner_->abandon(); }
  [[nodiscard]] HostCollectives& host() override { return owner_->host(); }
  [[nodiscard]] std::unique_ptr<HostCollectives> open_channel() override {
    return owner_->open_channel();
  }
  // The owner's own: what changes a call here does not change it in groups.
  [[nodiscard]] std::unique_ptr<Communicator> open_group(const std::vector<int>& members) override {
    return owner_->open_group(members);
  }
  [[nodiscard]] std::string library_version() const override { return owner_->library_version(); }

 private:
  Communicator* owner_;
};

}  // namespace regatta::trainer::ranks
