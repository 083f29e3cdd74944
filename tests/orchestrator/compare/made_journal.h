// Journals of attempts whose steps all take the same.
#pragma once

#include <vector>

#include "trainer/contract/journal.h"

namespace regatta::orchestrator::compare {

struct MadeSteps {
  int steps = 60;
  std::int64_t samples = 8, tokens = 800;
  double flops = 1e9;
  double data = 0, statistics = 0, forward = 0.010, backward = 0.020, reduce = 0, optimizer = 0.004;
  double rest = 0;  // of the step, behind the optimizer
  double exposed = 0;
  double jitter = 0;               // of every other step; the next one is as much shorter
  std::vector<double> ranks = {};  // compute of each, told with every tenth step
  int evaluate_every = 0, save_every = 0;
  double evaluation = 0, stall = 0, gap = 0;  // gap: behind every step
  double making = 0;                          // of a step's samples, by a thread
  std::uint64_t saved_bytes = 0;
  double writing = 0, syncing = 0;                   // of a checkpoint
  std::vector<double> launched = {}, finished = {};  // of each bucket, every third step
};

inline std::vector<trainer::contract::JournalRecord> made_journal(const MadeSteps& of) {
  namespace contract = trainer::contract;
  std::vector<contract::JournalRecord> records;
  double now = 5;
  const auto put = [&](auto body) {
    contract::JournalRecord record;
    record.sequence = static_cast<std::int64_t>(records.size());
    record.seconds = now;
    record.body = std::move(body);
    records.push_back(std::move(record));
  };
  put(contract::PhaseRecord{"loading"});
  put(contract::StartRecord{});
  for (int i = 1; i <= of.steps; ++i) {
    contract::StepRecord step;
    step.step = i;
    step.samples = of.samples;
    step.tokens = of.tokens;
    step.flops = of.flops;
    step.data_seconds = of.data;
    step.making_seconds = of.making;
    step.input_stalled = of.making > 0 && of.data > 0;
    step.statistics_seconds = of.statistics;
    step.forward_seconds = of.forward + (i % 2 == 0 ? of.jitter : -of.jitter);
    step.backward_seconds = of.backward;
    step.reduce_seconds = of.reduce;
    step.exposed_seconds = of.exposed;
    step.optimizer_seconds = of.optimizer;
    step.seconds = step.data_seconds + step.statistics_seconds + step.forward_seconds +
                   step.backward_seconds + step.reduce_seconds + step.optimizer_seconds + of.rest;
    now += step.seconds;
    if (i % 3 == 0) {
      step.bucket_launched = of.launched;
      step.bucket_finished = of.finished;
    }
    put(step);
    if (!of.ranks.empty() && i % 10 == 0) {
      contract::RanksRecord ranks;
      ranks.step = i;
      ranks.compute_seconds = of.ranks;
      put(ranks);
    }
    if (of.evaluate_every > 0 && i % of.evaluate_every == 0) {
      contract::EvalRecord evaluation;
      evaluation.seconds = of.evaluation;
      now += of.evaluation;
      put(evaluation);
    }
    if (of.save_every > 0 && i % of.save_every == 0) {
      contract::CheckpointRecord saved;
      saved.status = "written";
      saved.stall_seconds = of.stall;
      saved.bytes = of.saved_bytes;
      saved.write_seconds = of.writing;
      saved.sync_seconds = of.syncing;
      now += of.stall;
      put(saved);
    }
    now += of.gap;
  }
  return records;
}

}  // namespace regatta::orchestrator::compare
