#include "trainer/probe/replay.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <variant>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "checkpoint/store.h"
#include "trainer/contract/journal.h"
#include "trainer/interchange/any_model.h"
#include "trainer/model/initial_weights.h"
#include "trainer/run/checkpoint_choice.h"
#include "trainer/samples/step_samples.h"
#include "trainer/step/buckets.h"

namespace regatta::trainer::probe {
namespace {

using base::Code;
using base::Error;
using run::shown;

constexpr std::uint64_t kJournalPiece = std::uint64_t{4} << 20U;  // bytes read at a time

// Every record of all attempts, in their order.
void for_each_record(base::FileSystem& files, const contract::RunDirectory& directory,
                     const std::function<void(const contract::JournalRecord&)>& body) {
  for (const contract::AttemptName& attempt : directory.attempts()) {
    const base::Path path = directory.journal_path(attempt);
    if (!files.exists(path)) continue;
    std::uint64_t offset = 0;
    std::string text;
    for (;;) {
      const std::string piece = files.read_at(path, offset, kJournalPiece);
      offset += piece.size();
      text += piece;
      const contract::JournalChunk chunk = contract::parse_journal(text);
      for (const contract::JournalRecord& record : chunk.records) body(record);
      text.erase(0, chunk.consumed);
      if (piece.empty() || text.size() > kJournalPiece) break;  // the end, or no journal's line
    }
  }
}

// Why one process cannot repeat the run's steps; empty: it can.
std::string refuse_replay(const contract::RunConfig& config, bool has_plan) {
  const bool several = contract::rank_grid(config).data > 1;
  if (several && config.balance.strategy == contract::Balance::Stratified) {
    return "balance.strategy stratified draws a step's samples by the number of ranks";
  }
  if (several &&
      (config.clip == contract::ClipMode::Rank || config.clip == contract::ClipMode::Bucket)) {
    return "every rank limits its own gradient (clip.mode)";
  }
  if (config.clip == contract::ClipMode::Bucket && has_plan) {
    return "the gradient is limited in the buckets of a plan (clip.mode bucket)";
  }
  return "";
}

// The run on one process, in micro-batches as large as each rank's were.
contract::RunConfig on_one_process(contract::RunConfig config, int threads) {
  const int replicas = contract::rank_grid(config).data;
  if (config.micro_batch_size == 0 && replicas > 1) {
    config.micro_batch_size = (config.batch_size + replicas - 1) / replicas;
  }
  config.ranks = 1;
  config.ranks_per_node = 1;
  config.parallel = {};
  config.hierarchical = false;
  config.sharding.optimizer = false;
  config.mllog.reset();
  if (threads > 0) config.threads = threads;
  if (config.threads == 0) config.threads = base::usable_cores();
  return config;
}

// Samples left out of step `step`: by the run's rollbacks up to the last one that it lies behind.
std::int64_t left_out(const std::vector<run::Rollback>& rollbacks, std::int64_t step) {
  std::vector<run::Rollback> before = rollbacks;
  while (!before.empty() && before.back().to_step >= step) before.pop_back();
  return run::skipped_steps(before);
}

}  // namespace

Replay::Replay(base::FileSystem& files, const base::Clock& clock, const ReplayOptions& options)
    : files_(files),
      clock_(clock),
      options_(options),
      directory_(contract::RunDirectory::open(files_, options.run)),
      whole_(read_run()),
      data_(open_data()) {
  run::complete_model((directory_.path() / "run.json").string(), data_->vocabulary(),
                      data_->labels(), &whole_.config);
  const std::string why =
      refuse_replay(whole_.config, files_.exists(directory_.path() / "plan.json"));
  if (!why.empty()) {
    throw Error(Code::User, shown(options.run) + " cannot be replayed on one process: " + why);
  }
  here_ = on_one_process(whole_.config, options.threads);
  make_loop();
  load();
}

ChangedRun Replay::read_run() const {
  const std::string source = (directory_.path() / "run.json").string();
  const contract::RunConfig config = contract::parse_run_config(directory_.run_json(), source);
  std::vector<KeyValue> changes = options_.changes;
  if (!options_.data.empty()) {
    if (!config.data.mixture.empty()) {
      throw Error(Code::User, "--data names one dataset, and " + shown(source) +
                                  " has several; put them back where it says");
    }
    changes.push_back({"data.path", std::filesystem::absolute(options_.data).string()});
  }
  ChangedRun changed = change_run(config, changes, source);
  if (options_.step < 1 || options_.step > changed.config.steps) {
    throw Error(Code::User, "step " + std::to_string(options_.step) + ": the run has " +
                                std::to_string(changed.config.steps) +
                                " steps; name one of 1 to that");
  }
  return changed;
}

std::unique_ptr<run::RunData> Replay::open_data() const {
  try {
    return run::open_run_data(files_, whole_.config, options_.threads);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) +
                                  "; `regatta-train debug probe --data` says where it lies now");
  }
}

