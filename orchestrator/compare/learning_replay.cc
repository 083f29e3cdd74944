#include "orchestrator/compare/learning_replay.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/wording.h"

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;

// "configuration optimizer beta1" → "optimizer.beta1".
std::optional<std::string> key_of_run_file(const std::string& fact) {
  static const std::string kSection = "configuration ";
  if (fact.rfind(kSection, 0) != 0) return std::nullopt;
  std::string key = fact.substr(kSection.size());
  std::replace(key.begin(), key.end(), ' ', '.');
  return key;
}

std::string pointer_of(std::string key) {
  std::replace(key.begin(), key.end(), '.', '/');
  return "/configuration/" + key;
}

void merge(const ReplayChange& from, ReplayChange* into) {
  for (const auto& [key, value] : from.keys) into->keys[key] = value;
  for (const auto& [name, value] : from.variables) into->variables[name] = value;
  if (from.instruction_set) into->instruction_set = from.instruction_set;
  into->program = into->program || from.program;
}

ReplayChange merged(ReplayChange one, const ReplayChange& other) {
  merge(other, &one);
  return one;
}

ReplayChange other_keys(const LearningCause& cause, const Json& environment_a) {
  ReplayChange change;
  for (const Evidence& fact : cause.evidence) {
    if (const auto key = key_of_run_file(fact.key)) change.keys[*key] = fact.a;
  }
  for (const std::string& key : cause.keys) {
    change.keys[key] = base::json_text(fact_at(environment_a, pointer_of(key)));
  }
  return change;
}

ReplayChange other_variables_of(const LearningCause& cause) {
  ReplayChange change;
  for (const Evidence& fact : cause.evidence) {
    const Json value = base::parse_json<Json>(fact.a);
    const std::string name = fact.key.substr(fact.key.find(' ') + 1);
    change.variables[name] =
        value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
  }
  return change;
}

// Where a step differs first.
struct Place {
  ProbePart part = ProbePart::Weights;
  std::size_t in_part = 0;

  auto operator<=>(const Place&) const = default;
};
std::optional<Place> first_of(const std::vector<PartDifference>& parts) {
  if (parts.empty()) return std::nullopt;
  return Place{parts.front().part, parts.front().first};
}

bool can_explain(const LearningCause& cause, ProbePart part) {
  return std::find(cause.parts.begin(), cause.parts.end(), part) != cause.parts.end();
}

class Explainer {
 public:
  Explainer(const std::vector<LearningCause>& facts, const Json& environment_a,
            const Replayer& replay)
      : facts_(facts), environment_a_(environment_a), replay_(replay) {}

  Explanation run(const StepsApart& steps) {
    if (!take_both(steps.differing)) return found_;
    const bool is_earlier = has_other_weights() && steps.differing > steps.first;
    if (is_earlier && !find_update(steps)) return found_;
    if (found_.parts.empty()) {
      by_elimination();
    } else {
      by_replays();
    }
    return found_;
  }

 private:
  std::optional<StepProbe> taken(bool is_b, std::int64_t step, const ReplayChange& change,
                                 const std::string& what) {
    if (found_.replays.size() >= kMostReplays) return std::nullopt;
    const ReplayAnswer answer = replay_({is_b, step, change, what});
    if (const auto* probe = std::get_if<StepProbe>(&answer)) {
      found_.replays.push_back({what, ""});
      return *probe;
    }
    found_.replays.push_back({what, std::get<std::string>(answer)});
    return std::nullopt;
  }

  [[nodiscard]] bool has_other_weights() const {
    const auto first = first_of(found_.parts);
    return first && first->part == ProbePart::Weights;
  }

