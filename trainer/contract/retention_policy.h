// Which checkpoints a run keeps, by its configuration.
#pragma once

#include "checkpoint/retention.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::contract {

inline checkpoint::RetentionPolicy retention_policy(const RunConfig& config) {
  checkpoint::RetentionPolicy policy;
  policy.keep_last = config.keep_last;
  policy.keep_best = config.keep_best;
  policy.keep_every = config.keep_every;
  policy.better =
      is_loss(judged_by(config)) ? checkpoint::Better::Lowest : checkpoint::Better::Highest;
  policy.metric = metric_of(config);
  return policy;
}

}  // namespace regatta::trainer::contract
