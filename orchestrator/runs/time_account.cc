#include "orchestrator/runs/time_account.h"

#include <algorithm>

namespace regatta::orchestrator::runs {

TimeAccount account_of(double created_utc, double end_utc,
                       const std::vector<AttemptTime>& attempts) {
  TimeAccount account;
  account.whole = std::max(0.0, end_utc - created_utc);
  const double end = created_utc + account.whole;
  double seen = created_utc;  // up to here everything is accounted for
  for (const AttemptTime& attempt : attempts) {
    const double from = std::clamp(attempt.start_utc, seen, end);
    const double to = std::clamp(attempt.start_utc + attempt.end, from, end);
    const double stepped = std::clamp(attempt.start_utc + attempt.first_step, from, to);
    const double trained = std::clamp(attempt.training, 0.0, to - stepped);
    account.waiting += from - seen;
    account.starting += stepped - from;
    account.training += trained;
    account.other += to - stepped - trained;
    seen = to;
  }
  account.waiting += end - seen;
  return account;
}

}  // namespace regatta::orchestrator::runs
