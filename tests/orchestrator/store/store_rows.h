// What tests of the store put into it.
#pragma once

#include <string>

#include "orchestrator/store/store.h"
#include "trainer/contract/journal.h"

namespace regatta::orchestrator {

inline store::NewRun new_run(const std::string& id, double created = 1) {
  store::NewRun run;
  run.id = id;
  run.name = "demo";
  run.config = "{}";
  run.directory = "/runs/" + id;
  run.created_utc = created;
  run.summary.steps = 10;
  run.body_digest = "d";
  return run;
}

inline trainer::contract::JournalRecord step_record(std::int64_t sequence, std::int64_t step) {
  trainer::contract::JournalRecord record;
  record.sequence = sequence;
  record.seconds = static_cast<double>(step);
  trainer::contract::StepRecord body;
  body.step = step;
  body.loss = 1;
  record.body = body;
  return record;
}

}  // namespace regatta::orchestrator