void Replay::make_loop() {
  device_ = plugins::make_device({here_.device, here_.dtype, here_.attention, here_.threads, 0},
                                 options_.place);
  (void)step::bert_options(here_, *device_);
  topology::plan::Plan plan;
  plan.ranks = 1;
  plan.buckets = step::default_buckets(here_, contract::make_tensor_table(here_.model),
                                       !device_->is_on_host());
  step::TrainLoopOptions options;
  options.observer.before_forward = [this](const step::StepSeen& seen) {
    if (seen.step == options_.step && observer_.before_forward) observer_.before_forward(seen);
  };
  options.observer.before_update = [this](std::int64_t step, const model::LossScale& scale,
                                          const model::Bert& model) {
    if (step == options_.step && observer_.before_update)
      observer_.before_update(step, scale, model);
  };
  loop_ = std::make_unique<step::TrainLoop>(*device_, alone_, clock_, here_, plan,
                                            data_->training(), std::move(options));
}

// What the newest checkpoint knows of, and what the last attempt has gone back on since.
std::vector<run::Rollback> Replay::rollbacks() const {
  std::vector<run::Rollback> known;
  const checkpoint::CheckpointStore store(files_, directory_.checkpoints_path());
  for (const checkpoint::Entry& entry : store.list()) {
    if (entry.status != checkpoint::Status::Valid) continue;
    known = entry.manifest->rollbacks;
    break;
  }
  const std::size_t saved = known.size();
  for_each_record(files_, directory_, [&](const contract::JournalRecord& record) {
    if (std::holds_alternative<contract::StartRecord>(record.body)) {
      known.resize(std::min(known.size(), saved));
    }
    const auto* back = std::get_if<contract::DivergenceRecord>(&record.body);
    if (back == nullptr || back->action != "rollback" ||
        back->rollbacks != static_cast<int>(known.size()) + 1) {
      return;
    }
    known.push_back({back->step, back->checkpoint_step});
  });
  return known;
}

void Replay::check_data(const checkpoint::Entry& entry) const {
  if (whole_.data_changed || entry.manifest->data_fingerprint == data_->fingerprint()) return;
  throw Error(Code::User, entry.name + " was trained on other data than " +
                              shown(contract::data_name(whole_.config.data)) +
                              " now holds; name the data with --data to replay on it all the same");
}

// A damaged one is passed over: an older one leads to the same step.
std::optional<run::Resumed> Replay::load_checkpoint(step::Snapshot* into) const {
  const checkpoint::CheckpointStore store(files_, directory_.checkpoints_path());
  const std::string model = contract::model_fingerprint(here_.model);
  std::vector<checkpoint::Entry> usable;
  for (const checkpoint::Entry& entry : store.list()) {
    if (entry.status == checkpoint::Status::Unreadable) throw Error(Code::Operator, entry.reason);
    if (entry.status != checkpoint::Status::Valid || entry.step >= options_.step) continue;
    if (!checkpoint::came_through(entry.step, entry.manifest->rollbacks, rollbacks_)) continue;
    if (entry.manifest->model_fingerprint == model) usable.push_back(entry);
  }
  std::stable_sort(usable.begin(), usable.end(),
                   [](const auto& a, const auto& b) { return a.step > b.step; });
  for (const checkpoint::Entry& entry : usable) {
    check_data(entry);
    run::CheckpointKeeper keeper({files_, clock_, directory_, contract::Fence(directory_, 0), here_,
                                  loop_->model().table(), entry.manifest->data_fingerprint, ""});
    std::vector<contract::CheckpointRecord> skipped;
    const std::optional<run::Resumed> found = keeper.load_first({entry.name}, into, &skipped);
    if (found) return found;
    base::log(base::LogLevel::Warning, "checkpoint " + entry.name + " was skipped: " +
                                           (skipped.empty() ? "" : skipped.back().message));
  }
  return std::nullopt;
}

