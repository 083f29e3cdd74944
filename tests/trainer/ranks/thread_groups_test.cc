// Groups of ranks that are threads, and of one rank.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"
#include "tests/trainer/ranks/group_checks.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "trainer/ranks/borrowed_communicator.h"

namespace regatta::tests {
namespace {

using trainer::ranks::Communicator;

using Check = void (*)(Communicator&);
constexpr Check kChecks[] = {check_collectives_of_groups, check_messages_in_groups,
                             check_host_values_of_groups, check_small_groups, check_refused_groups};

TEST(ThreadGroups, AreAsOfAnyCommunicator) {
  for (const int count : {1, 2, 3, 4, 5}) {
    for (const Check check : kChecks) ThreadRanks(count).run([&](Communicator& at) { check(at); });
  }
}

TEST(ThreadGroups, AreFlatWhereAllIsHierarchical) {
  for (const Check check : kChecks) ThreadRanks(4, 2).run([&](Communicator& at) { check(at); });
}

TEST(ThreadGroups, ABorrowerPassesThemOn) {
  ThreadRanks(3).run([](Communicator& at) {
    trainer::ranks::BorrowedCommunicator borrowed(at);
    check_collectives_of_groups(borrowed);
  });
}

TEST(SingleGroups, AreOfOneRankOrNone) {
  trainer::ranks::SingleCommunicator alone;
  check_small_groups(alone);
  check_refused_groups(alone);
}

// Of the group of ranks 1 to 3 and, for rank 4 of the other group, of all.
TEST(ThreadGroups, ALostMemberIsSaidToItsGroup) {
  for (const bool abandons : {false, true}) {
    std::atomic<int> retries = 0;
    const auto lost = [&](const std::function<void()>& call) {
      try {
        call();
        ADD_FAILURE() << "did not notice";
      } catch (const base::Error& error) {
        if (error.code() == base::Code::Retry) ++retries;
      }
    };
    ThreadRanks(5).run([&](Communicator& at) {
      const bool is_inner = at.rank() >= 1 && at.rank() <= 3;
      const auto group =
          at.open_group(is_inner ? std::vector<int>{3, 2, 1} : std::vector<int>{0, 4});
      std::vector<float> x(10);
      const trainer::device::View view{x.data(), 10, trainer::device::Dtype::Float32};
      if (at.rank() == 1 && abandons) group->abandon();
      if (at.rank() == 1) return;
      if (at.rank() == 2) lost([&] { group->finish(0, group->all_reduce_sum(0, view)); });
      if (at.rank() == 3) lost([&] { group->finish(0, group->receive(0, view, 2)); });
      if (at.rank() == 4) lost([&] { at.host().barrier(); });
      if (is_inner) lost([&] { group->host().barrier(); });
    });
    EXPECT_EQ(retries, 5);
  }
}

}  // namespace
}  // namespace regatta::tests
