#include "trainer/run/checkpoint_keeper.h"

#include <algorithm>
#include <memory>
#include <span>

#include "base/error.h"
#include "checkpoint/found_damage.h"
#include "checkpoint/held_mark.h"
#include "checkpoint/retention.h"
#include "checkpoint/shards.h"
#include "trainer/contract/retention_policy.h"

namespace regatta::trainer::run {
namespace {

using checkpoint::CheckpointStore;
using checkpoint::TensorPlace;

// Where the table's tensors lie in an arena.
std::vector<TensorPlace> places_in(const contract::TensorTable& table, const std::string& prefix,
                                   float* arena) {
  std::vector<TensorPlace> places;
  for (const contract::TensorEntry& entry : table.tensors) {
    const std::span<float> values(arena + entry.offset, static_cast<std::size_t>(entry.size));
    places.push_back({prefix + entry.name, "F32", entry.shape, std::as_writable_bytes(values)});
  }
  return places;
}

// While this process reads them, nobody else's retention removes them.
std::vector<std::unique_ptr<checkpoint::HeldMark>> mark_all(base::FileSystem& files,
                                                            const base::Clock& clock,
                                                            const CheckpointStore& store) {
  std::vector<std::unique_ptr<checkpoint::HeldMark>> marks;
  for (const checkpoint::Entry& entry : store.list()) {
    if (entry.status != checkpoint::Status::Valid) continue;
    try {
      marks.push_back(
          checkpoint::hold_mark(files, clock, store.directory() / entry.name, "resume"));
    } catch (const base::Error&) {  // it is being removed: reading it may fail, and is survived
    }
  }
  return marks;
}

}  // namespace

CheckpointStore CheckpointKeeper::store() const {
  return {context_.files, context_.directory.checkpoints_path()};
}

checkpoint::CheckpointName CheckpointKeeper::name_of(std::int64_t step) const {
  return {step,
          context_.execution + (rollbacks_.empty() ? "" : "r" + std::to_string(rollbacks_.size()))};
}

std::optional<Resumed> CheckpointKeeper::load(step::Snapshot* whole,
                                              std::vector<contract::CheckpointRecord>* skipped) {
  return load_one_of(std::nullopt, whole, skipped);
}

std::optional<Resumed> CheckpointKeeper::load_first(
    const std::vector<std::string>& names, step::Snapshot* whole,
    std::vector<contract::CheckpointRecord>* skipped) {
  return load_one_of(names, whole, skipped);
}

std::optional<Resumed> CheckpointKeeper::load_before(
    std::int64_t step, step::Snapshot* whole, std::vector<contract::CheckpointRecord>* skipped) {
  const std::vector<checkpoint::Entry> all = store().list();
  std::vector<std::string> names =
      rollback_targets(all, rollbacks_, step, context_.config.checkpoint_every);
  const bool is_new = std::none_of(all.begin(), all.end(), [](const checkpoint::Entry& entry) {
    return entry.status == checkpoint::Status::Valid;
  });
  if (is_new) return std::nullopt;
  while (!names.empty()) {
    const std::optional<Resumed> found = load_one_of(names, whole, skipped);
    if (!found) break;
    if (step::is_finite(whole->shard(), context_.table)) return found;
    contract::CheckpointRecord record;
    record.step = found->step;
    record.name = found->name;
    record.status = "skipped";
    record.message = "not all of its numbers are finite";
    skipped->push_back(record);
    names.erase(names.begin(), std::find(names.begin(), names.end(), found->name) + 1);
  }
  throw base::Error(base::Code::User, "none of the run's checkpoints can be gone back to");
}

std::optional<Resumed> CheckpointKeeper::load_one_of(
    const std::optional<std::vector<std::string>>& names, step::Snapshot* whole,
    std::vector<contract::CheckpointRecord>* skipped) {
  base::check(step::is_whole(whole->shard(), context_.table), "the snapshot is of the whole state");
  const CheckpointStore checkpoints = store();
  const auto marks = mark_all(context_.files, context_.clock, checkpoints);
  Resumed resumed;
  float loss_scale[2] = {0, 0};
  const std::vector<TensorPlace> model = places_in(context_.table, "", whole->parameters());
  std::vector<TensorPlace> optimizer =
      places_in(context_.table, checkpoint::kFirstMoment, whole->first_moment());
  for (TensorPlace& place :
       places_in(context_.table, checkpoint::kSecondMoment, whole->second_moment())) {
    optimizer.push_back(std::move(place));
  }
  optimizer.push_back(
      {step::kLossScale, "F32", {2}, std::as_writable_bytes(std::span<float>(loss_scale)), true});
  step::NoiseStates noise = {};
  optimizer.push_back({step::kNoiseScale,
                       "F64",
                       {2, static_cast<std::int64_t>(contract::NoiseScale::kStateSize)},
                       std::as_writable_bytes(std::span(&noise, 1)),
                       true});
  const std::string fingerprint = contract::model_fingerprint(context_.config.model);
  const checkpoint::LatestLoaded latest =
      names
          ? checkpoints.load_first(*names, fingerprint, context_.data_fingerprint, model, optimizer)
          : checkpoints.load_latest(fingerprint, context_.data_fingerprint, model, optimizer);
  for (const checkpoint::Skipped& entry : latest.skipped) {
    contract::CheckpointRecord record;
    record.name = entry.name;
    record.status = "skipped";
    record.message = entry.reason;
    skipped->push_back(record);
    if (!entry.is_damaged) continue;
    damaged_.insert(entry.name);
    note(entry.name, entry.reason);
  }
  if (!latest.checkpoint) return std::nullopt;
  damaged_.erase(latest.checkpoint->name);  // it may have been restored
  note(latest.checkpoint->name, std::nullopt);
  resumed.step = latest.checkpoint->manifest.step;
  resumed.name = latest.checkpoint->name;
  resumed.plan = latest.checkpoint->manifest.plan;
  resumed.rollbacks = latest.checkpoint->manifest.rollbacks;
  resumed.growth = contract::batches_of(latest.checkpoint->manifest, context_.config.batch_size);
  resumed.metric = latest.checkpoint->manifest.value;
  const std::vector<std::string>& absent = latest.checkpoint->absent;
  const auto has = [&absent](const char* name) {
    return std::find(absent.begin(), absent.end(), name) == absent.end();
  };
  whole->set_noise(has(step::kNoiseScale) ? noise : step::NoiseStates{});
  const bool scaled = has(step::kLossScale);
  whole->set_loss_scale(scaled ? static_cast<double>(loss_scale[0]) : 0,
                        scaled ? static_cast<std::int64_t>(loss_scale[1]) : 0);
  return resumed;
}

void CheckpointKeeper::note(const std::string& name,
                            const std::optional<std::string>& damage) const {
  try {
    checkpoint::note_found_damage(context_.files, context_.directory.checkpoints_path(), name,
                                  damage, context_.clock.utc_seconds());
  } catch (const base::Error&) {  // the journal says it all the same
  }
}

Resumed CheckpointKeeper::newest() const {
  Resumed found;
  found.step = -1;
  try {
    for (const checkpoint::Entry& entry : store().list()) {
      if (entry.status != checkpoint::Status::Valid) continue;
      found.step = entry.step;
      found.name = entry.name;
      break;
    }
  } catch (const base::Error&) {  // whoever asks has something worse to say
  }
  return found;
}

void CheckpointKeeper::write_shard(std::int64_t step, const step::StateShard& shard) {
  CheckpointStore checkpoints = store();
  const float loss_scale[2] = {static_cast<float>(shard.loss_scale),
                               static_cast<float>(shard.good_steps)};
  const auto model = step::model_tensors(context_.table, shard);
  const auto optimizer = step::optimizer_tensors(context_.table, shard, loss_scale);
  // Who writes the weights looks for room for everybody.
  const bool first = !model.empty();
  const std::uint64_t whole =
      first ? 3 * 4 * static_cast<std::uint64_t>(context_.table.arena_size) : 0;
  if (first) {
    checkpoints.write_shard(name_of(step), checkpoint::shard_file(checkpoint::kModel, 0, 1), model,
                            context_.clock, whole);
  }
  checkpoints.write_shard(name_of(step),
                          checkpoint::shard_file(checkpoint::kOptimizer, shard.part, shard.parts),
                          optimizer, context_.clock);
}

std::int64_t CheckpointKeeper::samples_of(std::int64_t step) const {
  const contract::BatchSchedule constant(context_.config.batch_size);
  if (!growth_) return constant.samples_after(step);
  return contract::BatchSchedule::of(growth_->batches).value_or(constant).samples_after(step);
}

checkpoint::Manifest CheckpointKeeper::manifest_of(std::int64_t step,
                                                   const std::optional<double>& metric) const {
  checkpoint::Manifest manifest;
  manifest.run = context_.config.name;
  manifest.execution = name_of(step).execution;
  manifest.epoch = context_.fence.epoch();
  manifest.step = step;
  manifest.samples = samples_of(step);
  manifest.model_fingerprint = contract::model_fingerprint(context_.config.model);
  manifest.data_fingerprint = context_.data_fingerprint;
  manifest.metric = metric ? contract::metric_of(context_.config) : "";
  manifest.value = metric;
  manifest.plan = plan_;
  manifest.rollbacks = rollbacks_;
  manifest.growth = growth_;
  manifest.utc_seconds = context_.clock.utc_seconds();
  manifest.versions = {{"regatta", REGATTA_VERSION},
                       {"compiler", __VERSION__},
                       {"dtype", ::regatta::trainer::contract::name_of(context_.config.dtype)},
                       {"determinism", contract::to_text(context_.config.determinism)},
                       {"ranks", std::to_string(context_.config.ranks)}};
  if (!context_.device.empty()) manifest.versions["device"] = context_.device;
  return manifest;
}

std::vector<contract::CheckpointRecord> CheckpointKeeper::commit(
    std::int64_t step, int parts, const std::optional<double>& metric) {
  std::vector<std::string> shards{checkpoint::shard_file(checkpoint::kModel, 0, 1)};
  for (int part = 0; part < parts; ++part) {
    shards.push_back(checkpoint::shard_file(checkpoint::kOptimizer, part, parts));
  }
  contract::CheckpointRecord record;
  record.step = step;
  record.name = name_of(step).text();
  try {
    const checkpoint::Written written = store().commit(
        manifest_of(step, metric), shards, [this] { return context_.fence.holds(); },
        context_.clock);
    record.bytes = written.bytes;
    record.write_seconds = written.write_seconds;
    record.sync_seconds = written.sync_seconds;
  } catch (const base::Error& error) {
    return abandon(step, error);
  }
  record.status = "written";
  std::vector<contract::CheckpointRecord> records{record};
  for (const contract::CheckpointRecord& removed : remove_old(step)) records.push_back(removed);
  return records;
}

std::vector<contract::CheckpointRecord> CheckpointKeeper::abandon(std::int64_t step,
                                                                  const base::Error& error) {
  contract::CheckpointRecord record;
  record.step = step;
  record.name = name_of(step).text();
  record.status = "failed";
  record.message = error.what();
  try {
    // A checkpoint that was whole before this try stays.
    const CheckpointStore checkpoints = store();
    if (!context_.files.exists(checkpoints.directory() / record.name / checkpoint::kManifestFile)) {
      store().remove(record.name);
    }
  } catch (const base::Error&) {  // the first failure is the one to report
  }
  return {record};
}

std::vector<contract::CheckpointRecord> CheckpointKeeper::write(
    std::int64_t step, const step::StateShard& whole, const std::optional<double>& metric) {
  try {
    write_shard(step, whole);
  } catch (const base::Error& error) {
    return abandon(step, error);
  }
  return commit(step, 1, metric);
}

std::vector<contract::CheckpointRecord> CheckpointKeeper::remove_old(std::int64_t step) const {
  std::vector<contract::CheckpointRecord> records;
  CheckpointStore checkpoints = store();
  try {
    const checkpoint::RetentionOutcome outcome = checkpoint::apply_retention(
        context_.files, checkpoints, contract::retention_policy(context_.config),
        {name_of(step).execution, context_.clock.utc_seconds(),
         checkpoint::RetentionRound::Mode::Apply, damaged_});
    for (const std::string& name : outcome.removed) {
      contract::CheckpointRecord removed;
      removed.step = step;
      removed.name = name;
      removed.status = "removed";
      records.push_back(removed);
    }
  } catch (const base::Error& error) {
    contract::CheckpointRecord failed;
    failed.step = step;
    failed.name = name_of(step).text();
    failed.status = "failed";
    failed.message = std::string("older checkpoints were not removed: ") + error.what();
    records.push_back(failed);
  }
  return records;
}

}  // namespace regatta::trainer::run