void Replay::load_first_weights(step::TrainingState* state) {
  const contract::TensorTable& table = loop_->model().table();
  if (!here_.from) {
    state->parameters = model::initial_weights(table, here_.seed, here_.threads);
    return;
  }
  interchange::StartingState first = interchange::starting_state(
      files_, clock_, *here_.from, here_.model,
      {data_->vocabulary(), data_->lower_case(), data_->labels()}, here_.seed, here_.threads);
  start_ = {ReplayStart::Kind::GivenWeights, here_.from->path, first.step};
  state->parameters = std::move(first.parameters);
  state->first_moment = std::move(first.first_moment);
  state->second_moment = std::move(first.second_moment);
}

void Replay::load() {
  const contract::TensorTable& table = loop_->model().table();
  rollbacks_ = rollbacks();
  step::Snapshot saved(*device_, table, step::whole_state(table), 0, 1, true);
  step::TrainingState first;
  const std::optional<run::Resumed> resumed = load_checkpoint(&saved);
  if (resumed) {
    start_ = {ReplayStart::Kind::Checkpoint, resumed->name, resumed->step};
  } else {
    load_first_weights(&first);
  }
  if (start_.step >= options_.step) {
    throw Error(Code::User, "step " + std::to_string(options_.step) + ": the run began behind " +
                                std::to_string(start_.step) + " steps of " + shown(start_.name) +
                                "; name a later one");
  }
  loop_->begin_at(start_.step, resumed ? resumed->growth : std::nullopt);
  if (resumed) {
    loop_->load(saved.shard());
  } else {
    loop_->load(first);
  }
}

contract::StepRecord Replay::run(const step::StepObserver& observer) {
  observer_ = observer;
  std::int64_t skipped = 0;
  for (std::int64_t step = start_.step + 1;; ++step) {
    if (loop_->is_over(step - 1)) {
      throw Error(Code::User, "step " + std::to_string(options_.step) + ": the run was over at " +
                                  std::to_string(step - 1) + "; name an earlier one");
    }
    const std::int64_t skip = left_out(rollbacks_, step);
    if (skip != skipped) loop_->skip(skip);
    skipped = skip;
    const contract::StepRecord record = loop_->step(step);
    if (step == options_.step) return record;
  }
}

std::vector<ReplayedSample> Replay::samples_of(const step::StepSeen& seen) const {
  const samples::SampleStream stream = data_->training();
  std::vector<std::int64_t> numbers;
  samples::SampleStream noting = stream;
  noting.at = [&](std::int64_t number) {
    numbers.push_back(number);
    return stream.at(number);
  };
  ranks::SingleHost host;
  samples::StepShare share = samples::StepSamples(here_, noting, host).share(seen.place);
  base::check(numbers.size() == share.samples.size(), "each sample is read once, in its order");
  std::vector<ReplayedSample> all(numbers.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = {stream.id ? stream.id(numbers[i]) : "", share.ordinals[i],
              std::move(share.samples[i])};
  }
  return all;
}

std::optional<double> Replay::journal_loss() const {
  std::optional<double> loss;
  for_each_record(files_, directory_, [&](const contract::JournalRecord& record) {
    const auto* step = std::get_if<contract::StepRecord>(&record.body);
    if (step != nullptr && step->step == options_.step) loss = step->loss;
  });
  return loss;
}

}  // namespace regatta::trainer::probe
