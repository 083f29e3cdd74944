// What an attempt tells of its steps' numbers: alarms, the loss's factor, silent corruption.
#include "base/log.h"
#include "base/wording.h"
#include "trainer/contract/guard_config.h"
#include "trainer/ranks/rank_agreement.h"
#include "trainer/run/attempt.h"

namespace regatta::trainer::run {
namespace {

// "rank 2 on node-3 (CPU, AVX-512, 4 threads)", or those that it may be.
std::string who(const contract::CorruptionRecord& record) {
  if (record.rank >= 0) {
    return "rank " + std::to_string(record.rank) + " on " + record.host + " (" + record.device +
           ")";
  }
  std::string ranks;
  for (const int rank : record.suspects) {
    ranks += (ranks.empty() ? "rank " : " or ") + std::to_string(rank);
  }
  return ranks + " (on " + record.host + ")";
}

std::string message_of(const contract::CorruptionRecord& record) {
  const bool of_weights = record.quantity == "weight";
  std::string text = "Silent corruption at step " + std::to_string(record.step) + ": " +
                     who(record) +
                     (of_weights ? " has other weights" : " computed wrong gradients");
  if (!record.tensor.empty()) {
    text += ", first in " + record.tensor + " (" + record.layer + "; " +
            base::plural(record.tensors, "tensor") +
            (record.tensors == 1 ? " differs)" : " differ)");
  }
  text += record.checked_step > 0 ? ". The last check that found nothing was step " +
                                        std::to_string(record.checked_step) + "."
                                  : ". No step was checked before.";
  if (record.action == "stop") return text + " Take the machine out and test its memory.";
  return text + (of_weights ? " Training goes on with them." : " The step was computed again.");
}

}  // namespace

// Once, at the start.
void AttemptRunner::log_what_is_checked() const {
  const char* const why_not = contract::why_no_replays(config_);
  if (config_.guard.replay_every == 0) return;  // as was asked for
  if (why_not != nullptr) {
    base::log(base::LogLevel::Info,
              std::string("gradients are not checked for silent corruption: ") + why_not);
  } else if (config_.ranks > 1 && !*loop_.crosses()) {
    base::log(base::LogLevel::Info,
              "ranks check their own gradients only: equal bits are not promised between these "
              "devices");
  }
}

// Of all ranks, that of the last step. Collective.
void AttemptRunner::tell_noticed() {
  const step::Noticed& noticed = loop_.noticed();
  if (noticed.loss_scale) {
    context_.journal.write(*noticed.loss_scale);
    if (writes()) {
      base::log(base::LogLevel::Info, noticed.loss_scale->message + " The loss scale is now " +
                                          base::short_number(noticed.loss_scale->to, 8));
    }
  }
  for (const contract::AlarmRecord& alarm : noticed.alarms) {
    context_.journal.write(alarm);
    if (writes()) base::log(base::LogLevel::Warning, alarm.message);
  }
  if (noticed.corruption.empty()) return;
  const auto devices = ranks::texts_of_ranks(context_.group.host(), device_.description());
  corruption_.clear();
  for (contract::CorruptionRecord record : noticed.corruption) {
    for (const int rank : record.suspects) {
      const std::string& host = hosts_[static_cast<std::size_t>(rank)];
      if (record.host.find(host) != std::string::npos) continue;
      record.host += (record.host.empty() ? "" : ", ") + host;
    }
    if (record.rank >= 0) record.device = devices[static_cast<std::size_t>(record.rank)];
    record.message = message_of(record);
    if (corruption_.empty()) corruption_ = record.message;
    context_.journal.write(record);
    if (writes()) base::log(base::LogLevel::Warning, record.message);
  }
}

contract::EndRecord AttemptRunner::corrupted(std::int64_t step) const {
  contract::EndRecord end;
  end.reason = "failed";
  end.step = step;
  end.exit_code = static_cast<int>(contract::ExitCode::Retry);
  end.message = corruption_;
  return end;
}

}  // namespace regatta::trainer::run
