#include "trainer/ranks/node_layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace regatta::trainer {
namespace {

ranks::HostName name(const std::string& text) {
  ranks::HostName name{};
  std::memcpy(name.data(), text.data(), text.size());
  return name;
}

TEST(NodeLayout, IsRegularOrOne) {
  const struct {
    std::vector<std::string> hosts;
    int ranks_per_node;
  } cases[] = {{{"a"}, 1},
               {{"a", "a", "a"}, 3},
               {{"a", "b", "c"}, 1},
               {{"a", "a", "b", "b"}, 2},
               {{"a", "a", "a", "b", "b", "b", "c", "c", "c"}, 3},
               // uneven
               {{"a", "a", "b"}, 1},
               {{"a", "b", "b"}, 1},
               {{"a", "a", "b", "b", "b"}, 1},
               {{"a", "a", "b", "c"}, 1},
               {{"a", "a", "a", "b", "b", "c"}, 1},
               // dealt in turn
               {{"a", "b", "a", "b"}, 1},
               {{"a", "a", "b", "b", "a", "a"}, 1},
               {{"a", "b", "b", "a"}, 1},
               // one name begins like the other
               {{"a", "a", "ab", "ab"}, 2},
               {{"node", "node1"}, 1}};
  for (const auto& c : cases) {
    std::vector<ranks::HostName> names;
    std::string all;
    for (const std::string& host : c.hosts) {
      names.push_back(name(host));
      all += host + " ";
    }
    EXPECT_EQ(ranks::ranks_per_node(names), c.ranks_per_node) << all;
  }
}

TEST(NodeLayout, AsksForTheNameOfThisHost) {
  EXPECT_EQ(ranks::this_host_name(), ranks::this_host_name());
  EXPECT_EQ(ranks::this_host_name().back(), '\0');
  ranks::SingleHost alone;
  EXPECT_EQ(ranks::ranks_per_node(alone), 1);
}

// Two hosts of two ranks each, of which this is the last one.
class FourRanks final : public ranks::HostCollectives {
 public:
  [[nodiscard]] int rank() const override { return 3; }
  [[nodiscard]] int ranks() const override { return 4; }
  void all_reduce_sum(double*, int) override {}
  void broadcast(void*, std::int64_t, int) override {}
  void all_gather(const void* bytes, std::int64_t count, void* all) override {
    const auto size = static_cast<std::size_t>(count);
    std::memset(all, 'x', 2 * size);
    for (std::size_t r : {2, 3}) std::memcpy(static_cast<char*>(all) + r * size, bytes, size);
  }
  [[nodiscard]] ranks::Parcels all_to_all(const ranks::Parcels& to) override { return to; }
  void barrier() override {}
};

TEST(NodeLayout, AsksAllRanks) {
  FourRanks host;
  EXPECT_EQ(ranks::ranks_per_node(host), 2);
}

}  // namespace
}  // namespace regatta::trainer
