#include "orchestrator/api/attempt_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "base/error.h"
#include "trainer/contract/environment_file.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::api {

namespace contract = trainer::contract;

std::vector<AttemptFolder> attempts_with_journal(base::FileSystem& files,
                                                 const base::Path& attempts) {
  std::vector<AttemptFolder> found;
  for (const std::string& folder : files.list(attempts)) {
    const auto name = contract::parse_attempt_name(folder);
    if (!name || !files.exists(attempts / folder / kJournal)) continue;
    found.push_back({name->number, attempts / folder});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const AttemptFolder& one, const AttemptFolder& other) {
                     return one.number < other.number;
                   });
  return found;
}

bool has_steps(const std::vector<contract::JournalRecord>& records) {
  return std::any_of(records.begin(), records.end(), [](const contract::JournalRecord& record) {
    return std::holds_alternative<contract::StepRecord>(record.body);
  });
}

nlohmann::ordered_json environment_or_null(base::FileSystem& files, const base::Path& attempt) {
  const base::Path path = attempt / contract::kEnvironmentFile;
  try {
    const std::string text = files.read_at(path, 0, contract::kMostEnvironmentBytes + 1);
    return contract::parse_environment(text, path.string());
  } catch (const base::Error&) {
    return {};
  }
}

}  // namespace regatta::orchestrator::api
