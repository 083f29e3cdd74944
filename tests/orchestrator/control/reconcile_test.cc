#include "orchestrator/control/reconcile.h"

#include <gtest/gtest.h>

namespace regatta::orchestrator {
namespace {

Observation idle(Wanted wanted = Wanted::Run) {
  Observation seen;
  seen.wanted = wanted;
  seen.process.state = ProcessState::None;
  seen.place_free = true;
  seen.now = 100;
  return seen;
}
Observation running(Wanted wanted = Wanted::Run) {
  Observation seen = idle(wanted);
  seen.state = RunState::Running;
  seen.process.state = ProcessState::Running;
  seen.journal_started = true;
  return seen;
}
Observation ended(int code) {
  Observation seen = running();
  seen.process = {ProcessState::Ended, code, std::nullopt};
  return seen;
}
Observation killed(int signal) {
  Observation seen = running();
  seen.process = {ProcessState::Ended, std::nullopt, signal};
  return seen;
}
Observation gone() {
  Observation seen = running();
  seen.process.state = ProcessState::Gone;
  return seen;
}
Observation cancelled(Observation seen) {
  seen.wanted = Wanted::Cancel;
  return seen;
}
Observation with_end(Observation seen, int code, const std::string& message) {
  seen.end = JournalEnd{code, message};
  return seen;
}

struct Row {
  const char* name;
  Observation seen;
  Act act;
  bool launch_over;
  RunState state;
  const char* error = "";
  friend void PrintTo(const Row& each, std::ostream* out) { *out << each.name; }
};
class Reconcile : public testing::TestWithParam<Row> {};
TEST_P(Reconcile, Decides) {
  const Row& row = GetParam();
  const Decision decision = reconcile(row.seen, {});
  EXPECT_EQ(decision.act, row.act);
  EXPECT_EQ(decision.launch_over, row.launch_over);
  EXPECT_STREQ(name_of(decision.state), name_of(row.state));
  EXPECT_EQ(decision.error, row.error);
}

Observation no_place() {
  Observation seen = idle();
  seen.place_free = false;
  return seen;
}
Observation backing_off() {
  Observation seen = idle();
  seen.not_before = 100.5;
  return seen;
}
Observation stopping(double since) {
  Observation seen = running(Wanted::Cancel);
  seen.state = RunState::Stopping;
  seen.stop_sent = 100 - since;
  seen.stop_asked = 99;
  return seen;
}
Observation asked_long_ago(Observation seen) {
  seen.stop_asked = 90;
  return seen;
}
Observation silent() {
  Observation seen = running();
  seen.journal_started = false;
  return seen;
}
Observation unknown(Wanted wanted) {
  Observation seen = running(wanted);
  seen.process.state = ProcessState::Unknown;
  return seen;
}
Observation caused(Cause cause, ProcessState state = ProcessState::Gone) {
  Observation seen = running();
  seen.process.state = state;
  seen.process.cause = cause;
  seen.process.words = "so Slurm says";
  seen.process.action = "do this";
  if (state == ProcessState::Waiting) seen.journal_started = false;
  return seen;
}
Observation replaced(Observation seen) {
  seen.replaced = true;
  return seen;
}
// As Slurm tells a job: what it lays on nobody is nobody's wish.
Observation of_a_job(Observation seen) {
  seen.process.tells_cancels = true;
  return seen;
}
Observation over() {
  Observation seen = idle();
  seen.state = RunState::Failed;
  return seen;
}
Observation logged(Observation seen) {
  seen.last_log_line = "bad dataset";
  return seen;
}
Observation observed(Observation seen) {
  seen.wanted = Wanted::Observe;
  return seen;
}

Observation with_progress(Observation seen) {
  seen.progress_step = 100;
  seen.checkpoint_step = 200;
  return seen;
}

INSTANTIATE_TEST_SUITE_P(
    Table, Reconcile,
    testing::Values(
        Row{"queued_starts", idle(), Act::Start, false, RunState::Starting},
        Row{"queued_without_place_waits", no_place(), Act::Nothing, false, RunState::Queued},
        Row{"backoff_waits", backing_off(), Act::Nothing, false, RunState::Queued},
        Row{"queued_cancelled_ends", idle(Wanted::Cancel), Act::Nothing, false,
            RunState::Cancelled},
        Row{"observed_is_never_started", idle(Wanted::Observe), Act::Nothing, false,
            RunState::Stopped},
        Row{"started_without_journal", silent(), Act::Nothing, false, RunState::Starting},
        Row{"running", running(), Act::Nothing, false, RunState::Running},
        Row{"cancel_sends_term_once", running(Wanted::Cancel), Act::Stop, false,
            RunState::Stopping},
        Row{"within_grace_waits", stopping(59), Act::Nothing, false, RunState::Stopping},
        Row{"is_asked_again", asked_long_ago(stopping(59)), Act::Stop, false, RunState::Stopping},
        Row{"after_grace_kills", stopping(60), Act::Kill, false, RunState::Stopping},
        Row{"unknown_changes_nothing", unknown(Wanted::Run), Act::Nothing, false,
            RunState::Running},
        Row{"a_wish_is_shown_while_nothing_is_known", unknown(Wanted::Cancel), Act::Nothing, false,
            RunState::Stopping},
        Row{"out_of_memory_is_not_tried_again", caused(Cause::OutOfMemory), Act::Nothing, true,
            RunState::Failed, "so Slurm says; do this"},
        Row{"out_of_memory_after_the_last_step_is_none",
            with_end(caused(Cause::OutOfMemory), 0, ""), Act::Nothing, true, RunState::Succeeded},
        Row{"node_failure_is_tried_again", caused(Cause::NodeFailure), Act::Nothing, true,
            RunState::Queued},
        Row{"launch_failure_is_tried_again", caused(Cause::LaunchFailure), Act::Nothing, true,
            RunState::Queued},
        Row{"preemption_is_tried_again", caused(Cause::Preempted), Act::Nothing, true,
            RunState::Queued},
        Row{"a_job_that_somebody_cancelled_is_left_alone", caused(Cause::Cancelled), Act::Nothing,
            true, RunState::Stopped, "somebody cancelled its job; so Slurm says"},
        Row{"cancelled_after_it_had_saved", with_end(of_a_job(caused(Cause::Cancelled)), 24, ""),
            Act::Nothing, true, RunState::Stopped,
            "somebody cancelled its job; the trainer returned 24"},
        Row{"past_its_deadline_it_is_not_tried_again", caused(Cause::Deadline), Act::Nothing, true,
            RunState::Failed, "so Slurm says; do this"},
        Row{"a_job_that_we_cancelled_is_tried_again", replaced(caused(Cause::Cancelled)),
            Act::Nothing, true, RunState::Queued},
        Row{"held_by_a_person_waits", caused(Cause::Held, ProcessState::Waiting), Act::Nothing,
            false, RunState::Queued},
        Row{"impossible_waits", caused(Cause::Impossible, ProcessState::Waiting), Act::Nothing,
            false, RunState::Queued},
        Row{"stuck_is_replaced", caused(Cause::Stuck, ProcessState::Waiting), Act::Replace, false,
            RunState::Queued},
        Row{"stuck_is_replaced_once", replaced(caused(Cause::Stuck, ProcessState::Waiting)),
            Act::Nothing, false, RunState::Queued},
        Row{"cancelled_while_stuck", cancelled(caused(Cause::Stuck, ProcessState::Waiting)),
            Act::Stop, false, RunState::Stopping},
        Row{"over_stays_over", over(), Act::Nothing, false, RunState::Failed},
        Row{"exit_0_succeeds", ended(0), Act::Nothing, true, RunState::Succeeded},
        Row{"exit_20_fails_with_the_journals_words", with_end(ended(20), 20, "no vocabulary"),
            Act::Nothing, true, RunState::Failed, "no vocabulary"},
        Row{"exit_21_fails", with_end(ended(21), 21, "disk full"), Act::Nothing, true,
            RunState::Failed, "disk full"},
        Row{"exit_70_fails", with_end(ended(70), 70, "bug"), Act::Nothing, true, RunState::Failed,
            "bug"},
        Row{"no_journal_uses_the_log", logged(ended(20)), Act::Nothing, true, RunState::Failed,
            "bad dataset"},
        Row{"no_journal_no_log", ended(1), Act::Nothing, true, RunState::Failed,
            "the trainer returned 1"},
        Row{"exit_22_retries", ended(22), Act::Nothing, true, RunState::Queued},
        Row{"killed_retries", killed(9), Act::Nothing, true, RunState::Queued},
        Row{"vanished_retries", gone(), Act::Nothing, true, RunState::Queued},
        Row{"vanished_with_end_record_is_what_it_says", with_end(gone(), 0, ""), Act::Nothing, true,
            RunState::Succeeded},
        Row{"killed_after_its_end_record", with_end(killed(9), 0, ""), Act::Nothing, true,
            RunState::Succeeded},
        Row{"vanished_with_user_error", with_end(gone(), 20, "bad"), Act::Nothing, true,
            RunState::Failed, "bad"},
        Row{"the_process_knows_better_than_its_journal", with_end(ended(22), 20, "bad"),
            Act::Nothing, true, RunState::Queued},
        Row{"exit_24_of_a_process_stops", with_progress(ended(24)), Act::Nothing, true,
            RunState::Stopped,
            "a signal asked it to stop, not `regatta cancel`; `regatta resume` lets it go on where "
            "that was not meant"},
        Row{"exit_24_of_a_run_by_hand_stops", observed(ended(24)), Act::Nothing, true,
            RunState::Stopped},
        Row{"exit_24_of_a_job_goes_on", with_progress(of_a_job(ended(24))), Act::Nothing, true,
            RunState::Queued},
        Row{"exit_24_of_a_job_that_is_forgotten_goes_on",
            with_progress(with_end(of_a_job(gone()), 24, "")), Act::Nothing, true,
            RunState::Queued},
        Row{"exit_24_of_a_job_that_a_signal_ended_goes_on",
            with_progress(with_end(of_a_job(killed(15)), 24, "")), Act::Nothing, true,
            RunState::Queued},
        Row{"exit_24_of_a_job_when_asked_is_cancelled", cancelled(of_a_job(ended(24))),
            Act::Nothing, true, RunState::Cancelled},
        Row{"exit_25_goes_on", with_progress(ended(25)), Act::Nothing, true, RunState::Queued},
        Row{"exit_25_without_progress_is_retried", ended(25), Act::Nothing, true, RunState::Queued},
        Row{"exit_25_when_cancelled", cancelled(ended(25)), Act::Nothing, true, RunState::Cancelled,
            "while stopping: the trainer returned 25"},
        Row{"exit_24_when_asked_is_cancelled", cancelled(ended(24)), Act::Nothing, true,
            RunState::Cancelled},
        Row{"cancelled_but_finished", cancelled(ended(0)), Act::Nothing, true, RunState::Succeeded},
        Row{"cancelled_and_killed", cancelled(killed(9)), Act::Nothing, true, RunState::Cancelled,
            "while stopping: killed by signal 9"},
        Row{"cancelled_is_not_retried", cancelled(ended(22)), Act::Nothing, true,
            RunState::Cancelled, "while stopping: the trainer returned 22"},
        Row{"fenced_looks_for_the_owner", ended(23), Act::Nothing, true, RunState::Stopped,
            "another attempt took the run over"},
        Row{"observed_and_vanished", observed(gone()), Act::Nothing, true, RunState::Stopped,
            "the attempt ended early (vanished); it was not started by this controller"}),
    [](const auto& each) { return each.param.name; });

TEST(ReconcileRetries, BackOffDoublesUpToABound) {
  const Limits limits;
  Observation seen = ended(22);
  const double expected[] = {1, 2, 4, 8};
  for (const double wait : expected) {
    const Decision decision = reconcile(seen, limits);
    ASSERT_EQ(decision.state, RunState::Queued);
    EXPECT_DOUBLE_EQ(decision.not_before, seen.now + wait);
    seen.failures = decision.failures;
  }
  Limits patient = limits;
  patient.failures = 100;
  seen.failures = 50;
  EXPECT_DOUBLE_EQ(reconcile(seen, patient).not_before, seen.now + limits.longest_backoff_seconds);
}

TEST(ReconcileRetries, GiveUpAfterFiveWithoutProgress) {
  Observation seen = with_end(ended(22), 22, "node lost");
  seen.failures = 3;
  EXPECT_EQ(reconcile(seen, {}).state, RunState::Queued);
  seen.failures = 4;
  const Decision decision = reconcile(seen, {});
  EXPECT_EQ(decision.state, RunState::Failed);
  EXPECT_EQ(decision.error, "5 attempts ended early without progress; the last: node lost");
}

TEST(ReconcileRetries, ANewerCheckpointBeginsTheCountAnew) {
  Observation seen = ended(22);
  seen.failures = 4;
  seen.progress_step = 100;
  seen.checkpoint_step = 200;
  const Decision decision = reconcile(seen, {});
  EXPECT_EQ(decision.state, RunState::Queued);
  EXPECT_EQ(decision.failures, 1);
  EXPECT_EQ(decision.progress_step, 200);
}

TEST(ReconcileRetries, GoingOnIsNoFailureWhileItBringsSteps) {
  Observation seen = with_progress(ended(25));
  seen.failures = 4;
  Decision decision = reconcile(seen, {});
  EXPECT_EQ(decision.state, RunState::Queued);
  EXPECT_EQ(decision.failures, 0);
  EXPECT_DOUBLE_EQ(decision.not_before, seen.now) << "at once";
  EXPECT_EQ(decision.progress_step, 200);
  seen.progress_step = 200;
  decision = reconcile(seen, {});
  EXPECT_EQ(decision.state, RunState::Failed);
  EXPECT_NE(decision.error.find("the time of its attempt was over before"), std::string::npos)
      << decision.error;
}

// What saved before something else than a person ended it.
TEST(ReconcileRetries, WhatHadSavedGoesOnWithoutAFailure) {
  const std::pair<Observation, const char*> rows[] = {
      {caused(Cause::Preempted), "so Slurm says"},
      {caused(Cause::TimeLimit), "so Slurm says"},
      {caused(Cause::NodeFailure), "so Slurm says"},
      {of_a_job(gone()), "a signal that was no cancel stopped its ranks"},
  };
  for (const auto& [end, why] : rows) {
    Observation seen = with_progress(with_end(end, 24, ""));
    seen.failures = 4;
    Decision decision = reconcile(seen, {});
    EXPECT_EQ(decision.state, RunState::Queued);
    EXPECT_EQ(decision.failures, 0);
    EXPECT_EQ(decision.progress_step, 200);
    EXPECT_DOUBLE_EQ(decision.not_before, seen.now) << "at once";
    EXPECT_EQ(decision.reason, std::string("goes on: ") + why);
    seen.progress_step = 200;
    seen.failures = 3;
    decision = reconcile(seen, {});
    EXPECT_EQ(decision.state, RunState::Queued);
    EXPECT_EQ(decision.failures, 4) << "it brought nothing";
    EXPECT_GT(decision.not_before, seen.now);
    seen.failures = 4;
    decision = reconcile(seen, {});
    EXPECT_EQ(decision.state, RunState::Failed);
    EXPECT_NE(decision.error.find(why + std::string(" before it had trained a step")),
              std::string::npos)
        << decision.error;
  }
}

TEST(ReconcileRetries, FencedAsksForTheSuccessor) {
  EXPECT_TRUE(reconcile(ended(23), {}).look_for_successor);
  EXPECT_FALSE(reconcile(ended(24), {}).look_for_successor);
}

}  // namespace
}  // namespace regatta::orchestrator
