#include "trainer/step/plan_learning.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "trainer/ranks/rank_agreement.h"

namespace regatta::trainer::step {
namespace {

bool is_fixed(const contract::RunConfig& config) {
  return config.determinism.level != contract::Determinism::Fast;
}

// Empty: buckets may change between steps.
std::string why_fixed(const contract::RunConfig& config) {
  if (config.ranks == 1) return "one rank sums nothing";
  if (is_fixed(config)) return "determinism is not fast";
  if (config.parallel.pipeline > 1) return "each pipeline stage sums its own tensors";
  if (config.buckets.by != contract::BucketPolicy::Plan) return "buckets.by says how to cut";
  if (config.sharding.optimizer) return "parts of sharded buckets belong to ranks";
  if (config.clip == contract::ClipMode::Bucket)
    return "clip.mode is bucket, which other buckets change";
  return "";
}

base::Path folder_of_runs(const base::Path& run) {
  base::Path path = std::filesystem::absolute(run).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "runs/a/"
  return path.parent_path();
}

}  // namespace

PlanLearning::PlanLearning(base::FileSystem& files, const base::Clock& clock,
                           ranks::HostCollectives& host, const contract::RunDirectory& directory,
                           const contract::RunConfig& config, const contract::TensorTable& table,
                           const topology::plan::Plan& plan, const PlanSituation& situation)
    : files_(files),
      clock_(clock),
      table_(table),
      writes_(host.rank() == 0),
      plans_(folder_of_runs(directory.path()) / topology::plan::kPlansFolder) {
  cuts_ = {{"plan", plan.buckets}};
  const std::string fixed = why_fixed(config);
  may_change_ = fixed.empty();
  if (!may_change_) {
    if (writes_ && config.ranks > 1 && !is_fixed(config)) {
      base::log(base::LogLevel::Info, "no other buckets are tried: " + fixed);
    }
    return;
  }
  key_.topology = plan.topology;
  key_.communicator = situation.communicator + (config.hierarchical ? ", hierarchical" : "");
  key_.device = situation.device;
  key_.model = contract::model_fingerprint(config.model);
  key_.ranks = config.ranks;
  key_.ranks_per_node = config.ranks_per_node;
  if (plan.buckets != situation.standard) planned_ = plan.buckets;

  // What rank 0 reads all judge alike.
  if (const auto kept = kept_plan(ranks::text_of_rank_0(host, situation.kept))) {
    cuts_ = {{"kept", kept->plan.buckets}};
    found_ = topology::plan::to_json(*kept);
    return;
  }
  const auto tensors = static_cast<int>(table.tensors.size());
  std::string text;
  if (writes_ && planned_.empty()) {
    const auto stored = topology::plan::read_stored_plan(files, plans_, key_, tensors);
    if (stored) text = topology::plan::to_json(*stored);
  }
  const std::string read = ranks::text_of_rank_0(host, text);
  KnownCuts known{situation.standard, planned_, {}};
  if (!read.empty()) {
    known.remembered = topology::plan::parse_stored_plan(read, "rank 0's", tensors).plan.buckets;
  }
  if (config.steps - situation.first_step < kLeastStepsLeft) {
    if (!known.remembered.empty()) cuts_ = {{"remembered", known.remembered}};
    return;
  }
  std::vector<Cut> cuts = cuts_to_try(table, known);
  if (cuts.size() == 1) return;
  cuts_ = std::move(cuts);
  std::vector<std::string> names;
  for (const Cut& cut : cuts_) names.push_back(cut.name);
  trial_.emplace(std::move(names));
}

// Nothing where it was found on another layout, or beside another plan.json.
std::optional<topology::plan::StoredPlan> PlanLearning::kept_plan(const std::string& text) const {
  if (text.empty()) return std::nullopt;
  try {
    auto kept = topology::plan::parse_stored_plan(text, "the checkpoint's plan",
                                                  static_cast<int>(table_.tensors.size()));
    if (kept.key == key_ && kept.planned == planned_) return kept;
  } catch (const base::Error& error) {
    if (writes_) base::log(base::LogLevel::Warning, error.what());
  }
  return std::nullopt;
}

const std::vector<topology::plan::Bucket>& PlanLearning::buckets() const {
  return cuts_[trial_ ? trial_->current() : current_].buckets;
}

std::optional<contract::TrialRecord> PlanLearning::observe(std::int64_t step,
                                                           const StepPace& pace) {
  base::check(trial_.has_value(), "a trial is on");
  trial_->observe(pace);
  if (!trial_->is_over()) return std::nullopt;
  const TrialResult result = trial_->result();
  current_ = result.winner;
  trial_.reset();
  contract::TrialRecord record;
  record.step = step;
  record.steps = result.steps;
  record.rounds = result.rounds;
  for (const Cut& cut : cuts_) {
    record.cuts.push_back(cut.name);
    record.cut_buckets.push_back(static_cast<int>(cut.buckets.size()));
  }
  record.cut_seconds = result.seconds;
  record.winner = cuts_[current_].name;
  record.gain = result.gain;
  record.noise = result.noise;
  record.why = result.why;
  for (const topology::plan::Bucket& bucket : buckets()) {
    std::int64_t elements = 0;
    for (int i = bucket.begin_tensor; i < bucket.end_tensor; ++i) {
      const contract::TensorEntry& tensor = table_.tensors[static_cast<std::size_t>(i)];
      elements = tensor.offset + tensor.size -
                 table_.tensors[static_cast<std::size_t>(bucket.begin_tensor)].offset;
    }
    record.bucket_bytes.push_back(4 * elements);
  }
  remember(record);
  return record;
}

void PlanLearning::remember(const contract::TrialRecord& record) {
  topology::plan::StoredPlan stored;
  stored.key = key_;
  stored.plan.ranks = key_.ranks;
  stored.plan.buckets = buckets();
  stored.plan.cut = record.winner;
  stored.plan.why = record.why;
  stored.plan.measured = true;
  for (std::size_t i = 0; i < record.cuts.size(); ++i) {
    stored.plan.alternatives.push_back(
        {record.cuts[i], record.cut_buckets[i], record.cut_seconds[i], record.cut_seconds[i]});
  }
  stored.planned = planned_;
  stored.utc_seconds = clock_.utc_seconds();
  found_ = topology::plan::to_json(stored);
  if (!writes_) return;
  try {
    topology::plan::write_stored_plan(files_, plans_, stored);
  } catch (const base::Error& error) {
    base::log(base::LogLevel::Warning,
              std::string("later runs will not know what this one found: ") + error.what());
  }
}

}  // namespace regatta::trainer::step
