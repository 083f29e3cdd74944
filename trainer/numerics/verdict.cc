#include "trainer/numerics/verdict.h"

#include <map>
#include <set>

namespace regatta::trainer::numerics {

Verdict judge(const std::vector<Computation>& computations) {
  std::map<std::uint64_t, std::set<int>> ranks_with;
  std::map<int, std::set<std::uint64_t>> digests_of;
  for (const Computation& each : computations) {
    ranks_with[each.digest].insert(each.rank);
    digests_of[each.rank].insert(each.digest);
  }
  Verdict verdict;
  std::size_t most = 1;
  for (const auto& [digest, ranks] : ranks_with) {
    if (ranks.size() < most) continue;
    if (ranks.size() == most) {
      verdict.truth.reset();  // a tie
      continue;
    }
    most = ranks.size();
    verdict.truth = digest;
  }
  for (const auto& [rank, digests] : digests_of) {
    const bool is_right = verdict.truth ? digests.size() == 1 && digests.contains(*verdict.truth)
                                        : digests.size() == 1;
    if (!is_right) verdict.wrong.push_back(rank);
  }
  return verdict;
}

}  // namespace regatta::trainer::numerics
