#include "tests/trainer/nccl/nccl_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "tests/trainer/nccl/thread_hosts.h"

namespace regatta::tests {
namespace {

constexpr float kSentinel = -12345.5F;

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
  std::vector<std::thread> threads;
  for (int r = 0; r < setup.ranks; ++r) {
    const auto index = static_cast<std::size_t>(r);
    threads.emplace_back([&, r, index] {
      NcclRank rank{nccl, r, {}, setup.options, nullptr};
      rank.host.values = std::move(hosts[index]);
      rank.host.open_channel = [&channels, index] { return std::move(channels[index]); };
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
