#include "tests/trainer/ranks/group_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "trainer/ranks/rank_agreement.h"

namespace regatta::tests {
namespace {

using trainer::device::View;
using trainer::ranks::Communicator;
using trainer::ranks::HostCollectives;
using trainer::ranks::Parcels;
using trainer::ranks::Pending;
using Values = std::vector<float>;
using Members = std::vector<int>;

View view_of(Values& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), trainer::device::Dtype::Float32};
}

// Whole numbers whose sums are exact in float32, different for each rank of all.
Values numbers(int rank, std::size_t size) {
  Values values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>((rank * 31 + int(i)) % 997);
  return values;
}
Values sums(const Members& members, std::size_t size) {
  Values values(size);
  for (const int member : members) {
    const Values one = numbers(member, size);
    for (std::size_t i = 0; i < size; ++i) values[i] += one[i];
  }
  return values;
}

Members everyone(const Communicator& all) {
  Members members;
  for (int r = 0; r < all.ranks(); ++r) members.push_back(r);
  return members;
}
// The even ranks, or the odd ones from the last to the first.
Members members_of(const Communicator& all) {
  Members members;
  for (int r = all.rank() % 2; r < all.ranks(); r += 2) members.push_back(r);
  if (all.rank() % 2 == 1) std::reverse(members.begin(), members.end());
  return members;
}
int place_in(const Members& members, int rank) {
  return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
}

// Scatter, then gather, and a broadcast from each rank.
void check_parts(Communicator& group, const Members& members, int mine) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{65}, std::size_t{1000}}) {
    const auto count = static_cast<std::int64_t>(size);
    const Values expected = sums(members, size);
    Values x = numbers(mine, size);
    group.finish(0, group.reduce_scatter_sum(0, view_of(x)));
    const std::int64_t end = group.part_begin(count) + group.part_count(count);
    for (std::int64_t i = group.part_begin(count); i < end; ++i) {
      EXPECT_EQ(x[static_cast<std::size_t>(i)], expected[static_cast<std::size_t>(i)]) << size;
    }
    group.finish(0, group.all_gather(0, view_of(x)));
    EXPECT_EQ(x, expected);
    for (int root = 0; root < group.ranks(); ++root) {
      x = numbers(mine, size);
      group.finish(0, group.broadcast(0, view_of(x), root));
      EXPECT_EQ(x, numbers(members[static_cast<std::size_t>(root)], size));
    }
  }
}

void check_values(HostCollectives& host, const Members& members, int mine) {
  ASSERT_EQ(host.ranks(), std::ssize(members));
  ASSERT_EQ(host.rank(), place_in(members, mine));
  double sum = 0.1 * mine, expected = 0;
  for (const int member : members) expected += 0.1 * member;
  host.all_reduce_sum(&sum, 1);
  EXPECT_EQ(sum, expected) << "added in the order of the group's ranks";
  Members all(members.size());
  host.all_gather(&mine, sizeof mine, all.data());
  EXPECT_EQ(all, members);
  int word = mine;
  host.broadcast(&word, sizeof word, host.ranks() - 1);
  EXPECT_EQ(word, members.back());
  Parcels to(members.size());
  for (std::size_t r = 0; r < to.size(); ++r) to[r].assign(r + 1, static_cast<std::byte>(mine));
  const Parcels from = host.all_to_all(to);
  for (std::size_t r = 0; r < from.size(); ++r) {
    EXPECT_EQ(from[r], std::vector<std::byte>(static_cast<std::size_t>(host.rank()) + 1,
                                              static_cast<std::byte>(members[r])));
  }
  host.barrier();
}

// In and out of the ring's neighbours, with two letters each.
struct Ring {
  Ring(Communicator& of, int mine) : ranks(&of), out{numbers(mine, 70001), numbers(mine + 7, 3)} {}
  void begin() {
    const int count = ranks->ranks();
    for (std::size_t i = 0; i < 2; ++i) {
      in[i].resize(out[i].size());
      pending.push_back(ranks->send(0, view_of(out[i]), (ranks->rank() + 1) % count));
      pending.push_back(ranks->receive(0, view_of(in[i]), (ranks->rank() + count - 1) % count));
    }
  }
  void end(int before) {
    for (const Pending one : pending) ranks->finish(0, one);
    EXPECT_EQ(in[0], numbers(before, 70001));
    EXPECT_EQ(in[1], numbers(before + 7, 3));
  }
  Communicator* ranks;
  Values out[2], in[2];
  std::vector<Pending> pending;
};

int before_in(const Members& members, int rank) {
  const std::size_t place = static_cast<std::size_t>(place_in(members, rank));
  return members[(place + members.size() - 1) % members.size()];
}

}  // namespace

