// What comparisons read of a run's attempts. Throws base::Error.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "orchestrator/runs/run.h"
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

// Its environment.json; null where there is none, and where it cannot be read, which `fault`, if
// given, then says.
[[nodiscard]] nlohmann::ordered_json environment_or_null(base::FileSystem& files,
                                                         const base::Path& attempt,
                                                         std::string* fault = nullptr);

// Of a run none of whose journals has a step; `damaged`: lines of theirs that are no records.
[[nodiscard]] base::Error without_steps(const runs::Run& run, std::int64_t damaged);

}  // namespace regatta::orchestrator::api
