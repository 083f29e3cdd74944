#include "trainer/numerics/verdict.h"

#include <gtest/gtest.h>

namespace regatta::trainer {
namespace {

TEST(Verdict, NamesWhoIsAlone) {
  struct Case {
    const char* name;
    std::vector<numerics::Computation> computations;  // rank, digest
    std::optional<std::uint64_t> truth;
    std::vector<int> wrong;
  };
  for (const Case& c : {
           Case{"all agree", {{0, 7}, {1, 7}, {2, 7}}, 7, {}},
           Case{"three ranks, the owner is always wrong",
                {{1, 8}, {2, 7}, {0, 7}, {1, 8}, {2, 7}},
                7,
                {1}},
           Case{"three ranks, the checker was wrong once",
                {{1, 7}, {2, 8}, {0, 7}, {1, 7}, {2, 7}},
                7,
                {2}},
           Case{"two ranks, one was wrong once", {{0, 8}, {1, 7}, {0, 7}, {1, 7}}, 7, {0}},
           Case{"two ranks, one is wrong each time in another way",
                {{0, 8}, {1, 7}, {0, 9}, {1, 7}},
                std::nullopt,
                {0}},
           Case{"two ranks, each keeps to its own", {{0, 8}, {1, 7}, {0, 8}, {1, 7}}, {}, {}},
           Case{"four ranks in two parties", {{0, 8}, {1, 8}, {2, 7}, {3, 7}}, std::nullopt, {}},
           Case{"a tie, and a third party", {{0, 8}, {1, 8}, {2, 7}, {3, 7}, {4, 5}}, {}, {}},
           Case{"a majority after a tie",
                {{0, 5}, {1, 5}, {2, 6}, {3, 6}, {4, 7}, {5, 7}, {6, 7}},
                7,
                {0, 1, 2, 3}},
           Case{"two of five are wrong, each in its way",
                {{0, 7}, {1, 8}, {2, 7}, {3, 9}, {4, 7}},
                7,
                {1, 3}},
           Case{"one rank that does not agree with itself", {{0, 7}, {0, 8}}, {}, {0}},
           Case{"one rank that does", {{0, 7}, {0, 7}}, {}, {}},
           Case{"all ranks differ, and none from itself", {{0, 1}, {1, 2}, {2, 3}}, {}, {}},
       }) {
    const numerics::Verdict verdict = numerics::judge(c.computations);
    EXPECT_EQ(verdict.truth, c.truth) << c.name;
    EXPECT_EQ(verdict.wrong, c.wrong) << c.name;
  }
}

}  // namespace
}  // namespace regatta::trainer
