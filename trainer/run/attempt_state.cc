// What an attempt begins with: a checkpoint of the run, or its first weights.
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "trainer/model/initial_weights.h"
#include "trainer/ranks/rank_agreement.h"
#include "trainer/run/attempt.h"

namespace regatta::trainer::run {
namespace {

constexpr std::uint64_t kEndBytes = 64U << 10U;  // of a journal, that hold how it ended

// Of earlier attempts, as the ends of their journals say.
struct Past {
  bool trained = false;               // a step
  std::optional<std::int64_t> ended;  // the step at which the run had come to its end
};

Past past_of(const AttemptContext& context) {
  Past past;
  for (const contract::AttemptName& attempt : context.directory.attempts()) {
    const base::Path journal = context.directory.journal_path(attempt);
    if (!context.files.exists(journal)) continue;
    for (const contract::JournalRecord& record :
         contract::parse_journal(base::read_tail(context.files, journal, kEndBytes)).records) {
      const auto* end = std::get_if<contract::EndRecord>(&record.body);
      past.trained |= std::holds_alternative<contract::StepRecord>(record.body) ||
                      (end != nullptr && end->step > 0);
      if (end != nullptr && end->exit_code == static_cast<int>(contract::ExitCode::Finished)) {
        past.ended = end->step;
      }
    }
  }
  return past;
}

}  // namespace

Resumed AttemptRunner::load_state(const std::optional<std::int64_t>& diverged_at) {
  Resumed start;
  std::optional<step::Snapshot> other;  // where this rank's own snapshot is of a part only
  step::TrainingState first;
  step::StateShard state;
  ranks::run_on_all_ranks(context_.group.host(), [&] {
    if (!writes()) return;
    const bool whole = step::is_whole(snapshot_->shard(), table_);
    if (!whole) other.emplace(device_, table_, step::whole_state(table_), 0, 1, true);
    step::Snapshot& into = whole ? *snapshot_ : *other;
    std::vector<contract::CheckpointRecord> skipped;
    const std::optional<Resumed> resumed = diverged_at
                                               ? keeper_.load_before(*diverged_at, &into, &skipped)
                                               : keeper_.load(&into, &skipped);
    report_skipped(skipped, resumed.has_value());
    if (resumed) {
      start = *resumed;
      state = into.shard();
    } else {
      start.step = begin(&first);
      state = first.whole(table_);
    }
  });
  tell_start(&start);
  ranks::run_on_all_ranks(context_.group.host(), [&] {
    if (contract::grows(config_) && !start.rollbacks.empty()) {
      throw base::Error(base::Code::User,
                        "the checkpoint is of a run that went back after a divergence, which does "
                        "not go with batch.growth; leave that out");
    }
    loop_.begin_at(start.step, start.growth);
  });
  start.growth = loop_.batch().state();
  loop_.load(state);
  return start;
}

// Rank 0's to all.
void AttemptRunner::tell_start(Resumed* start) {
  ranks::HostCollectives& host = context_.group.host();
  const bool has_growth = start->growth.has_value();
  step::BatchGrowthState growth = start->growth.value_or(step::BatchGrowthState{});
  std::int64_t header[] = {start->step, std::ssize(start->rollbacks), has_growth ? 1 : 0,
                           std::ssize(growth.batches)};
  host.broadcast(header, sizeof header, 0);
  start->step = header[0];
  const auto share = [&host](auto* list, std::int64_t size) {
    list->resize(static_cast<std::size_t>(size));
    if (size == 0) return;
    host.broadcast(list->data(), size * static_cast<std::int64_t>(sizeof(list->front())), 0);
  };
  share(&start->rollbacks, header[1]);
  share(&growth.batches, header[3]);
  host.broadcast(&growth.progress, sizeof growth.progress, 0);
  start->growth = header[2] > 0 ? std::optional(growth) : std::nullopt;
}

// The step that the run begins at: where its first state has moments, the one behind them.
std::int64_t AttemptRunner::begin(step::TrainingState* state) {
  for (const std::string& warning : inputs_->data->warnings()) {
    context_.journal.write(contract::WarningRecord{warning});
    if (writes()) base::log(base::LogLevel::Warning, warning);
  }
  if (!config_.from) {
    state->parameters = model::initial_weights(table_, config_.seed, config_.threads);
    return 0;
  }
  base::check(context_.options.first_state != nullptr, "who starts a run knows how it begins");
  FirstState first = context_.options.first_state(config_, *inputs_->data);
  if (first.step >= config_.steps) {
    throw base::Error(base::Code::User, base::printable(config_.from->path) + " has done " +
                                            std::to_string(first.step) +
                                            " steps, the run file asks for " +
                                            std::to_string(config_.steps) +
                                            "; raise steps, or leave from.optimizer out");
  }
  for (const std::string& note : first.notes) {
    context_.journal.write(contract::WarningRecord{note});
    if (writes()) base::log(base::LogLevel::Info, note);
  }
  state->parameters = std::move(first.parameters);
  state->first_moment = std::move(first.first_moment);
  state->second_moment = std::move(first.second_moment);
  return first.step;
}

void AttemptRunner::report_skipped(const std::vector<contract::CheckpointRecord>& skipped,
                                   bool found_another) {
  for (const contract::CheckpointRecord& record : skipped) {
    context_.journal.write(record);
    base::log(base::LogLevel::Warning,
              "checkpoint " + record.name + " was skipped: " + record.message);
  }
  if (skipped.empty() || found_another) return;
  const std::string none =
      "none of the run's checkpoints can be used (" + std::to_string(skipped.size()) + " skipped)";
  // Who extends or forks a run means to go on.
  const Past past = past_of(context_);
  if (past.ended || !past.trained) {
    throw base::Error(base::Code::User,
                      none +
                          (past.ended ? ", and it had ended at step " + std::to_string(*past.ended)
                                      : ", and it was to go on from one of them") +
                          "; restore one, or submit a new run to begin at step 0");
  }
  const std::string text =
      none + ", so training starts from step 0; stop the run if one of them can be restored";
  context_.journal.write(contract::WarningRecord{text});
  base::log(base::LogLevel::Warning, text);
}

}  // namespace regatta::trainer::run
