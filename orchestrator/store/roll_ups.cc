#include "orchestrator/store/roll_ups.h"

#include <array>
#include <chrono>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "orchestrator/store/step_blocks.h"
#include "orchestrator/store/store.h"

namespace regatta::orchestrator::store {
namespace {

constexpr double kPieceSeconds = 0.02;
constexpr int kPieceRows = 2000;  // some milliseconds
constexpr int kMostRunsOfLook = 1000;
constexpr double kDay = 86400;

// Of each level of blocks, after how long they are all that is kept.
std::array<double, kBlockLevels.size()> days_of(const KeptSteps& kept) {
  return {kept.raw_days, kept.ten_second_days, kept.minute_days};
}

constexpr const char* kJudgedRuns =
    "runs LEFT JOIN run_resolutions AS judged ON judged.run = runs.number";
// How many levels were judged since this end of the run: its new steps, where it went on after
// another, are kept as long as those of other runs.
constexpr const char* kStage =
    "CASE WHEN judged.ended_utc IS runs.ended_utc THEN ifnull(stage, 0) ELSE 0 END";

// Rows of the run (?1), but for the newest, by whose cursor others go on.
constexpr const char* kRemoveRows =
    "DELETE FROM steps WHERE cursor IN (SELECT cursor FROM steps WHERE run = ?1 AND cursor < "
    "(SELECT max(cursor) FROM steps WHERE run = ?1) ORDER BY cursor LIMIT ?2)";
// Blocks of a level (?3) that are in one of the next (?4), whose newest is found by its key: the
// writer has no time to read them all.
constexpr const char* kRemoveBlocks =
    "DELETE FROM step_blocks WHERE rowid IN (SELECT block.rowid FROM step_blocks AS block WHERE "
    "attempt IN (SELECT row FROM attempts WHERE run = ?1) AND level = ?3 AND last_sequence <= "
    "(SELECT last_sequence FROM step_blocks WHERE attempt = block.attempt AND level = ?4 "
    "ORDER BY sequence DESC LIMIT 1) LIMIT ?2)";
constexpr const char* kHasEnoughBlocks =
    "SELECT count(*) FROM (SELECT 1 FROM step_blocks WHERE level = ?2 AND attempt IN "
    "(SELECT row FROM attempts WHERE run = ?1) LIMIT ?3)";

}  // namespace

std::vector<runs::RunNumber> Store::runs_to_roll_up(const KeptSteps& kept, double now_utc) {
  const ReaderPool::Lease reader = own_readers_->take();
  // By index runs_all_by_end.
  static const std::string sql = std::string("SELECT number FROM ") + kJudgedRuns +
                                 " WHERE ifnull(runs.ended_utc, 9e99) < ?1 AND runs.ended_utc IS "
                                 "NOT NULL AND drained = 1 AND " +
                                 kStage + " = ?2 LIMIT ?3";
  Statement ask = reader->prepare(sql);
  std::vector<runs::RunNumber> due;
  const auto days = days_of(kept);
  for (std::size_t stage = 0; stage < days.size(); ++stage) {
    ask.bind(now_utc - days[stage] * kDay, static_cast<std::int64_t>(stage), kMostRunsOfLook);
    while (ask.step()) due.push_back(runs::RunNumber{ask.integer(0)});
  }
  return due;
}

bool Store::roll_up(runs::RunNumber run, const KeptSteps& kept, double now_utc) {
  const auto lock = lock_writes();
  Transaction transaction(*writer_);
  std::size_t stage = 0;
  int resolution = 0;
  double ended_utc = 0;
  {
    static const std::string sql = std::string("SELECT runs.ended_utc, ") + kStage +
                                   ", ifnull(resolution, 0) FROM " + kJudgedRuns +
                                   " WHERE number = ?1 AND drained = 1 AND runs.ended_utc IS NOT "
                                   "NULL";
    Statement ask = writer_->prepare(sql);
    ask.bind(runs::row_of(run));
    if (!ask.step()) return false;
    ended_utc = ask.number(0);
    stage = static_cast<std::size_t>(ask.integer(1));
    if (stage >= kBlockLevels.size()) return false;
    if (ended_utc >= now_utc - days_of(kept)[stage] * kDay) return false;
    resolution = static_cast<int>(ask.integer(2));
  }
  const int level = kBlockLevels[stage].seconds;
  Statement count = writer_->prepare(kHasEnoughBlocks);
  count.bind(runs::row_of(run), level, kFewestPoints);
  const bool enough = count.step() && count.integer(0) >= kFewestPoints;
  count.run();
  bool more = false;
  if (enough) {
    resolution = std::max(resolution, level);
    Statement remove = writer_->prepare(stage == 0 ? kRemoveRows : kRemoveBlocks);
    remove.bind(runs::row_of(run), kPieceRows);
    if (stage > 0) {
      remove.bind_at(3, kBlockLevels[stage - 1].seconds);
      remove.bind_at(4, level);
    }
    remove.run();
    more = writer_->changes() > 0;
  }
  writer_
      ->prepare(
          "INSERT OR REPLACE INTO run_resolutions(run, resolution, ended_utc, stage) "
          "VALUES(?1, ?2, ?3, ?4)")
      .bind(runs::row_of(run), resolution, ended_utc,
            static_cast<std::int64_t>(stage) + (more ? 0 : 1))
      .run();
  transaction.commit();
  return true;
}

void Store::roll_up_beside(const KeptSteps& kept, const LookTimes& looks) {
  roll_ups_ = std::make_unique<RollUps>(*this, kept, looks);
}

RollUps::RollUps(Store& store, const KeptSteps& kept, const LookTimes& looks)
    : store_(store),
      kept_(kept),
      looks_(looks),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

RollUps::~RollUps() {
  thread_.request_stop();
  thread_.join();
}

bool RollUps::pause(const std::stop_token& stop, double seconds) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
  return !stop.stop_requested();
}

void RollUps::work(const std::stop_token& stop) {
  for (double wait = looks_.first_seconds; pause(stop, wait); wait = looks_.then_seconds) {
    try {
      const double now_utc = base::system_clock().utc_seconds();
      for (const runs::RunNumber run : store_.runs_to_roll_up(kept_, now_utc)) {
        while (store_.roll_up(run, kept_, now_utc)) {
          if (!pause(stop, kPieceSeconds)) return;
        }
      }
    } catch (const base::Error& error) {  // the next look tries again
      base::log(base::LogLevel::Warning,
                std::string("steps of old runs are not rolled up: ") + error.what());
    }
  }
}

}  // namespace regatta::orchestrator::store
