#include "orchestrator/control/reconcile.h"

#include <gtest/gtest.h>

namespace regatta::orchestrator {
namespace {

control::Observation idle(runs::Wanted wanted = runs::Wanted::Run) {
  control::Observation seen;
  seen.wanted = wanted;
  seen.process.state = runs::ProcessState::None;
  seen.place_free = true;
  seen.now = 100;
  return seen;
}
control::Observation running(runs::Wanted wanted = runs::Wanted::Run) {
  control::Observation seen = idle(wanted);
  seen.state = runs::RunState::Running;
  seen.process.state = runs::ProcessState::Running;
  seen.journal_started = true;
  return seen;
}
control::Observation ended(int code) {
  control::Observation seen = running();
  seen.process = {runs::ProcessState::Ended, code, std::nullopt};
  return seen;
}
control::Observation killed(int signal) {
  control::Observation seen = running();
  seen.process = {runs::ProcessState::Ended, std::nullopt, signal};
  return seen;
}
control::Observation gone() {
  control::Observation seen = running();
  seen.process.state = runs::ProcessState::Gone;
  return seen;
}
control::Observation cancelled(control::Observation seen) {
  seen.wanted = runs::Wanted::Cancel;
  return seen;
}
control::Observation with_end(control::Observation seen, int code, const std::string& message) {
  seen.end = control::JournalEnd{code, message};
  return seen;
}

struct Row {
  const char* name;
  control::Observation seen;
  control::Act act;
  bool launch_over;
  runs::RunState state;
  const char* error = "";
  friend void PrintTo(const Row& each, std::ostream* out) { *out << each.name; }
};
class Reconcile : public testing::TestWithParam<Row> {};
TEST_P(Reconcile, Decides) {
  const Row& row = GetParam();
  const control::Decision decision = control::reconcile(row.seen, {});
  EXPECT_EQ(decision.act, row.act);
  EXPECT_EQ(decision.launch_over, row.launch_over);
  EXPECT_STREQ(runs::name_of(decision.state), runs::name_of(row.state));
  EXPECT_EQ(decision.error, row.error);
}

control::Observation no_place() {
  control::Observation seen = idle();
  seen.place_free = false;
  return seen;
}
control::Observation backing_off() {
  control::Observation seen = idle();
  seen.not_before = 100.5;
  return seen;
}
control::Observation stopping(double since) {
  control::Observation seen = running(runs::Wanted::Cancel);
  seen.state = runs::RunState::Stopping;
  seen.stop_sent = 100 - since;
  seen.stop_asked = 99;
  return seen;
}
control::Observation asked_long_ago(control::Observation seen) {
  seen.stop_asked = 90;
  return seen;
}
control::Observation silent() {
  control::Observation seen = running();
  seen.journal_started = false;
  return seen;
}
control::Observation unknown(runs::Wanted wanted) {
  control::Observation seen = running(wanted);
  seen.process.state = runs::ProcessState::Unknown;
  return seen;
}
control::Observation caused(runs::Cause cause,
                            runs::ProcessState state = runs::ProcessState::Gone) {
  control::Observation seen = running();
  seen.process.state = state;
  seen.process.cause = cause;
  seen.process.words = "so Slurm says";
  seen.process.action = "do this";
  if (state == runs::ProcessState::Waiting) seen.journal_started = false;
  return seen;
}
control::Observation replaced(control::Observation seen) {
  seen.replaced = true;
  return seen;
}
// As Slurm tells a job: what it lays on nobody is nobody's wish.
control::Observation of_a_job(control::Observation seen) {
  seen.process.tells_cancels = true;
  return seen;
}
control::Observation over() {
  control::Observation seen = idle();
  seen.state = runs::RunState::Failed;
  return seen;
}
control::Observation logged(control::Observation seen) {
  seen.last_log_line = "bad dataset";
  return seen;
}
control::Observation observed(control::Observation seen) {
  seen.wanted = runs::Wanted::Observe;
  return seen;
}

control::Observation with_progress(control::Observation seen) {
  seen.progress_step = 100;
  seen.checkpoint_step = 200;
  return seen;
}

control::Observation requeued(control::Observation seen) {
  seen.wanted = runs::Wanted::Requeue;
  return seen;
}
INSTANTIATE_TEST_SUITE_P(
    Table, Reconcile,
    testing::Values(
        Row{"queued_starts", idle(), control::Act::Start, false, runs::RunState::Starting},
        Row{"queued_without_place_waits", no_place(), control::Act::Nothing, false,
            runs::RunState::Queued},
        Row{"backoff_waits", backing_off(), control::Act::Nothing, false, runs::RunState::Queued},
        Row{"queued_cancelled_ends", idle(runs::Wanted::Cancel), control::Act::Nothing, false,
            runs::RunState::Cancelled},
        Row{"observed_is_never_started", idle(runs::Wanted::Observe), control::Act::Nothing, false,
            runs::RunState::Stopped},
        Row{"started_without_journal", silent(), control::Act::Nothing, false,
            runs::RunState::Starting},
        Row{"running", running(), control::Act::Nothing, false, runs::RunState::Running},
        Row{"cancel_sends_term_once", running(runs::Wanted::Cancel), control::Act::Stop, false,
            runs::RunState::Stopping},
        Row{"within_grace_waits", stopping(59), control::Act::Nothing, false,
            runs::RunState::Stopping},
        Row{"is_asked_again", asked_long_ago(stopping(59)), control::Act::Stop, false,
            runs::RunState::Stopping},
        Row{"after_grace_kills", stopping(60), control::Act::Kill, false, runs::RunState::Stopping},
        Row{"requeue_sends_term", running(runs::Wanted::Requeue), control::Act::Stop, false,
            runs::RunState::Stopping},
        Row{"requeued_waits_again", requeued(ended(24)), control::Act::Nothing, true,
            runs::RunState::Queued},
        Row{"requeued_and_killed_waits_again", requeued(killed(9)), control::Act::Nothing, true,
            runs::RunState::Queued},
        Row{"requeued_job_that_we_cancelled_waits_again",
            requeued(replaced(caused(runs::Cause::Cancelled))), control::Act::Nothing, true,
            runs::RunState::Queued},
        Row{"requeued_at_its_end_has_succeeded", requeued(ended(0)), control::Act::Nothing, true,
            runs::RunState::Succeeded},
        Row{"requeued_and_fenced_is_left_to_the_other", requeued(ended(23)), control::Act::Nothing,
            true, runs::RunState::Stopped, "another attempt took the run over"},
        Row{"requeued_without_anything_starts", idle(runs::Wanted::Requeue), control::Act::Start,
            false, runs::RunState::Starting},
        Row{"unknown_changes_nothing", unknown(runs::Wanted::Run), control::Act::Nothing, false,
            runs::RunState::Running},
        Row{"a_wish_is_shown_while_nothing_is_known", unknown(runs::Wanted::Cancel),
            control::Act::Nothing, false, runs::RunState::Stopping},
        Row{"out_of_memory_is_not_tried_again", caused(runs::Cause::OutOfMemory),
            control::Act::Nothing, true, runs::RunState::Failed, "so Slurm says; do this"},
        Row{"out_of_memory_after_the_last_step_is_none",
            with_end(caused(runs::Cause::OutOfMemory), 0, ""), control::Act::Nothing, true,
            runs::RunState::Succeeded},
        Row{"node_failure_is_tried_again", caused(runs::Cause::NodeFailure), control::Act::Nothing,
            true, runs::RunState::Queued},
        Row{"launch_failure_is_tried_again", caused(runs::Cause::LaunchFailure),
            control::Act::Nothing, true, runs::RunState::Queued},
        Row{"preemption_is_tried_again", caused(runs::Cause::Preempted), control::Act::Nothing,
            true, runs::RunState::Queued},
        Row{"a_job_that_somebody_cancelled_is_left_alone", caused(runs::Cause::Cancelled),
            control::Act::Nothing, true, runs::RunState::Stopped,
            "somebody cancelled its job; so Slurm says"},
        Row{"cancelled_after_it_had_saved",
            with_end(of_a_job(caused(runs::Cause::Cancelled)), 24, ""), control::Act::Nothing, true,
            runs::RunState::Stopped, "somebody cancelled its job; the trainer returned 24"},
        Row{"past_its_deadline_it_is_not_tried_again", caused(runs::Cause::Deadline),
            control::Act::Nothing, true, runs::RunState::Failed, "so Slurm says; do this"},
        Row{"a_job_that_we_cancelled_is_tried_again", replaced(caused(runs::Cause::Cancelled)),
            control::Act::Nothing, true, runs::RunState::Queued},
        Row{"held_by_a_person_waits", caused(runs::Cause::Held, runs::ProcessState::Waiting),
            control::Act::Nothing, false, runs::RunState::Queued},
        Row{"impossible_waits", caused(runs::Cause::Impossible, runs::ProcessState::Waiting),
            control::Act::Nothing, false, runs::RunState::Queued},
        Row{"stuck_is_replaced", caused(runs::Cause::Stuck, runs::ProcessState::Waiting),
            control::Act::Replace, false, runs::RunState::Queued},
        Row{"stuck_is_replaced_once",
            replaced(caused(runs::Cause::Stuck, runs::ProcessState::Waiting)),
            control::Act::Nothing, false, runs::RunState::Queued},
        Row{"cancelled_while_stuck",
            cancelled(caused(runs::Cause::Stuck, runs::ProcessState::Waiting)), control::Act::Stop,
            false, runs::RunState::Stopping},
        Row{"over_stays_over", over(), control::Act::Nothing, false, runs::RunState::Failed},
        Row{"exit_0_succeeds", ended(0), control::Act::Nothing, true, runs::RunState::Succeeded},
        Row{"exit_20_fails_with_the_journals_words", with_end(ended(20), 20, "no vocabulary"),
            control::Act::Nothing, true, runs::RunState::Failed, "no vocabulary"},
        Row{"exit_21_fails", with_end(ended(21), 21, "disk full"), control::Act::Nothing, true,
            runs::RunState::Failed, "disk full"},
        Row{"exit_70_fails", with_end(ended(70), 70, "bug"), control::Act::Nothing, true,
            runs::RunState::Failed, "bug"},
        Row{"no_journal_uses_the_log", logged(ended(20)), control::Act::Nothing, true,
            runs::RunState::Failed, "bad dataset"},
        Row{"no_journal_no_log", ended(1), control::Act::Nothing, true, runs::RunState::Failed,
            "the trainer returned 1"},
        Row{"exit_22_retries", ended(22), control::Act::Nothing, true, runs::RunState::Queued},
        Row{"killed_retries", killed(9), control::Act::Nothing, true, runs::RunState::Queued},
        Row{"vanished_retries", gone(), control::Act::Nothing, true, runs::RunState::Queued},
        Row{"vanished_with_end_record_is_what_it_says", with_end(gone(), 0, ""),
            control::Act::Nothing, true, runs::RunState::Succeeded},
        Row{"killed_after_its_end_record", with_end(killed(9), 0, ""), control::Act::Nothing, true,
            runs::RunState::Succeeded},
        Row{"vanished_with_user_error", with_end(gone(), 20, "bad"), control::Act::Nothing, true,
            runs::RunState::Failed, "bad"},
        Row{"finished_in_its_journal_and_another_code_of_slurms",
            with_progress(with_end(ended(25), 0, "")), control::Act::Nothing, true,
            runs::RunState::Succeeded},
        Row{"finished_in_its_journal_and_a_crash_after_it", with_end(ended(22), 0, ""),
            control::Act::Nothing, true, runs::RunState::Succeeded},
        Row{"the_process_knows_better_than_its_journal", with_end(ended(22), 20, "bad"),
            control::Act::Nothing, true, runs::RunState::Queued},
        Row{"exit_24_of_a_process_stops", with_progress(ended(24)), control::Act::Nothing, true,
            runs::RunState::Stopped,
            "a signal asked it to stop, not `regatta cancel`; `regatta resume` lets it go on where "
            "that was not meant"},
        Row{"exit_24_of_a_run_by_hand_stops", observed(ended(24)), control::Act::Nothing, true,
            runs::RunState::Stopped},
        Row{"exit_24_of_a_job_goes_on", with_progress(of_a_job(ended(24))), control::Act::Nothing,
            true, runs::RunState::Queued},
        Row{"exit_24_of_a_job_that_is_forgotten_goes_on",
            with_progress(with_end(of_a_job(gone()), 24, "")), control::Act::Nothing, true,
            runs::RunState::Queued},
        Row{"exit_24_of_a_job_that_a_signal_ended_goes_on",
            with_progress(with_end(of_a_job(killed(15)), 24, "")), control::Act::Nothing, true,
            runs::RunState::Queued},
        Row{"exit_24_of_a_job_when_asked_is_cancelled", cancelled(of_a_job(ended(24))),
            control::Act::Nothing, true, runs::RunState::Cancelled},
        Row{"exit_25_goes_on", with_progress(ended(25)), control::Act::Nothing, true,
            runs::RunState::Queued},
        Row{"exit_25_without_progress_is_retried", ended(25), control::Act::Nothing, true,
            runs::RunState::Queued},
        Row{"exit_25_when_cancelled", cancelled(ended(25)), control::Act::Nothing, true,
            runs::RunState::Cancelled, "while stopping: the trainer returned 25"},
        Row{"exit_24_when_asked_is_cancelled", cancelled(ended(24)), control::Act::Nothing, true,
            runs::RunState::Cancelled},
        Row{"cancelled_but_finished", cancelled(ended(0)), control::Act::Nothing, true,
            runs::RunState::Succeeded},
        Row{"cancelled_and_killed", cancelled(killed(9)), control::Act::Nothing, true,
            runs::RunState::Cancelled, "while stopping: killed by signal 9"},
        Row{"cancelled_is_not_retried", cancelled(ended(22)), control::Act::Nothing, true,
            runs::RunState::Cancelled, "while stopping: the trainer returned 22"},
        Row{"fenced_looks_for_the_owner", ended(23), control::Act::Nothing, true,
            runs::RunState::Stopped, "another attempt took the run over"},
        Row{"observed_and_vanished", observed(gone()), control::Act::Nothing, true,
            runs::RunState::Stopped,
            "the attempt ended early (vanished); it was not started by this controller"}),
    [](const auto& each) { return each.param.name; });

TEST(ReconcileRetries, BackOffDoublesUpToABound) {
  const control::Limits limits;
  control::Observation seen = ended(22);
  const double expected[] = {1, 2, 4, 8};
  for (const double wait : expected) {
    const control::Decision decision = control::reconcile(seen, limits);
    ASSERT_EQ(decision.state, runs::RunState::Queued);
    EXPECT_DOUBLE_EQ(decision.not_before, seen.now + wait);
    EXPECT_EQ(decision.reason, "retry pending: the trainer returned 22");
    seen.failures = decision.failures;
  }
  control::Limits patient = limits;
  patient.failures = 100;
  seen.failures = 50;
  EXPECT_DOUBLE_EQ(control::reconcile(seen, patient).not_before,
                   seen.now + limits.longest_backoff_seconds);
}

TEST(ReconcileRetries, GiveUpAfterFiveWithoutProgress) {
  control::Observation seen = with_end(ended(22), 22, "node lost");
  seen.failures = 3;
  EXPECT_EQ(control::reconcile(seen, {}).state, runs::RunState::Queued);
  seen.failures = 4;
  const control::Decision decision = control::reconcile(seen, {});
  EXPECT_EQ(decision.state, runs::RunState::Failed);
  EXPECT_EQ(decision.error, "5 attempts ended early without progress; the last: node lost");
}

TEST(ReconcileRetries, ANewerCheckpointBeginsTheCountAnew) {
  control::Observation seen = ended(22);
  seen.failures = 4;
  seen.progress_step = 100;
  seen.checkpoint_step = 200;
  const control::Decision decision = control::reconcile(seen, {});
  EXPECT_EQ(decision.state, runs::RunState::Queued);
  EXPECT_EQ(decision.failures, 1);
  EXPECT_EQ(decision.progress_step, 200);
}

TEST(ReconcileRetries, GoingOnIsNoFailureWhileItBringsSteps) {
  control::Observation seen = with_progress(ended(25));
  seen.failures = 4;
  control::Decision decision = control::reconcile(seen, {});
  EXPECT_EQ(decision.state, runs::RunState::Queued);
  EXPECT_EQ(decision.failures, 0);
  EXPECT_DOUBLE_EQ(decision.not_before, seen.now) << "at once";
  EXPECT_EQ(decision.progress_step, 200);
  seen.progress_step = 200;
  decision = control::reconcile(seen, {});
  EXPECT_EQ(decision.state, runs::RunState::Failed);
  EXPECT_NE(decision.error.find("the time of its attempt was over before"), std::string::npos)
      << decision.error;
}

// What saved before something else than a person ended it.
TEST(ReconcileRetries, WhatHadSavedGoesOnWithoutAFailure) {
  const std::pair<control::Observation, const char*> rows[] = {
      {caused(runs::Cause::Preempted), "so Slurm says"},
      {caused(runs::Cause::TimeLimit), "so Slurm says"},
      {caused(runs::Cause::NodeFailure), "so Slurm says"},
      {of_a_job(gone()), "a signal that was no cancel stopped its ranks"},
  };
  for (const auto& [end, why] : rows) {
    control::Observation seen = with_progress(with_end(end, 24, ""));
    seen.failures = 4;
    control::Decision decision = control::reconcile(seen, {});
    EXPECT_EQ(decision.state, runs::RunState::Queued);
    EXPECT_EQ(decision.failures, 0);
    EXPECT_EQ(decision.progress_step, 200);
    EXPECT_DOUBLE_EQ(decision.not_before, seen.now) << "at once";
    EXPECT_EQ(decision.reason, std::string("goes on: ") + why);
    seen.progress_step = 200;
    seen.failures = 3;
    decision = control::reconcile(seen, {});
    EXPECT_EQ(decision.state, runs::RunState::Queued);
    EXPECT_EQ(decision.failures, 4) << "it brought nothing";
    EXPECT_GT(decision.not_before, seen.now);
    seen.failures = 4;
    decision = control::reconcile(seen, {});
    EXPECT_EQ(decision.state, runs::RunState::Failed);
    EXPECT_NE(decision.error.find(why + std::string(" before it had trained a step")),
              std::string::npos)
        << decision.error;
  }
}

TEST(ReconcileRetries, FencedAsksForTheSuccessor) {
  EXPECT_TRUE(control::reconcile(ended(23), {}).look_for_successor);
  EXPECT_FALSE(control::reconcile(ended(24), {}).look_for_successor);
}

}  // namespace
}  // namespace regatta::orchestrator