void check_collectives_of_groups(Communicator& all) {
  const Members members = members_of(all);
  const auto group = all.open_group(members);
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(group->ranks(), std::ssize(members));
  EXPECT_EQ(group->rank(), place_in(members, all.rank()));
  EXPECT_EQ(group->parts(), group->ranks()) << "flat";
  EXPECT_EQ(group->part(), group->rank());
  for (std::size_t round = 0; round < 10; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(300 * ((all.rank() + int(round)) % 3)));
    const std::size_t size = 100 + 997 * round;
    Values first = numbers(all.rank(), size), between = first, second = first;
    const Pending in_group = group->all_reduce_sum(0, view_of(first));
    const Pending in_all = all.all_reduce_sum(0, view_of(between));
    const Pending again = group->all_reduce_sum(0, view_of(second));
    if (round % 2 == 0) all.finish(0, in_all);
    group->finish(0, again);
    group->finish(0, in_group);
    if (round % 2 == 1) all.finish(0, in_all);
    EXPECT_EQ(first, sums(members, size));
    EXPECT_EQ(second, first);
    EXPECT_EQ(between, sums(everyone(all), size));
  }
  check_parts(*group, members, all.rank());
}

void check_messages_in_groups(Communicator& all) {
  const Members members = members_of(all);
  const auto group = all.open_group(members);
  Ring outer(all, all.rank()), inner(*group, all.rank());
  if (all.ranks() > 1) outer.begin();
  if (group->ranks() > 1) {
    inner.begin();
    inner.end(before_in(members, all.rank()));
  }
  if (all.ranks() > 1) outer.end(before_in(everyone(all), all.rank()));
}

void check_host_values_of_groups(Communicator& all) {
  const Members members = members_of(all);
  const auto group = all.open_group(members);
  const auto channel = group->open_channel();
  const std::jthread beside([&] {
    for (int i = 0; i < 10; ++i) check_values(*channel, members, all.rank());
  });
  for (int i = 0; i < 10; ++i) {
    check_values(group->host(), members, all.rank());
    check_values(all.host(), everyone(all), all.rank());
  }
}

void check_small_groups(Communicator& all) {
  const auto alone = all.open_group({all.rank()});
  ASSERT_NE(alone, nullptr);
  EXPECT_EQ(alone->ranks(), 1);
  EXPECT_EQ(alone->rank(), 0);
  Values x = numbers(all.rank(), 100);
  EXPECT_EQ(alone->all_reduce_sum(0, view_of(x)), 0);
  alone->finish(0, 0);
  EXPECT_EQ(x, numbers(all.rank(), 100));
  alone->host().barrier();

  EXPECT_EQ(all.open_group({}), nullptr);
  // All but the last rank.
  Members most = everyone(all);
  most.pop_back();
  const bool is_last = all.rank() == all.ranks() - 1;
  const auto group = all.open_group(is_last ? Members{} : most);
  EXPECT_EQ(group == nullptr, is_last);
  if (group != nullptr) {
    group->finish(0, group->all_reduce_sum(0, view_of(x)));
    EXPECT_EQ(x, sums(most, 100));
    // In the numbers of the group: its first rank, and the others backwards.
    Members inner;
    for (int r = group->ranks() - 1; r > 0; --r) inner.push_back(r);
    if (group->rank() == 0) inner = {0};
    const auto nested = group->open_group(inner);
    x = numbers(all.rank(), 200);
    nested->finish(0, nested->all_reduce_sum(0, view_of(x)));
    EXPECT_EQ(x, sums(inner, 200)) << "the group's ranks have the same numbers in all";
  }
  all.host().barrier();
}

void check_refused_groups(Communicator& all) {
  const int last = all.ranks() - 1;
  const bool is_last = all.rank() == last;
  const std::string end = std::to_string(last);
  struct Case {
    const char* name;
    Members of_last, of_others;
    std::string words;
  };
  std::vector<Case> cases = {
      {"repeated", {last, last}, {}, "has rank " + end + " twice; name each member once, from 0"},
      {"too large", {last, last + 1}, {}, "has rank " + std::to_string(last + 1) + "; name each"},
      {"negative", {-1, last}, {}, "the group of ranks -1, " + end + " has rank -1; name each"}};
  if (last > 0) {
    cases.push_back({"without itself", {0}, {}, "the group of ranks 0 is without rank " + end});
    cases.push_back({"one-sided", {0, last}, {}, "names another: "});
    cases.push_back({"in two", {last}, everyone(all), "groups are disjoint"});
    Members backwards = everyone(all);
    std::reverse(backwards.begin(), backwards.end());
    cases.push_back({"in another order", backwards, everyone(all), "all members name the same"});
  }
  for (const Case& c : cases) {
    std::string message;
    try {
      static_cast<void>(all.open_group(is_last ? c.of_last : c.of_others));
      ADD_FAILURE() << c.name << ": nothing was thrown";
    } catch (const trainer::ranks::AgreedError& error) {
      EXPECT_EQ(error.code(), base::Code::Developer);
      message = error.what();
    }
    EXPECT_NE(message.find(c.words), std::string::npos) << c.name << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_EQ(trainer::ranks::text_of_rank_0(all.host(), message), message) << "on all ranks";
  }
  EXPECT_NE(all.open_group(everyone(all)), nullptr) << "and then it is as before";
}

}  // namespace regatta::tests
