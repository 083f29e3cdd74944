#include "trainer/contract/run_change.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/text.h"
#include "trainer/contract/journal.h"

namespace regatta::trainer::contract {
namespace {

constexpr std::array<std::string_view, 14> kMayChange = {
    "steps",
    "target.value",
    "target.times_baseline",
    "target.stop",
    "evaluate.every",
    "checkpoint.every",
    "checkpoint.keep_last",
    "checkpoint.keep_best",
    "checkpoint.keep_every",
    "input.workers",
    "input.prefetch",
    "parallel.data",
    "parallel.pipeline",
    "parallel.schedule",
};
constexpr std::string_view kMetric = "target.metric";
constexpr std::uint64_t kMostUntrainedBytes = std::uint64_t{1} << 20U;  // of a journal

bool ended_untrained(const std::string& journal) {
  bool ended = false;
  for (const std::string& line : base::split(journal, '\n')) {
    if (line.empty()) continue;
    const std::optional<JournalRecord> record = parse_record(line);
    if (!record) return false;
    const auto& what = record->body;
    if (std::holds_alternative<StepRecord>(what) || std::holds_alternative<EvalRecord>(what) ||
        std::holds_alternative<TrialRecord>(what) ||
        std::holds_alternative<CheckpointRecord>(what)) {
      return false;
    }
    ended = ended || std::holds_alternative<EndRecord>(what);
  }
  return ended;
}

}  // namespace

std::vector<KeyDifference> fixed_differences(const RunConfig& before, const RunConfig& after) {
  const bool same_metric = metric_of(before) == metric_of(after);
  std::vector<KeyDifference> found = differences(before, after);
  std::erase_if(found, [&](const KeyDifference& each) {
    return (each.key == kMetric && same_metric) ||
           std::find(kMayChange.begin(), kMayChange.end(), each.key) != kMayChange.end();
  });
  return found;
}

bool is_untrained(base::FileSystem& files, const RunDirectory& directory) {
  if (!files.list(directory.checkpoints_path()).empty()) return false;
  const std::vector<AttemptName> attempts = directory.attempts();
  return std::all_of(attempts.begin(), attempts.end(), [&](const AttemptName& attempt) {
    const base::Path journal = directory.journal_path(attempt);
    if (!files.exists(journal) || files.size(journal) > kMostUntrainedBytes) return false;
    return ended_untrained(files.read(journal, kMostUntrainedBytes));
  });
}

}  // namespace regatta::trainer::contract
