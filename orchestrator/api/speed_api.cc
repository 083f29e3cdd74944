#include "orchestrator/api/speed_api.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/attempt_files.h"
#include "orchestrator/api/log_api.h"
#include "orchestrator/compare/speed_text.h"
#include "trainer/contract/journal.h"

namespace regatta::orchestrator::api {
namespace {

namespace contract = trainer::contract;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostStartBytes = std::uint64_t{1} << 20U;  // the layout is in the first

struct FoundAttempt {
  int number = 0;            // 0: none has steps
  std::int64_t damaged = 0;  // lines of all that were read
  std::vector<contract::JournalRecord> records;
  compare::AttemptLayout layout;
  Json environment;  // null: there is none that can be read
};

// The whole of a short one, else its end from the first whole line on.
contract::JournalChunk end_of(base::FileSystem& files, const base::Path& journal) {
  const std::uint64_t size = files.size(journal);
  const std::uint64_t from = size > kMostJournalBytes ? size - kMostJournalBytes : 0;
  std::string text = files.read_at(journal, from, kMostJournalBytes);
  if (from > 0) text.erase(0, text.find('\n') + 1);
  return contract::parse_journal(text);
}

compare::AttemptLayout layout_of(base::FileSystem& files, const base::Path& journal) {
  const std::string begin = files.read_at(journal, 0, kMostStartBytes);
  for (const contract::JournalRecord& record : contract::parse_journal(begin).records) {
    const auto* start = std::get_if<contract::StartRecord>(&record.body);
    if (start != nullptr) return {start->ranks, start->device.starts_with("CPU")};
  }
  return {};
}

FoundAttempt newest_with_steps(base::FileSystem& files, const base::Path& attempts) {
  const std::vector<AttemptFolder> all = attempts_with_journal(files, attempts);
  std::int64_t damaged = 0;
  for (auto attempt = all.rbegin(); attempt != all.rend(); ++attempt) {
    const base::Path journal = attempt->path / kJournal;
    contract::JournalChunk read = end_of(files, journal);
    damaged += read.damaged;
    if (!has_steps(read.records)) continue;
    return {attempt->number, damaged, std::move(read.records), layout_of(files, journal),
            environment_or_null(files, attempt->path)};
  }
  return {0, damaged, {}, {}, {}};
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
    throw without_steps(run, found.damaged);
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
