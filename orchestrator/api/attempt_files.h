// What comparisons read of a run's attempts. Throws base::Error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/file_system.h"
#include "trainer/contract/journal.h"

namespace regatta::orchestrator::api {

inline constexpr const char* kJournal = "journal.jsonl";

struct AttemptFolder {
  int number = 0;
  base::Path path;
};
// Those below `attempts` with a journal, in the order of their numbers.
[[nodiscard]] std::vector<AttemptFolder> attempts_with_journal(base::FileSystem& files,
                                                               const base::Path& attempts);

[[nodiscard]] bool has_steps(const std::vector<trainer::contract::JournalRecord>& records);

// Its environment.json; null where there is none, it is of an older trainer or damaged.
[[nodiscard]] nlohmann::ordered_json environment_or_null(base::FileSystem& files,
                                                         const base::Path& attempt);

}  // namespace regatta::orchestrator::api