  // Where weights already differ before a step whose predecessors looked the same, an earlier
  // update made them differ, mostly the first or the last: takes the step of that update. False:
  // that cannot be done.
  bool find_update(const StepsApart& steps) {
    std::int64_t equal = steps.first - 1;  // the last step that is the same in both
    std::int64_t apart = steps.differing;  // the first with other weights
    std::int64_t step = steps.first;
    while (equal + 1 < apart) {
      if (!take_both(step)) return false;
      const bool is_apart = has_other_weights();
      const bool is_found = is_apart ? step == steps.first : !found_.parts.empty();
      if (is_found || (!is_apart && is_left_to_others())) return true;
      (is_apart ? apart : equal) = step;
      step = step == steps.first ? apart - 1 : equal + (apart - equal) / 2;
    }
    found_.parts.clear();  // an update that is the same in both made their weights differ
    return true;
  }

  // Both as they are; false where that cannot be done.
  bool take_both(std::int64_t step) {
    found_.step = step;
    const std::string of = "step " + std::to_string(step) + " of ";
    if (found_.replays.size() + 2 > kMostReplays) {
      found_.unknown = "after " + std::to_string(found_.replays.size()) +
                       " replays it is not known which step's update made the weights differ";
      return false;
    }
    std::optional<StepProbe> b;
    probe_a_ = taken(false, step, {}, of + "A");
    if (probe_a_) b = taken(true, step, {}, of + "B");
    if (!probe_a_ || !b) {
      const Replayed& failed = found_.replays.back();
      found_.unknown = failed.what + " could not be taken again: " + failed.result;
      return false;
    }
    found_.parts = differences_of(*probe_a_, *b);
    for (std::size_t i = 0; i < 2; ++i) {
      const StepProbe& probe = i == 0 ? *probe_a_ : *b;
      is_of_others_ = is_of_others_ || (probe.journal_loss && !is_of_journal(probe));
      found_.replays[found_.replays.size() - 2 + i].result = of_journal(probe);
    }
    return true;
  }

  static bool is_of_journal(const StepProbe& probe) {
    const double journal = *probe.journal_loss;
    return probe.loss == journal || (std::isnan(probe.loss) && std::isnan(journal));
  }
  static std::string of_journal(const StepProbe& probe) {
    if (!probe.journal_loss) return "not in its journal";
    if (is_of_journal(probe)) return "the loss of its journal, bit for bit";
    return "loss " + base::short_number(probe.loss, 9) + ", in its journal " +
           base::short_number(*probe.journal_loss, 9);
  }

  // What replays share and the runs do not: one process sums in their stead, on this machine.
  [[nodiscard]] std::vector<LearningCause>::const_iterator left_to_others() const {
    return std::find_if(facts_.begin(), facts_.end(), [&](const LearningCause& cause) {
      const bool is_shared = cause.kind == kWorldSize || !change_of(cause, environment_a_);
      return cause.reach == Reach::Rounding && is_shared;
    });
  }
  [[nodiscard]] bool is_left_to_others() const { return left_to_others() != facts_.end(); }

  // Both replays are the same: what they do not share with the runs is left.
  void by_elimination() {
    if (is_left_to_others()) {
      found_.causes.push_back(*left_to_others());
      found_.proofs.push_back("step " + std::to_string(found_.step) +
                              " of both, taken by one process here, is the same bit for bit: what "
                              "is left is what a replay does without");
      return;
    }
    if (is_of_others_) {
      found_.unknown =
          "taken again here, both have the same bits, but not those of their journals: what lies "
          "in a run's directory has been changed since, or the machine computes something else "
          "each time";
      return;
    }
    found_.unknown =
        "taken again here, both have the same bits, and nothing else of their environments "
        "differs: chance (determinism: fast, a faulty machine) is left";
  }

