// EMULATED: groups of ranks over an NCCL that the CPU plays; nothing here ran on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/trainer/nccl/nccl_ranks.h"
#include "tests/trainer/ranks/group_checks.h"

namespace regatta::tests {
namespace {

using testing::HasSubstr;
using trainer::ranks::Communicator;
using trainer::ranks::Pending;
using Members = std::vector<int>;
using Values = std::vector<float>;

// Whole numbers whose sums are exact in float32.
Values of_rank(int rank, std::size_t size) {
  Values values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>((rank * 31 + int(i)) % 997);
  return values;
}
Values sum_of(const Members& members, std::size_t size) {
  Values values(size);
  for (const int member : members) {
    const Values one = of_rank(member, size);
    for (std::size_t i = 0; i < size; ++i) values[i] += one[i];
  }
  return values;
}

// The even ranks of 5, or the odd ones backwards.
Members half_of(const NcclRank& rank) {
  return rank.rank % 2 == 0 ? Members{0, 2, 4} : Members{3, 1};
}
const Members kAll = {0, 1, 2, 3, 4};

NcclSetup five_ranks() {
  NcclSetup setup;
  setup.ranks = 5;
  setup.delays = {0.5, 0.5, 0.2, 1, 11};
  return setup;
}

TEST(EmulatedNcclGroups, CollectivesStayApart) {
  on_ranks(five_ranks(), [](NcclRank& rank) {
    const Members members = half_of(rank);
    const auto group = rank.ranks->open_group(members);
    ASSERT_NE(group, nullptr);
    EXPECT_EQ(group->ranks(), std::ssize(members));
    EXPECT_EQ(members[static_cast<std::size_t>(group->rank())], rank.rank);
    EXPECT_EQ(group->parts(), group->ranks());
    for (const std::size_t size : {std::size_t{1}, std::size_t{384}, std::size_t{1000}}) {
      LentMemory first(rank.nccl, rank.rank, of_rank(rank.rank, size));
      LentMemory between(rank.nccl, rank.rank, of_rank(rank.rank, size));
      LentMemory parts(rank.nccl, rank.rank, of_rank(rank.rank, size));
      const Pending in_group = group->all_reduce_sum(0, first.view());
      const Pending in_all = rank.ranks->all_reduce_sum(1, between.view());
      group->finish(2, group->reduce_scatter_sum(2, parts.view()));
      const Pending gathered = group->all_gather(2, parts.view());
      rank.finish(1, in_all);
      group->finish(0, gathered);
      group->finish(0, in_group);
      rank.nccl.synchronize(rank.rank, 0);
      EXPECT_EQ(first.values(), sum_of(members, size));
      EXPECT_EQ(parts.values(), sum_of(members, size));
      EXPECT_EQ(between.values(), sum_of(kAll, size));
      EXPECT_TRUE(first.is_intact() && between.is_intact() && parts.is_intact());
      EXPECT_GT(group->done_at(in_group), 0);
      for (int root = 0; root < group->ranks(); ++root) {
        LentMemory x(rank.nccl, rank.rank, of_rank(rank.rank, size));
        group->finish(0, group->broadcast(0, x.view(), root));
        rank.nccl.synchronize(rank.rank, 0);
        EXPECT_EQ(x.values(), of_rank(members[static_cast<std::size_t>(root)], size));
      }
    }
  });
}

// A letter to the next rank of the group, and one to the next of all, under way at once.
TEST(EmulatedNcclGroups, MessagesGoRoundEach) {
  on_ranks(five_ranks(), [](NcclRank& rank) {
    const Members members = half_of(rank);
    const auto group = rank.ranks->open_group(members);
    const int count = group->ranks(), before = (group->rank() + count - 1) % count;
    LentMemory out(rank.nccl, rank.rank, of_rank(rank.rank, 300));
    LentMemory in(rank.nccl, rank.rank, Values(300)), in_all(rank.nccl, rank.rank, Values(300));
    const Pending sent = rank.ranks->send(0, out.view(), (rank.rank + 1) % 5);
    const Pending received = rank.ranks->receive(0, in_all.view(), (rank.rank + 4) % 5);
    const Pending group_sent = group->send(1, out.view(), (group->rank() + 1) % count);
    const Pending group_received = group->receive(1, in.view(), before);
    group->finish(1, group_received);
    group->finish(1, group_sent);
    rank.ranks->finish(0, received);
    rank.ranks->finish(0, sent);
    rank.nccl.synchronize(rank.rank, 0);
    rank.nccl.synchronize(rank.rank, 1);
    EXPECT_EQ(in.values(), of_rank(members[static_cast<std::size_t>(before)], 300));
    EXPECT_EQ(in_all.values(), of_rank((rank.rank + 4) % 5, 300));
  });
}

TEST(EmulatedNcclGroups, HostValuesAreOfTheirMembers) {
  on_ranks(five_ranks(), [](NcclRank& rank) { check_host_values_of_groups(*rank.ranks); });
}

TEST(EmulatedNcclGroups, RefuseWrongMembersOnAllRanks) {
  on_ranks(five_ranks(), [](NcclRank& rank) { check_refused_groups(*rank.ranks); });
}

TEST(EmulatedNcclGroups, OfOneOfNoneAndOfGroups) {
  NcclSetup setup = five_ranks();
  setup.ranks = 4;
  setup.options.ranks_per_node = 2;
  on_ranks(setup, [](NcclRank& rank) {
    const auto alone = rank.ranks->open_group({rank.rank});
    LentMemory x(rank.nccl, rank.rank, of_rank(rank.rank, 100));
    EXPECT_EQ(alone->all_reduce_sum(0, x.view()), 0);
    EXPECT_EQ(rank.ranks->open_group({}), nullptr);
    const auto most = rank.ranks->open_group(rank.rank == 3 ? Members{} : Members{2, 1, 0});
    EXPECT_EQ(most == nullptr, rank.rank == 3);
    if (most == nullptr) return;
    EXPECT_EQ(most->parts(), 3) << "flat";
    const auto pair = most->open_group(rank.rank == 1 ? Members{1} : Members{2, 0});
    pair->finish(0, pair->all_reduce_sum(0, x.view()));
    rank.nccl.synchronize(rank.rank, 0);
    EXPECT_EQ(x.values(), sum_of(rank.rank == 1 ? Members{1} : Members{0, 2}, 100));
    EXPECT_EQ(pair->rank(), rank.rank == 0 ? 0 : pair->ranks() - 1)
        << "2 and 0 of most are 0 and 2";
  });
}

// What is under way on the GPU is over before NCCL splits.
TEST(EmulatedNcclGroups, OpenBehindWhatIsUnderWay) {
  NcclSetup setup = five_ranks();
  setup.delays = {5, 20, 0, 0, 3};
  on_ranks(setup, [](NcclRank& rank) {
    LentMemory x(rank.nccl, rank.rank, of_rank(rank.rank, 500));
    const Pending sum = rank.ranks->all_reduce_sum(0, x.view());
    const auto group = rank.ranks->open_group(half_of(rank));
    EXPECT_EQ(x.values(), sum_of(kAll, 500));
    rank.finish(0, sum);
  });
}

TEST(EmulatedNcclGroups, ASplitThatFailsEndsAll) {
  NcclSetup setup;
  setup.ranks = 1;
  on_ranks(setup, [](NcclRank& rank) {
    rank.nccl.fail_next(0, "comm_split", trainer::nccl::Result::SystemError);
    const auto open = [&] { static_cast<void>(rank.ranks->open_group({0})); };
    EXPECT_THAT(thrown_message(open, base::Code::Retry), HasSubstr("splitting into groups"));
    thrown_message([&] { rank.ranks->host().barrier(); }, base::Code::Retry);
  });
}

// Why groups wait for what is under way: the emulation's rule, broken.
TEST(EmulatedNcclTable, SplitsOnlyWhatHasNothingUnderWay) {
  EmulatedNccl nccl(1);
  trainer::nccl::Table table = nccl.table(0);
  table.enter();
  const auto settle = [&](trainer::nccl::Comm comm) {
    auto state = trainer::nccl::Result::InProgress;
    while (state == trainer::nccl::Result::InProgress) {
      static_cast<void>(table.comm_get_async_error(comm, &state));
    }
  };
  trainer::nccl::UniqueId id = {};
  static_cast<void>(table.get_unique_id(&id));
  trainer::nccl::Comm comm = nullptr, child = nullptr;
  static_cast<void>(table.comm_init_rank_config(&comm, 1, id, 0));
  settle(comm);
  nccl.break_links(0);  // never ends
  LentMemory x(nccl, 0, Values(4, 1));
  static_cast<void>(table.all_reduce(x.view().floats(), 4, comm, table.native_stream(0)));
  settle(comm);
  static_cast<void>(table.comm_split(comm, 0, 0, &child));
  EXPECT_THAT(nccl.violations(), testing::Contains(HasSubstr("under way is split")));
  static_cast<void>(table.comm_abort(comm));
}

// Rank 1 sees the error, rank 2 of its group is given up in the place of the watchdog, by way of
// the group; the other group goes on.
TEST(EmulatedNcclGroups, ALostMemberEndsItsGroupAndAll) {
  NcclSetup setup;
  setup.ranks = 4;
  setup.options.poll_seconds = 0.01;
  on_ranks(setup, [](NcclRank& rank) {
    const bool is_inner = rank.rank == 1 || rank.rank == 2;
    const Members members = is_inner ? Members{1, 2} : Members{0, 3};
    const auto group = rank.ranks->open_group(members);
    LentMemory x(rank.nccl, rank.rank, of_rank(rank.rank, 100));
    rank.ranks->host().barrier();
    if (!is_inner) {
      group->finish(0, group->all_reduce_sum(0, x.view()));
      rank.nccl.synchronize(rank.rank, 0);
      EXPECT_EQ(x.values(), sum_of(members, 100));
      rank.ranks->abandon();
      thrown_message([&] { group->host().barrier(); }, base::Code::Retry);
      return;
    }
    if (rank.rank == 1) rank.nccl.break_links(1, trainer::nccl::Result::RemoteError);
    std::jthread watchdog;
    const auto step = [&] {
      const Pending pending = group->all_reduce_sum(0, x.view());
      if (rank.rank == 2) {
        watchdog = std::jthread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          group->abandon();
        });
      }
      group->finish(0, pending);
      rank.nccl.synchronize(rank.rank, 0);
      group->host().barrier();
    };
    const std::string message = thrown_message(step, base::Code::Retry);
    EXPECT_THAT(message, HasSubstr(rank.rank == 1 ? "a rank or the network was lost" : "given up"));
    if (watchdog.joinable()) watchdog.join();
    thrown_message([&] { rank.ranks->host().barrier(); }, base::Code::Retry);
    thrown_message([&] { static_cast<void>(rank.ranks->open_group({rank.rank})); },
                   base::Code::Retry);
  });
}

}  // namespace
}  // namespace regatta::tests
