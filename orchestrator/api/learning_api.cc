#include "orchestrator/api/learning_api.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "orchestrator/api/answers.h"
#include "orchestrator/api/attempt_files.h"
#include "orchestrator/api/log_api.h"
#include "orchestrator/compare/learning_text.h"
#include "trainer/contract/journal.h"

namespace regatta::orchestrator::api {
namespace {

namespace contract = trainer::contract;
using Json = nlohmann::ordered_json;

struct LearnedSide {
  compare::LearningCurve curve;
  Json environment;   // of the newest attempt with steps; null: there is none that can be read
  std::string fault;  // why it cannot
};

LearnedSide learned_of(base::FileSystem& files, const base::Path& attempts) {
  LearnedSide learned;
  std::uint64_t left = kMostLearningBytes;
  for (const AttemptFolder& attempt : attempts_with_journal(files, attempts)) {
    const base::Path journal = attempt.path / kJournal;
    learned.curve.is_cut = learned.curve.is_cut || files.size(journal) > left;
    const std::string text = files.read_at(journal, 0, left);
    left -= text.size();
    const contract::JournalChunk read = contract::parse_journal(text);
    const std::vector<contract::JournalRecord>& records = read.records;
    learned.curve.damaged += read.damaged;
    if (!has_steps(records)) continue;
    compare::add_attempt(records, &learned.curve);
    learned.fault.clear();
    learned.environment = environment_or_null(files, attempt.path, &learned.fault);
  }
  return learned;
}

LearnedSide learned_side_of(base::FileSystem& files, files::SharedFiles* shared,
                            const runs::Run& run) {
  const base::Path attempts = base::Path(run.directory) / "attempts";
  LearnedSide learned =
      files::call_if(shared, run.directory, kRunFileSeconds,
                     [files = &files, attempts] { return learned_of(*files, attempts); });
  if (learned.curve.steps.empty()) {
    throw without_steps(run, learned.curve.damaged);
  }
  return learned;
}

// Of the finer one: a coarser one is a difference, not a rounding of the other.
double unit_of(const Json& a, const Json& b) {
  const auto unit = [](const Json& environment) {
    const Json type = compare::fact_at(environment, "/numerics/activations");
    const Json tf32 = compare::fact_at(environment, "/numerics/tf32");
    if (tf32 == Json(true)) return compare::loss_unit("tf32");
    return compare::loss_unit(type.is_string() ? type.get<std::string>() : "");
  };
  return std::min(unit(a), unit(b));
}

}  // namespace

Response answer_learning(base::FileSystem& files, files::SharedFiles* shared, const runs::Run& run,
                         const runs::Run& against) {
  const LearnedSide a = learned_side_of(files, shared, against);
  const LearnedSide b = learned_side_of(files, shared, run);
  const compare::LearningDifference difference =
      compare::difference_of(a.curve, b.curve, unit_of(a.environment, b.environment));
  const auto causes =
      compare::likely_causes(difference, compare::learning_facts(a.environment, b.environment));
  const bool are_known = a.environment.is_object() && b.environment.is_object();
  return json_response(
      200, compare::learning_json({against.id, a.curve, a.fault}, {run.id, b.curve, b.fault},
                                  difference, causes, are_known));
}

}  // namespace regatta::orchestrator::api
