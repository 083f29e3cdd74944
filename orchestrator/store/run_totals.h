// How many runs fit a filter, for as long as that stays so.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

#include "orchestrator/store/database.h"

namespace regatta::orchestrator::store {

// Thread-safe. A total looks at all that an index leaves, while what filters look at changes a few
// times a second at most: triggers count those changes (list_generation), and a total that was
// counted since the last one is known.
class RunTotals {
 public:
  // filter: the condition with its values, whatever text says that. count: asked where it is not
  // known. In a snapshot or not: a total is at least as new as the call.
  [[nodiscard]] std::int64_t total(Database& reader, const std::string& filter,
                                   const std::function<std::int64_t()>& count);

 private:
  static constexpr std::size_t kMostKept = 1000;  // some 200 bytes each

  std::mutex mutex_;
  std::int64_t generation_ = -1;  // that all of known_ are of
  std::unordered_map<std::string, std::int64_t> known_;
};

}  // namespace regatta::orchestrator::store
