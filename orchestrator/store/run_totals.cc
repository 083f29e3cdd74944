#include "orchestrator/store/run_totals.h"

#include "base/error.h"

namespace regatta::orchestrator::store {

std::int64_t RunTotals::total(Database& reader, const std::string& filter,
                              const std::function<std::int64_t()>& count) {
  std::int64_t generation = 0;
  {
    Statement ask = reader.prepare("SELECT number FROM list_generation WHERE row = 1");
    base::check(ask.step(), "the list's changes are counted in a row of their own");
    generation = ask.integer(0);
  }
  {
    const std::lock_guard lock(mutex_);
    if (generation == generation_) {
      const auto found = known_.find(filter);
      if (found != known_.end()) return found->second;
    }
  }
  const std::int64_t counted = count();
  const std::lock_guard lock(mutex_);
  if (generation < generation_) return counted;  // of an older state, or of one that changed
  if (generation > generation_ || known_.size() == kMostKept) known_.clear();
  generation_ = generation;
  known_[filter] = counted;
  return counted;
}

}  // namespace regatta::orchestrator::store
