// Reference curves: what somebody else's run reached when, to be looked at beside one's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/runs/fields.h"

namespace regatta::orchestrator::runs {

struct Reference {
  std::string name;               // letters, digits and ". _ -"
  std::string submitter, system;  // empty: not known
  std::string round, division;    // "v4.1", "closed"; empty: not known
  std::string status;             // success, aborted, or what else the log said; empty: nothing
  std::optional<std::int64_t> chips, global_batch;
  double threshold = 0;                            // of mlm_accuracy
  std::optional<double> run_seconds;               // until the run's end
  std::optional<double> time_to_accuracy_seconds;  // until the threshold was met
  std::int64_t evaluations = 0;                    // points of its curve
  double imported_utc = 0;

  bool operator==(const Reference&) const = default;
};

// With its curve, in order of time.
struct ReferenceCurve {
  Reference about;
  std::vector<double> seconds;  // since the run's start, of each evaluation's end
  std::vector<double> values;   // mlm_accuracy
  std::vector<double> samples;  // trained on until then; empty: not known

  bool operator==(const ReferenceCurve&) const = default;
};

constexpr std::size_t kMostReferencePoints = 10'000;

// Throws Code::User with what is wrong: a name that is none, a curve that is empty, too long, not
// in order of time or not finite. Sets what follows from the curve: how many evaluations, and when
// the threshold was met.
void complete(ReferenceCurve* curve);

// The body of POST /references, and back: throws Code::User also for keys that it does not know.
// What complete() sets is not in it.
[[nodiscard]] nlohmann::ordered_json reference_body(const ReferenceCurve& curve);
[[nodiscard]] ReferenceCurve parse_reference(const nlohmann::ordered_json& body);
// [[seconds, samples or null, value]…]
[[nodiscard]] nlohmann::ordered_json points_json(const ReferenceCurve& curve);

template <typename Archive, RecordOf<Reference> R>
void fields(Archive& archive, R& r) {
  archive(served("name"), r.name);
  archive(served("submitter").or_null(), r.submitter);
  archive(served("system").or_null(), r.system);
  archive(served("round").or_null(), r.round);
  archive(served("division").or_null(), r.division);
  archive(served("status").or_null(), r.status);
  archive(served("chips"), r.chips);
  archive(served("global_batch"), r.global_batch);
  archive(served("threshold"), r.threshold);
  archive(served("run_seconds"), r.run_seconds);
  archive(served("time_to_accuracy", "time_to_accuracy_seconds"), r.time_to_accuracy_seconds);
  archive(served("evaluation_count"), r.evaluations);
  archive(served("imported_utc", "imported_at").moment(), r.imported_utc);
}

template <typename Archive, RecordOf<ReferenceCurve> R>
void fields(Archive& archive, R& r) {
  archive.part(r.about);
  archive(kept("seconds"), r.seconds);
  archive(kept("point_values"), r.values);
  archive(kept("samples"), r.samples);
}

}  // namespace regatta::orchestrator::runs