  void by_replays() {
    std::vector<const LearningCause*> left;
    for (const LearningCause& cause : facts_) {
      if (change_of(cause, environment_a_)) left.push_back(&cause);
    }
    std::vector<PartDifference> parts = found_.parts;
    ReplayChange changed;
    while (!parts.empty()) {
      const ProbePart part = parts.front().part;
      std::stable_partition(left.begin(), left.end(), [part](const LearningCause* cause) {
        return can_explain(*cause, part);
      });
      const auto shown = std::find_if(left.begin(), left.end(), [&](const LearningCause* cause) {
        return explains(*cause, &changed, &parts);
      });
      if (shown == left.end()) break;
      left.erase(shown);
    }
    if (parts.empty()) return;
    const PartDifference& first = parts.front();
    found_.unknown = found_.replays.size() >= kMostReplays
                         ? "after " + std::to_string(kMostReplays) + " replays"
                         : "with all that is known to differ and can be replayed";
    found_.unknown += " the steps still differ in " + name_of(first.part) + " (" + first.what + ")";
    if (first.part == ProbePart::Samples || first.part == ProbePart::Tokens) {
      found_.unknown += "; `regatta-train verify-data DATASET` tells whether a dataset was changed";
    }
  }

  // Whether B's step with that fact as in A differs later than `parts`, which are then what is
  // left.
  bool explains(const LearningCause& cause, ReplayChange* changed,
                std::vector<PartDifference>* parts) {
    const ReplayChange change = merged(*changed, *change_of(cause, environment_a_));
    std::string with;
    for (const LearningCause& each : found_.causes) with += subject_of(each) + " and ";
    with += subject_of(cause);
    const auto probe = taken(true, found_.step, change, "B with A's " + with);
    if (!probe) return false;
    const std::vector<PartDifference> now = differences_of(*probe_a_, *probe);
    std::string& result = found_.replays.back().result;
    result = now.empty()
                 ? "A's step, bit for bit"
                 : "differs from A's in " + name_of(now.front().part) + ": " + now.front().what;
    const bool is_later = now.empty() || *first_of(*parts) < *first_of(now);
    if (!is_later) return false;
    found_.causes.push_back(cause);
    found_.proofs.push_back(
        "step " + std::to_string(found_.step) + " of B taken again with A's " + with +
        (now.empty() ? " is A's, bit for bit"
                     : " differs from A's only from " + name_of(now.front().part) + " on"));
    *changed = change;
    *parts = now;
    return true;
  }

  // "another seed" → "seed", "other masks" → "masks".
  static std::string subject_of(const LearningCause& cause) {
    const std::size_t space = cause.what.find(' ');
    return space == std::string::npos ? cause.what : cause.what.substr(space + 1);
  }

  const std::vector<LearningCause>& facts_;
  const Json& environment_a_;
  const Replayer& replay_;
  Explanation found_;
  std::optional<StepProbe> probe_a_;
  bool is_of_others_ = false;  // a step as it was is not that of its journal
};

}  // namespace

std::optional<ReplayChange> change_of(const LearningCause& cause, const Json& environment_a) {
  ReplayChange change;
  switch (cause.way) {
    case ReplayWay::None:
      return std::nullopt;
    case ReplayWay::Keys:
      change = other_keys(cause, environment_a);
      return change.keys.empty() ? std::nullopt : std::optional(change);
    case ReplayWay::InstructionSet: {
      const Json set = fact_at(environment_a, "/numerics/instruction_set");
      if (!set.is_string()) return std::nullopt;
      change.instruction_set = set.get<std::string>();
      return change;
    }
    case ReplayWay::Threads: {
      const Json threads = fact_at(environment_a, "/numerics/threads");
      if (!threads.is_number()) return std::nullopt;
      change.keys["threads"] = base::json_text(threads);
      return change;
    }
    case ReplayWay::Variables:
      return other_variables_of(cause);
    case ReplayWay::Program:
      change.program = true;
      return change;
  }
  return std::nullopt;
}

Explanation explain(const StepsApart& steps, const std::vector<LearningCause>& facts,
                    const Json& environment_a, const Replayer& replay) {
  return Explainer(facts, environment_a, replay).run(steps);
}

}  // namespace regatta::orchestrator::compare
