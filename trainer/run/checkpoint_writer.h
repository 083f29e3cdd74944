// Writes checkpoints beside training, and lets ranks agree on when one is whole.
//
//   rank r:   begin → writes its shard ─────┐ says so with its next step
//   all:                                    follow: the last one is done
//   rank 0:                                 commit (or abandon) ──┐ says so with its next step
//   all:                                                          follow: saved_step() moves
//
// Where rank 0 alone writes, it commits at once. Threads that write enter no collective: ranks
// learn of each other by the flags that travel with every step, so that all act at the same one.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "trainer/contract/journal.h"
#include "trainer/ranks/host_collectives.h"
#include "trainer/run/checkpoint_keeper.h"
#include "trainer/step/snapshot.h"

namespace regatta::trainer::run {

class CheckpointWriter {
 public:
  // Everything passed by reference outlives the writer. The first `writers` ranks have shards; -1
  // for `saved_step`: there is no good checkpoint yet.
  CheckpointWriter(CheckpointKeeper& keeper, ranks::HostCollectives& host, const base::Clock& clock,
                   int writers, std::int64_t saved_step);
  // Waits for this rank's files; a checkpoint that the ranks had not agreed on stays unfinished.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  struct Progress {
    bool writing = false;
    bool failed = false;
  };
  // Of this rank, to be told with its step.
  [[nodiscard]] Progress progress();
  // After every step, with what any rank told in it. Collective. Returns what rank 0 journals.
  [[nodiscard]] std::vector<contract::CheckpointRecord> follow(const Progress& any);

  // Collective; waits until nothing is under way.
  [[nodiscard]] std::vector<contract::CheckpointRecord> settle();

  // Nothing is under way. Training has stood still since `since` (monotonic seconds), to copy.
  // `shard` stays as it is until nothing is under way again; null on ranks without one.
  void begin(std::int64_t step, const step::StateShard* shard, const std::optional<double>& metric,
             double since);

  // The run has gone back: that it has is in no checkpoint so far. Nothing is under way.
  void go_back();

  // The newest good checkpoint, and the one under way (-1: none); the same on all ranks.
  [[nodiscard]] std::int64_t saved_step() const { return saved_step_; }
  [[nodiscard]] std::int64_t step_under_way() const { return stage_ == Stage::Idle ? -1 : step_; }

 private:
  enum class Stage { Idle, Shards, Commit };
  struct Outcome {
    std::vector<contract::CheckpointRecord> records;  // of a commit
    std::optional<base::Error> failure;               // of a shard
    double end = 0;                                   // monotonic seconds
    [[nodiscard]] bool failed() const;
  };

  void start(const std::function<std::vector<contract::CheckpointRecord>()>& work);
  [[nodiscard]] base::Error agreed_failure();
  [[nodiscard]] std::vector<contract::CheckpointRecord> end(bool good);

  CheckpointKeeper& keeper_;
  ranks::HostCollectives& host_;
  const base::Clock& clock_;
  int writers_;
  std::int64_t saved_step_;

  Stage stage_ = Stage::Idle;
  std::int64_t step_ = -1;
  std::optional<double> metric_;
  double since_ = 0, copy_seconds_ = 0, stall_seconds_ = 0;
  bool abandoned_ = false;
  Outcome outcome_;  // of the last job that is done
  std::future<Outcome> job_;
};

}  // namespace regatta::trainer::run
