#include "trainer/checkpoint_keeper.h"

#include <span>

#include "base/error.h"
#include "checkpoint/retention.h"
#include "checkpoint/store.h"
#include "trainer/contract/retention_policy.h"

namespace regatta::trainer {
namespace {

const char* metric_name(const RunConfig& config) {
  return config.target && config.target->metric == TargetMetric::MlmLoss ? "mlm_loss"
                                                                         : "mlm_accuracy";
}

// The table's tensors as slices of an arena; borrowed.
void add_tensors(const TensorTable& table, const std::string& prefix,
                 const std::vector<float>& arena, std::vector<checkpoint::NamedTensor>* tensors) {
  for (const TensorEntry& entry : table.tensors) {
    const std::span<const float> values(arena.data() + entry.offset,
                                        static_cast<std::size_t>(entry.size));
    tensors->push_back({prefix + entry.name, "F32", entry.shape, std::as_bytes(values)});
  }
}

std::vector<float> read_tensors(const TensorTable& table, const std::string& prefix,
                                const checkpoint::SafetensorsReader& reader) {
  std::vector<float> arena(static_cast<std::size_t>(table.arena_size), 0.0F);
  for (const TensorEntry& entry : table.tensors) {
    const std::span<float> values(arena.data() + entry.offset,
                                  static_cast<std::size_t>(entry.size));
    reader.read(prefix + entry.name, "F32", entry.shape, std::as_writable_bytes(values));
  }
  return arena;
}

// The factor of float16 runs and its steps without overflow, float32 [2]; other runs have none.
constexpr char kLossScale[] = "loss_scale";

void read_loss_scale(const checkpoint::SafetensorsReader& reader, TrainingState* state) {
  if (reader.find(kLossScale) == nullptr) return;
  float values[2];
  reader.read(kLossScale, "F32", {2}, std::as_writable_bytes(std::span<float>(values)));
  state->loss_scale = static_cast<double>(values[0]);
  state->good_steps = static_cast<std::int64_t>(values[1]);
}

}  // namespace

CheckpointKeeper::CheckpointKeeper(base::FileSystem& files, const base::Clock& clock,
                                   const RunDirectory& directory, const Fence& fence,
                                   const RunConfig& config, const TensorTable& table,
                                   const std::string& data_fingerprint,
                                   const std::string& execution)
    : files_(files),
      clock_(clock),
      directory_(directory),
      fence_(fence),
      config_(config),
      table_(table),
      data_fingerprint_(data_fingerprint),
      execution_(execution) {}

std::optional<Resumed> CheckpointKeeper::load(std::vector<CheckpointRecord>* skipped) {
  const checkpoint::CheckpointStore store(files_, directory_.checkpoints_path());
  const checkpoint::Latest latest =
      store.open_latest_valid(model_fingerprint(config_.model), data_fingerprint_);
  for (const checkpoint::Skipped& entry : latest.skipped) {
    CheckpointRecord record;
    record.name = entry.name;
    record.status = "skipped";
    record.message = entry.reason;
    skipped->push_back(record);
  }
  if (!latest.checkpoint) return std::nullopt;
  Resumed resumed;
  resumed.step = latest.checkpoint->manifest.step;
  resumed.name = latest.checkpoint->name;
  resumed.state.parameters = read_tensors(table_, "", latest.checkpoint->model);
  resumed.state.first_moment =
      read_tensors(table_, checkpoint::kFirstMoment, latest.checkpoint->optimizer);
  resumed.state.second_moment =
      read_tensors(table_, checkpoint::kSecondMoment, latest.checkpoint->optimizer);
  read_loss_scale(latest.checkpoint->optimizer, &resumed.state);
  last_step_ = resumed.step;
  return resumed;
}

std::vector<CheckpointRecord> CheckpointKeeper::write(std::int64_t step, const TrainingState& state,
                                                      const std::optional<double>& metric) {
  const double start = clock_.monotonic_seconds();
  checkpoint::Contents contents;
  contents.manifest.run = config_.name;
  contents.manifest.execution = execution_;
  contents.manifest.epoch = fence_.epoch();
  contents.manifest.step = step;
  contents.manifest.samples = step * config_.batch_size;
  contents.manifest.model_fingerprint = model_fingerprint(config_.model);
  contents.manifest.data_fingerprint = data_fingerprint_;
  contents.manifest.metric = metric ? metric_name(config_) : "";
  contents.manifest.value = metric;
  contents.manifest.utc_seconds = clock_.utc_seconds();
  contents.manifest.versions = {{"regatta", REGATTA_VERSION}, {"compiler", __VERSION__}};
  add_tensors(table_, "", state.parameters, &contents.model);
  add_tensors(table_, checkpoint::kFirstMoment, state.first_moment, &contents.optimizer);
  add_tensors(table_, checkpoint::kSecondMoment, state.second_moment, &contents.optimizer);

  const float loss_scale[2] = {static_cast<float>(state.loss_scale),
                               static_cast<float>(state.good_steps)};
  if (state.loss_scale > 0) {
    contents.optimizer.push_back(
        {kLossScale, "F32", {2}, std::as_bytes(std::span<const float>(loss_scale))});
  }

  checkpoint::CheckpointStore store(files_, directory_.checkpoints_path());
  CheckpointRecord record;
  record.step = step;
  record.name = checkpoint::CheckpointName{step, execution_}.text();
  try {
    record.bytes = store.write(contents, [this] { return fence_.holds(); }).bytes;
    record.status = "written";
    last_step_ = step;
  } catch (const base::Error& error) {
    record.status = "failed";
    record.message = error.what();
  }
  record.seconds = clock_.monotonic_seconds() - start;
  std::vector<CheckpointRecord> records{record};
  if (record.status != "written") return records;
  try {
    const checkpoint::RetentionOutcome outcome = checkpoint::apply_retention(
        files_, store, retention_policy(config_), {execution_, clock_.utc_seconds()});
    for (const std::string& name : outcome.removed) {
      CheckpointRecord removed;
      removed.step = step;
      removed.name = name;
      removed.status = "removed";
      records.push_back(removed);
    }
  } catch (const base::Error& error) {
    CheckpointRecord failed;
    failed.step = step;
    failed.name = record.name;
    failed.status = "failed";
    failed.message = std::string("older checkpoints were not removed: ") + error.what();
    records.push_back(failed);
  }
  return records;
}

}  // namespace regatta::trainer
