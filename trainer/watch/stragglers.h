// Ranks that compute more slowly than the others do, for long: the others wait for them in every
// step, and nothing else tells so.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "trainer/contract/journal.h"

namespace regatta::trainer::watch {

struct StragglerLimits {
  int spans = 30;          // of steps, looked back on
  double slow = 1.3;       // a rank is one when it takes so many times what the others take,
  double recovered = 1.1;  // and none any more when it takes less than this
};

// Pure: fed with what each rank did in each step. Seconds are for each token, so that a rank with
// more to do is not taken for a slow one; "the others" are the median of the other ranks over the
// same steps, so that what slows all alike blames nobody; a rank's figure is its median over the
// spans looked back on, so that a pause moves nothing, but pauses in every span do.
class Stragglers {
 public:
  explicit Stragglers(StragglerLimits limits = {}) : limits_(limits) {}

  struct Change {
    int rank = 0;
    bool is_slow = false;  // it became one; false: it is none any more
    double times = 0;      // what it takes, of the others'
  };
  // After each step. Another number of ranks begins anew; fewer than two, or none whose seconds are
  // known, have nothing to say.
  void add(const contract::RanksRecord& step);
  // At the end of a span of steps, a second or more each.
  [[nodiscard]] std::vector<Change> judge();

 private:
  struct Sum {
    double tokens = 0, seconds = 0;
  };
  [[nodiscard]] std::vector<double> times_of_span() const;

  StragglerLimits limits_;
  std::vector<Sum> span_;                  // by rank
  std::deque<std::vector<double>> times_;  // of spans, by rank: of what the others take; 0: unknown
  std::vector<bool> slow_;                 // by rank
};

// For people: "rank 3 (node17) is a straggler: …".
[[nodiscard]] std::string describe(const Stragglers::Change& change, const std::string& host);

}  // namespace regatta::trainer::watch
