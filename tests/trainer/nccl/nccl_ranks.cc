#include "tests/trainer/nccl/nccl_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <thread>

#include "tests/trainer/nccl/thread_hosts.h"

namespace regatta::tests {
namespace {

constexpr float kSentinel = -12345.5F;

using OpenGroup = std::function<trainer::nccl::NcclHost(const std::vector<int>&)>;

// NcclHost::open_group of member number `rank` of `of`, which are ranks of all.
OpenGroup groups_of(ThreadHostGroups& hosts, const std::vector<int>& of, int rank) {
  return [&hosts, of, rank](const std::vector<int>& members) -> trainer::nccl::NcclHost {
    if (members.size() < 2) return {};
    std::vector<int> of_all;
    for (const int member : members) of_all.push_back(of[static_cast<std::size_t>(member)]);
    const auto place =
        static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
    return {hosts.take(of_all, place),
            [&hosts, of_all, place] { return hosts.take(of_all, place); },
            groups_of(hosts, of_all, place)};
  };
}

}  // namespace

LentMemory::LentMemory(EmulatedNccl& nccl, int rank, std::vector<float> values)
    : all_(values.size() + 2 * kMargin, kSentinel) {
  std::copy(values.begin(), values.end(), all_.begin() + kMargin);
  nccl.lend(rank, view().floats(), view().size);
}

trainer::device::View LentMemory::view() {
  return {all_.data() + kMargin, static_cast<std::int64_t>(all_.size() - 2 * kMargin),
          trainer::device::Dtype::Float32};
}

std::vector<float> LentMemory::values() const {
  return {all_.begin() + kMargin, all_.end() - kMargin};
}

bool LentMemory::is_intact() const {
  const auto is_sentinel = [](float value) { return value == kSentinel; };
  return std::all_of(all_.begin(), all_.begin() + kMargin, is_sentinel) &&
         std::all_of(all_.end() - kMargin, all_.end(), is_sentinel);
}

void on_ranks(const NcclSetup& setup, const std::function<void(NcclRank&)>& body, bool made) {
  EmulatedNccl nccl(setup.ranks, setup.delays);
  auto hosts = make_thread_hosts(setup.ranks);
  auto channels = make_thread_hosts(setup.ranks);
  ThreadHostGroups groups;
  std::vector<int> all(static_cast<std::size_t>(setup.ranks));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::thread> threads;
  for (int r = 0; r < setup.ranks; ++r) {
    const auto index = static_cast<std::size_t>(r);
    threads.emplace_back([&, r, index] {
      NcclRank rank{nccl, r, {}, setup.options, nullptr};
      rank.host.values = std::move(hosts[index]);
      rank.host.open_channel = [&channels, index] { return std::move(channels[index]); };
      rank.host.open_group = groups_of(groups, all, r);
      try {
        if (made) rank.make();
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "emulated rank " << r << ": " << error.what();
        if (rank.ranks != nullptr) rank.ranks->abandon();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(nccl.violations(), testing::IsEmpty());
  for (int r = 0; r < setup.ranks; ++r) EXPECT_EQ(nccl.open_handles(r), 0) << "rank " << r;
}

std::string thrown_message(const std::function<void()>& call, base::Code code) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
    return error.what();
  }
  return "";
}

}  // namespace regatta::tests
