// Step rows as columns of numbers, for whoever reads all of them.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "orchestrator/store/store_reads.h"

namespace regatta::orchestrator::store {
namespace {

constexpr std::array kColumns = {"loss",         "mlm_loss",    "samples",         "tokens",
                                 "step_seconds", "goodput",     "exposed_seconds", "imbalance",
                                 "moved_bytes",  "noise_scale", "efficiency",      "mfu",
                                 "utilisation"};

std::string expression(const std::string& series) {
  if (series == "samples_per_second")
    return "CASE WHEN step_seconds > 0 THEN samples / step_seconds END";
  if (series == "tokens_per_second")
    return "CASE WHEN step_seconds > 0 THEN tokens / step_seconds END";
  const bool known = std::find(kColumns.begin(), kColumns.end(), series) != kColumns.end();
  base::check(known, "a series of steps is one of the columns, or a rate");
  return series;
}

}  // namespace

void StoreReads::each_step(runs::AttemptNumber attempt, const std::vector<std::string>& series,
                           const TakeStep& take) {
  std::string sql = "SELECT step, seconds";
  for (const std::string& each : series) sql += ", " + expression(each);
  const ReaderPool::Lease reader = lease();
  Statement ask = reader->prepare(sql + " FROM steps WHERE attempt = ?1 ORDER BY sequence");
  ask.bind(runs::row_of(attempt));
  std::vector<double> values(series.size());
  while (ask.step()) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = ask.number(static_cast<int>(i) + 2);
    take(ask.integer(0), ask.number(1), values);
  }
}

}  // namespace regatta::orchestrator::store
