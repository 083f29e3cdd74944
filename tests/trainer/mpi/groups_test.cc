// Groups of ranks: run by mpirun, every rank runs every test.
#include <gtest/gtest.h>

#include <vector>

#include "tests/trainer/mpi/ranks.h"
#include "tests/trainer/ranks/group_checks.h"

namespace regatta::tests {
namespace {

TEST(Groups, CollectivesStayApart) { check_collectives_of_groups(ranks()); }
TEST(Groups, MessagesGoRoundEach) { check_messages_in_groups(ranks()); }
TEST(Groups, HostValuesAreOfTheirMembers) { check_host_values_of_groups(ranks()); }
TEST(Groups, OfOneOfNoneAndOfGroups) { check_small_groups(ranks()); }
TEST(Groups, RefuseWrongMembersOnAllRanks) { check_refused_groups(ranks()); }

// What is under way when a group goes is over before memory may go.
TEST(Groups, WaitForWhatIsUnderWay) {
  std::vector<int> members;
  for (int r = ranks().ranks() - 1; r >= 0; --r) members.push_back(r);
  std::vector<float> values(262147, 2);
  {
    const auto group = ranks().open_group(members);
    static_cast<void>(
        group->all_reduce_sum(0, {values.data(), 262147, trainer::device::Dtype::Float32}));
  }
  EXPECT_EQ(values, std::vector<float>(262147, 2.0F * static_cast<float>(ranks().ranks())));
}

}  // namespace
}  // namespace regatta::tests
