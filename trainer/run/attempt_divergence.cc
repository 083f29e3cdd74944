// What an attempt does about a step that diverged.
#include "base/error.h"
#include "base/log.h"
#include "base/wording.h"
#include "trainer/ranks/rank_agreement.h"
#include "trainer/run/attempt.h"

namespace regatta::trainer::run {

// The run's history from now on: which samples its steps take, and what its checkpoints say.
void AttemptRunner::take_up(const std::vector<Rollback>& rollbacks) {
  rollbacks_ = rollbacks;
  keeper_.keep_rollbacks(rollbacks_);
  loop_.skip(skipped_steps(rollbacks_));
}

std::optional<std::int64_t> AttemptRunner::go_back(const step::Diverged& error) {
  if (config_.on_divergence == contract::OnDivergence::Stop) return std::nullopt;
  if (std::ssize(rollbacks_) >= config_.max_rollbacks) return std::nullopt;
  // Of ranks that have moved on and one that still reads, the latter is furthest behind.
  beat(0, watch::Phase::Loading);
  Resumed back;
  try {
    back = load_state(error.step);
  } catch (const ranks::AgreedError& failure) {  // on all ranks, before any state was touched
    if (writes()) base::log(base::LogLevel::Warning, failure.what());
    return std::nullopt;
  }
  std::vector<Rollback> rollbacks = rollbacks_;
  rollbacks.push_back({error.step, back.step});
  take_up(rollbacks);
  writer_.go_back();
  metric_ = back.metric;
  metric_step_ = back.step;
  contract::DivergenceRecord record = record_of(error);
  record.action = "rollback";
  record.checkpoint = back.name;
  record.checkpoint_step = back.step;
  record.message = std::string(error.what()) + ": training diverged; went back to " +
                   (back.name.empty() ? "the first weights" : back.name) +
                   ", and goes on without the samples of " +
                   std::to_string(error.step - back.step) + " steps (rollback " +
                   std::to_string(rollbacks_.size()) + " of at most " +
                   std::to_string(config_.max_rollbacks) + ")";
  context_.journal.write(record);
  if (writes()) base::log(base::LogLevel::Warning, record.message);
  return back.step;
}

contract::DivergenceRecord AttemptRunner::record_of(const step::Diverged& error) const {
  contract::DivergenceRecord record;
  record.step = error.step;
  record.quantity = error.first.quantity;
  record.tensor = error.first.tensor;
  if (!record.tensor.empty()) record.layer = contract::layer_of(record.tensor);
  record.rank = error.first.rank;
  record.rollbacks = static_cast<int>(rollbacks_.size());
  record.skipped_steps = skipped_steps(rollbacks_);
  return record;
}

contract::EndRecord AttemptRunner::diverged(const step::Diverged& error) {
  contract::DivergenceRecord record = record_of(error);
  record.action = "stop";
  if (writes()) {
    const Resumed good = keeper_.newest();
    record.checkpoint = good.name;
    record.checkpoint_step = good.step;
  }
  const bool is_last = config_.on_divergence == contract::OnDivergence::Rollback &&
                       record.rollbacks >= config_.max_rollbacks;
  record.message =
      std::string(error.what()) + ": training diverged" +
      (is_last ? " after " + base::plural(record.rollbacks, "rollback") + " (max_rollbacks)" : "") +
      (record.checkpoint.empty() ? "; there is no checkpoint before it"
                                 : "; last good checkpoint: " + record.checkpoint) +
      "; lower optimizer.learning_rate" +
      (config_.clip == contract::ClipMode::None ? ", or clip the gradient" : "");
  context_.journal.write(record);
  contract::EndRecord end;
  end.reason = "diverged";
  end.step = error.step;
  end.exit_code = static_cast<int>(contract::ExitCode::User);
  end.message = record.message;
  return end;
}

}  // namespace regatta::trainer::run
