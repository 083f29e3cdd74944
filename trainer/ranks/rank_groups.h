// Which ranks form a group of their own (Communicator::open_group), agreed on by all ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/ranks/host_collectives.h"

namespace regatta::trainer::ranks {

// This rank in its group.
struct GroupPlace {
  int first = 0;  // the group's rank 0, by its number in `host`: no other group has the same
  int rank = 0;   // in the group: the place among the members
  int ranks = 1;  // of the group
};

// Collective over all ranks of `host`: every rank names the members of its group, in the order of
// their ranks there; a rank in no group names none, and gets nothing. When it returns, every rank
// has called it.
//
// Throws AgreedError of Code::Developer on all ranks where a rank names a member twice, one that
// does not exist, or others without itself, and where a member names another group.
[[nodiscard]] std::optional<GroupPlace> agree_on_groups(HostCollectives& host,
                                                        const std::vector<int>& members);

}  // namespace regatta::trainer::ranks
