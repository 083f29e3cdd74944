#include "trainer/ranks/rank_groups.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>

#include "base/error.h"
#include "trainer/ranks/communicator.h"
#include "trainer/ranks/rank_agreement.h"

namespace regatta::trainer::ranks {
namespace {

constexpr std::size_t kMostNamed = 16;  // ranks of a group that a message shows

std::string group_text(const std::vector<int>& members) {
  if (members.empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < std::min(members.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(members[i]);
  }
  return text + (members.size() > kMostNamed ? ", …" : "");
}

// What one rank can see for itself.
void check_members(const std::vector<int>& members, int rank, int ranks) {
  const auto refuse = [&](const std::string& why) {
    throw base::Error(base::Code::Developer,
                      "the group of ranks " + group_text(members) + " " + why +
                          "; name each member once, from 0 to " + std::to_string(ranks - 1) +
                          ", with rank " + std::to_string(rank) + " among them, or none at all");
  };
  std::set<int> seen;
  for (const int member : members) {
    if (member < 0 || member >= ranks) refuse("has rank " + std::to_string(member));
    if (!seen.insert(member).second) refuse("has rank " + std::to_string(member) + " twice");
  }
  if (!members.empty() && !seen.contains(rank)) refuse("is without rank " + std::to_string(rank));
}

std::vector<int> named_in(const std::vector<std::byte>& parcel) {
  std::vector<int> members(parcel.size() / sizeof(int));
  if (!members.empty()) std::memcpy(members.data(), parcel.data(), members.size() * sizeof(int));
  return members;
}

// Every rank tells the members of its group, so that who is named by another group hears of it.
Parcels tell_members(HostCollectives& host, const std::vector<int>& members) {
  std::vector<std::byte> list(members.size() * sizeof(int));
  if (!members.empty()) std::memcpy(list.data(), members.data(), list.size());
  Parcels to(static_cast<std::size_t>(host.ranks()));
  for (const int member : members) to[static_cast<std::size_t>(member)] = list;
  return host.all_to_all(to);
}

}  // namespace

std::optional<GroupPlace> agree_on_groups(HostCollectives& host, const std::vector<int>& members) {
  run_on_all_ranks(host, [&] { check_members(members, host.rank(), host.ranks()); });
  const Parcels from = tell_members(host, members);
  run_on_all_ranks(host, [&] {
    for (int r = 0; r < host.ranks(); ++r) {
      const std::vector<int> theirs = named_in(from[static_cast<std::size_t>(r)]);
      const bool is_member = std::find(members.begin(), members.end(), r) != members.end();
      if (is_member ? theirs == members : theirs.empty()) continue;
      throw base::Error(base::Code::Developer,
                        "rank " + std::to_string(host.rank()) + " is in the group of ranks " +
                            group_text(members) + ", and rank " + std::to_string(r) +
                            " names another: " + group_text(theirs) +
                            "; groups are disjoint, and all members name the same");
    }
  });
  if (members.empty()) return std::nullopt;
  const auto place = std::find(members.begin(), members.end(), host.rank());
  return GroupPlace{members[0], static_cast<int>(place - members.begin()),
                    static_cast<int>(members.size())};
}

std::unique_ptr<Communicator> SingleCommunicator::open_group(const std::vector<int>& members) {
  if (!agree_on_groups(host_, members)) return nullptr;
  return std::make_unique<SingleCommunicator>();
}

}  // namespace regatta::trainer::ranks
