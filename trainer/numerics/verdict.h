// Who of several ranks that computed the same is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace regatta::trainer::numerics {

// A rank may have computed it several times.
struct Computation {
  int rank = 0;
  std::uint64_t digest = 0;
};
struct Verdict {
  // What most ranks have, at least two, and more than have anything else.
  std::optional<std::uint64_t> truth;
  // Ascending. With a truth, all ranks that have ever had something else; without, all that do not
  // agree with themselves. Empty without one: nobody can say.
  std::vector<int> wrong;
};
[[nodiscard]] Verdict judge(const std::vector<Computation>& computations);

}  // namespace regatta::trainer::numerics
