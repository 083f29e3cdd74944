#include "orchestrator/api/attempt_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "base/error.h"
#include "base/wording.h"
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

base::Error without_steps(const runs::Run& run, std::int64_t damaged) {
  const std::string id = "run " + run.id;
  if (damaged > 0) {
    return {base::Code::User, id + " has no step to compare: its journals have " +
                                  base::plural(damaged, "damaged line") + ", and no other step"};
  }
  if (run.summary.step > 0) {
    return {base::Code::User, id + " has no step to compare: it took " +
                                  base::plural(run.summary.step, "step") +
                                  ", of which its journals do not tell any more"};
  }
  return {base::Code::NotFound,
          id + " has no attempt with steps" + (runs::is_over(run.state) ? "" : " yet")};
}

nlohmann::ordered_json environment_or_null(base::FileSystem& files, const base::Path& attempt,
                                           std::string* fault) {
  const base::Path path = attempt / contract::kEnvironmentFile;
  try {
    const std::string text = files.read_at(path, 0, contract::kMostEnvironmentBytes + 1);
    return contract::parse_environment(text, path.string());
  } catch (const base::Error& error) {
    if (fault != nullptr && error.code() != base::Code::NotFound) *fault = error.what();
    return {};
  }
}

}  // namespace regatta::orchestrator::api
