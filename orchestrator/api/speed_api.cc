#include "orchestrator/api/speed_api.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/log_api.h"
#include "orchestrator/compare/speed_text.h"
#include "trainer/contract/environment_file.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/run_directory.h"

namespace regatta::orchestrator::api {
namespace {

namespace contract = trainer::contract;
using Json = nlohmann::ordered_json;

constexpr const char* kJournal = "journal.jsonl";
constexpr std::uint64_t kMostStartBytes = std::uint64_t{1} << 20U;  // the layout is in the first

struct FoundAttempt {
  int number = 0;
  std::vector<contract::JournalRecord> records;
  compare::AttemptLayout layout;
  Json environment;  // null: there is none that can be read
};

bool has_steps(const std::vector<contract::JournalRecord>& records) {
  return std::any_of(records.begin(), records.end(), [](const contract::JournalRecord& record) {
    return std::holds_alternative<contract::StepRecord>(record.body);
  });
}

// The whole of a short one, else its end from the first whole line on.
std::vector<contract::JournalRecord> end_of(base::FileSystem& files, const base::Path& journal) {
  const std::uint64_t size = files.size(journal);
  const std::uint64_t from = size > kMostJournalBytes ? size - kMostJournalBytes : 0;
  std::string text = files.read_at(journal, from, kMostJournalBytes);
  if (from > 0) text.erase(0, text.find('\n') + 1);
  return contract::parse_journal(text).records;
}

compare::AttemptLayout layout_of(base::FileSystem& files, const base::Path& journal) {
  const std::string begin = files.read_at(journal, 0, kMostStartBytes);
  for (const contract::JournalRecord& record : contract::parse_journal(begin).records) {
    const auto* start = std::get_if<contract::StartRecord>(&record.body);
    if (start != nullptr) return {start->ranks, start->device.starts_with("CPU")};
  }
  return {};
}

Json environment_of(base::FileSystem& files, const base::Path& path) {
  try {
    const std::string text = files.read_at(path, 0, contract::kMostEnvironmentBytes + 1);
    return contract::parse_environment(text, path.string());
  } catch (const base::Error&) {
    return {};  // absent, of an older trainer or damaged: the parts are told all the same
  }
}

FoundAttempt newest_with_steps(base::FileSystem& files, const base::Path& attempts) {
  FoundAttempt found;
  for (const std::string& folder : files.list(attempts)) {
    const auto name = contract::parse_attempt_name(folder);
    const base::Path path = attempts / folder;
    if (!name || name->number < found.number || !files.exists(path / kJournal)) continue;
    std::vector<contract::JournalRecord> records = end_of(files, path / kJournal);
    if (!has_steps(records)) continue;
    found = {name->number, std::move(records), layout_of(files, path / kJournal),
             environment_of(files, path / contract::kEnvironmentFile)};
  }
  return found;
}

struct Side {
  compare::ComparedAttempt attempt;
  Json environment;
};

Side side_of(base::FileSystem& files, files::SharedFiles* shared, const runs::Run& run) {
  const base::Path attempts = base::Path(run.directory) / "attempts";
  const FoundAttempt found =
      files::call_if(shared, run.directory, kRunFileSeconds,
                     [files = &files, attempts] { return newest_with_steps(*files, attempts); });
  if (found.number == 0) {
    throw base::Error(base::Code::NotFound, "run " + run.id + " has no attempt with steps yet");
  }
  try {
    return {{run.id, found.number, compare::account_of(found.records, found.layout)},
            found.environment};
  } catch (const base::Error& error) {
    throw base::Error(error.code(), "run " + run.id + ", attempt " + std::to_string(found.number) +
                                        ": " + error.what());
  }
}

}  // namespace

Response answer_speed(base::FileSystem& files, files::SharedFiles* shared, const runs::Run& run,
                      const runs::Run& against) {
  const Side a = side_of(files, shared, against), b = side_of(files, shared, run);
  const auto difference = compare::difference_of(a.attempt.account, b.attempt.account);
  const auto causes = compare::causes_of(difference, a.attempt.account, b.attempt.account,
                                         a.environment, b.environment);
  return json_response(200, compare::speed_json(a.attempt, b.attempt, difference, causes));
}

}  // namespace regatta::orchestrator::api
