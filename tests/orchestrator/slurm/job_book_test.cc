#include "orchestrator/slurm/job_book.h"

#include <gtest/gtest.h>

#include "orchestrator/batch/batch_script.h"

namespace regatta::orchestrator {
namespace {

const std::string kToken = "0123456789abcdef";
const slurm::JobHandle kJob{"42", kToken};
constexpr auto kAll = slurm::JobBook::Asked::ForAllJobs;

slurm::JobRow job(const std::string& state, const std::string& id = "42",
                  const std::string& token = kToken) {
  slurm::JobRow row;
  row.id = id;
  row.state = slurm::parse_job_state(state);
  row.name = "demo";
  row.comment = batch::slurm_job_comment(token);
  return row;
}
slurm::JobRow with_exit(slurm::JobRow row, int code, int signal) {
  row.exit = slurm::ExitStatus{code, signal};
  return row;
}
slurm::Jobs jobs(std::vector<slurm::JobRow> rows) { return {std::move(rows), 0}; }

class JobBookTest : public testing::Test {
 protected:
  JobBookTest() { book_.expect(kToken, "", 10); }
  runs::ProcessState state() const { return book_.report(kJob).state; }
  slurm::JobBook book_{true};
};

TEST_F(JobBookTest, KnowsNothingBeforeAnAnswer) {
  EXPECT_EQ(state(), runs::ProcessState::Unknown);
  EXPECT_FALSE(book_.find(kToken).known);
  EXPECT_FALSE(book_.find("ffffffffffffffff").known);
  EXPECT_TRUE(book_.has_open());
  EXPECT_TRUE(book_.wanted().empty()) << "the queue first";
}

TEST_F(JobBookTest, FollowsTheQueue) {
  book_.take_queue(jobs({job("PENDING")}), 11);
  EXPECT_EQ(state(), runs::ProcessState::Waiting);
  EXPECT_NE(book_.report(kJob).words.find("waits in Slurm"), std::string::npos);
  EXPECT_EQ(book_.find(kToken).handle, kJob.text());
  for (const char* running : {"RUNNING", "CONFIGURING", "SUSPENDED", "COMPLETING"}) {
    book_.take_queue(jobs({job(running)}), 12);
    EXPECT_EQ(state(), runs::ProcessState::Running) << running;
  }
  book_.take_queue(jobs({with_exit(job("COMPLETED"), 0, 0)}), 13);
  EXPECT_EQ(state(), runs::ProcessState::Ended);
  EXPECT_EQ(book_.report(kJob).exit_code, 0);
  EXPECT_FALSE(book_.has_open());
}

// What accounting says of other jobs may have rows of this one: of an execution that was requeued.
TEST_F(JobBookTest, AccountingSaysNothingBeforeTheQueueWasAsked) {
  book_.take_accounting(jobs({with_exit(job("FAILED"), 1, 0)}), {"ffffffffffffffff"}, 11, kAll);
  EXPECT_EQ(state(), runs::ProcessState::Unknown);
  book_.take_queue(jobs({job("PENDING")}), 12);
  EXPECT_EQ(state(), runs::ProcessState::Waiting);
}

TEST_F(JobBookTest, ARequeuedExecutionIsNotTheEnd) {
  slurm::JobRow first = with_exit(job("REQUEUED"), 0, 0);
  first.start = 100;
  book_.take_accounting(jobs({first}), {"ffffffffffffffff"}, 11, kAll);
  EXPECT_EQ(state(), runs::ProcessState::Unknown);
  book_.take_queue(jobs({}), 12);
  EXPECT_EQ(state(), runs::ProcessState::Unknown) << "it runs again, or did, and nobody said how";
  EXPECT_EQ(book_.wanted(), std::vector<std::string>{kToken});
  slurm::JobRow second = with_exit(job("COMPLETED"), 0, 0);
  second.start = 200;
  book_.take_accounting(jobs({first, second}), {kToken}, 13, kAll);
  EXPECT_EQ(state(), runs::ProcessState::Ended);
  EXPECT_EQ(book_.report(kJob).exit_code, 0);
}

// An answer to a question that was asked before the submission says nothing about it.
TEST_F(JobBookTest, AnEarlierQuestionDoesNotCount) {
  book_.take_queue(jobs({}), 9);
  EXPECT_EQ(state(), runs::ProcessState::Unknown);
  EXPECT_TRUE(book_.wanted().empty());
  for (double asked = 11; asked < 11 + 59; asked += 5) {
    book_.take_queue(jobs({}), asked);
    book_.take_accounting(jobs({}), {kToken}, asked, kAll);
    EXPECT_EQ(state(), runs::ProcessState::Unknown) << asked;
  }
}

TEST_F(JobBookTest, WhatVanishedIsLookedUpInAccounting) {
  book_.take_queue(jobs({job("RUNNING")}), 11);
  book_.take_queue(jobs({}), 500);
  EXPECT_EQ(book_.wanted(), std::vector<std::string>{kToken});
  EXPECT_EQ(state(), runs::ProcessState::Unknown) << "no verdict before accounting was asked";
  book_.take_accounting(jobs({job("RUNNING")}), {kToken}, 501, kAll);
  EXPECT_EQ(state(), runs::ProcessState::Unknown) << "accounting lags";
  book_.take_accounting(jobs({with_exit(job("FAILED"), 24, 0)}), {kToken}, 505, kAll);
  EXPECT_EQ(state(), runs::ProcessState::Ended);
  EXPECT_EQ(book_.report(kJob).exit_code, 24);
  EXPECT_TRUE(book_.wanted().empty());
}

TEST_F(JobBookTest, IsLostAfterAMinuteOfAnswers) {
  for (double asked = 100; asked <= 160; asked += 10) {
    EXPECT_FALSE(book_.find(kToken).known) << asked;
    book_.take_queue(jobs({job("RUNNING", "7", "fedcba9876543210")}), asked);
    book_.take_accounting(jobs({}), {kToken}, asked, kAll);
  }
  EXPECT_TRUE(book_.find(kToken).known);
  EXPECT_EQ(book_.find(kToken).handle, std::nullopt);
  EXPECT_EQ(state(), runs::ProcessState::Gone);
  EXPECT_TRUE(book_.wanted().empty());
}

TEST_F(JobBookTest, IsNotLostWhileOneOfTheTwoIsSilent) {
  for (double asked = 100; asked <= 1000; asked += 10) book_.take_queue(jobs({}), asked);
  EXPECT_EQ(state(), runs::ProcessState::Unknown) << "slurmdbd does not answer";
  slurm::JobBook without(false);
  without.expect(kToken, "", 10);
  for (double asked = 100; asked <= 160; asked += 10) {
    EXPECT_EQ(without.report(kJob).state, runs::ProcessState::Unknown)
        << asked << ": not a minute yet";
    without.take_queue(jobs({}), asked);
  }
  EXPECT_EQ(without.report(kJob).state, runs::ProcessState::Gone)
      << "there is no accounting to ask";
  EXPECT_TRUE(without.wanted().empty());
}

// After a crash of slurmctld one id was given to two jobs.
slurm::Jobs broken(std::vector<slurm::JobRow> rows) { return {std::move(rows), 1, false}; }

// What a damaged answer leaves out may be there; what it shows is there.
TEST_F(JobBookTest, AnAnswerThatIsNotWholeSaysOnlyWhatItSays) {
  book_.take_queue(jobs({job("RUNNING")}), 11);
  for (double asked = 20; asked < 200; asked += 10) {
    book_.take_queue(broken({}), asked);
    EXPECT_EQ(state(), runs::ProcessState::Running) << asked;
    EXPECT_TRUE(book_.wanted().empty());
    EXPECT_TRUE(book_.find(kToken).handle);
  }
  book_.take_queue(broken({with_exit(job("COMPLETED"), 0, 0)}), 200);
  EXPECT_EQ(state(), runs::ProcessState::Ended);
}

TEST_F(JobBookTest, NoTokenIsLostForAnswersThatAreNotWhole) {
  for (double asked = 11; asked < 300; asked += 10) {
    book_.take_queue(broken({}), asked);
    book_.take_accounting(jobs({}), {kToken}, asked, kAll);
    EXPECT_FALSE(book_.find(kToken).known) << asked;
  }
  for (double asked = 300; asked < 600; asked += 10) {
    book_.take_queue(jobs({}), asked);
    book_.take_accounting(broken({}), {kToken}, asked, kAll);
  }
  EXPECT_TRUE(book_.find(kToken).known) << "accounting had answered before";
}

TEST_F(JobBookTest, NoTokenIsLostForAccountingThatIsNotWhole) {
  for (double asked = 11; asked < 300; asked += 10) {
    book_.take_queue(jobs({}), asked);
    book_.take_accounting(broken({}), {kToken}, asked, kAll);
    EXPECT_FALSE(book_.find(kToken).known) << asked;
  }
}

TEST_F(JobBookTest, AnIdWithoutTheTokenIsAnothersJob) {
  slurm::JobRow other = job("RUNNING");
  other.comment.reset();
  book_.take_queue(jobs({other}), 11);
  EXPECT_EQ(state(), runs::ProcessState::Unknown);
  book_.take_queue(jobs({job("RUNNING", "42", "fedcba9876543210")}), 12);
  EXPECT_EQ(state(), runs::ProcessState::Unknown);
}

TEST(TokenOf, IsReadWhereverItWasPut) {
  struct Row {
    const char* comment;
    const char* command;
    const char* submit_line;
    const char* name;
    bool ours;
  };
  const Row rows[] = {
      {"regatta:0123456789abcdef", "", "", "anything", true},
      {"words of the user's regatta:0123456789abcdef, and more", "", "", "", true},
      {"", "/runs/de mo-1/submit/0123456789abcdef.sh", "", "", true},
      {"other words", "/runs/demo-1/submit/0123456789abcdef.sh", "", "", true},
      {"", "", "sbatch --parsable --comment=regatta:0123456789abcdef --job-name=x y.sh", "", true},
      {"", "", "", "regatta-0123456789abcdef", true},
      {"", "", "", "my-regatta-0123456789abcdef", false},
      {"", "", "", "regatta-0123456789abcdef0", false},
      {"", "", "", "regatta:0123456789abcdef", false},
      {"regatta-sbatch:0123456789abcdef", "", "", "", false},
      {"my-regatta:0123456789abcdef", "", "", "", false},
      {"regatta:0123456789abcdef0", "", "", "", false},
      {"regatta:0123456789ABCDEF", "", "", "", false},
      {"regatta:0123", "", "", "", false},
      {"", "/runs/submit/0123456789abcdef.py", "", "", false},
      {"", "0123456789abcdef.sh", "", "", false},
      {"", "/runs/demo-1/submit/0123456789abcdef.sh --more", "", "", false},
  };
  for (const Row& row : rows) {
    slurm::JobRow job;
    job.comment = row.comment;
    job.command = row.command;
    job.submit_line = row.submit_line;
    job.name = row.name;
    EXPECT_EQ(slurm::token_of(job), row.ours ? std::optional(kToken) : std::nullopt)
        << row.comment << "|" << row.command << "|" << row.submit_line << "|" << row.name;
  }
  EXPECT_EQ(slurm::token_of(slurm::JobRow{}), std::nullopt);
  slurm::JobRow job;
  job.comment = "regatta:0123 regatta:fedcba9876543210";
  job.name = "regatta-" + kToken;
  EXPECT_EQ(slurm::token_of(job), "fedcba9876543210")
      << "a run may have a name that looks like one";
}

TEST_F(JobBookTest, ARenamedJobIsTheSame) {
  book_.take_queue(jobs({job("PENDING")}), 11);
  slurm::JobRow renamed = job("RUNNING");
  renamed.name = "mine";
  book_.take_queue(jobs({renamed}), 12);
  EXPECT_EQ(state(), runs::ProcessState::Running);
  EXPECT_EQ(book_.row(kToken)->name, "mine");
}

// What named the token was replaced: the job that was seen is the same while it is of that time.
TEST_F(JobBookTest, AJobThatLostItsCommentIsKnownByIdAndTime) {
  slurm::JobRow row = job("RUNNING");
  row.submit = 1000;
  row.user = "ada";
  book_.take_queue(jobs({row}), 11);
  row.comment = "other words";
  book_.take_queue(jobs({row}), 12);
  EXPECT_EQ(state(), runs::ProcessState::Running);
  slurm::JobRow later = row;
  later.submit = 2000;
  book_.take_queue(jobs({later}), 13);
  EXPECT_EQ(state(), runs::ProcessState::Unknown) << "the id was given away";
  slurm::JobRow anothers = row;
  anothers.user = "bob";
  book_.take_queue(jobs({anothers}), 14);
  EXPECT_EQ(state(), runs::ProcessState::Unknown);
  row.comment = batch::slurm_job_comment("fedcba9876543210");
  book_.take_queue(jobs({row}), 15);
  EXPECT_EQ(state(), runs::ProcessState::Unknown) << "it is another launch's";
  row.comment.reset();
  row.state = slurm::parse_job_state("FAILED");
  row.exit = slurm::ExitStatus{24, 0};
  book_.take_accounting(jobs({row}), {kToken}, 16, slurm::JobBook::Asked::ForIds);
  EXPECT_EQ(book_.report(kJob).exit_code, 24) << "accounting that keeps no comments";
}

TEST_F(JobBookTest, AccountingIsAskedByIdWhereOneIsKnown) {
  book_.take_queue(jobs({}), 11);
  EXPECT_EQ(book_.wanted(), std::vector<std::string>{kToken});
  EXPECT_EQ(book_.id_to_ask(kToken), "") << "nobody has told";
  book_.expect(kToken, "42", 12);
  EXPECT_EQ(book_.id_to_ask(kToken), "42");
  book_.take_accounting(jobs({with_exit(job("FAILED"), 22, 0)}), {kToken}, 13,
                        slurm::JobBook::Asked::ForIds);
  EXPECT_EQ(book_.report(kJob).exit_code, 22);
  EXPECT_TRUE(book_.wanted().empty());
}

// A job that has used up its time may have submitted another under the same token.
TEST_F(JobBookTest, ASuccessorIsLookedForBeforeAnEndCounts) {
  constexpr auto kById = slurm::JobBook::Asked::ForIds;
  book_.expect(kToken, "42", 10);
  book_.take_queue(jobs({}), 500);
  slurm::JobRow first = with_exit(job("FAILED"), 25, 0);
  first.start = 1000;
  book_.take_accounting(jobs({first}), {kToken}, 501, kById);
  EXPECT_EQ(state(), runs::ProcessState::Unknown);
  EXPECT_EQ(book_.wanted(), std::vector<std::string>{kToken});
  EXPECT_EQ(book_.id_to_ask(kToken), "") << "its id is not known";
  slurm::JobRow second = with_exit(job("FAILED", "43"), 25, 0);
  second.start = 2000;
  book_.take_accounting(jobs({first, second}), {kToken}, 502, kAll);
  EXPECT_EQ(state(), runs::ProcessState::Ended) << "there is none after it";
  EXPECT_EQ(book_.row(kToken)->id, "43");
}

TEST_F(JobBookTest, OfSeveralExecutionsTheNewestCounts) {
  book_.take_queue(jobs({}), 500);
  slurm::JobRow first = with_exit(job("FAILED"), 22, 0);
  first.start = 1000;
  slurm::JobRow second = with_exit(job("COMPLETED"), 0, 0);
  second.start = 2000;
  book_.take_accounting(jobs({second, first}), {kToken}, 501, kAll);
  EXPECT_EQ(book_.report(kJob).exit_code, 0);
}

// After a requeue at the end of its time, squeue may show the job and its successor.
TEST_F(JobBookTest, OfSeveralJobsInTheQueueTheNewestCounts) {
  slurm::JobRow ended = with_exit(job("COMPLETED", "42"), 23, 0);
  ended.start = 1000;
  slurm::JobRow successor = job("RUNNING", "57");
  successor.start = 2000;
  for (const std::vector<slurm::JobRow>& rows :
       {std::vector{ended, successor}, {successor, ended}}) {
    book_.take_queue(jobs(rows), 500);
    EXPECT_EQ(state(), runs::ProcessState::Running);
    EXPECT_EQ(book_.find(kToken).handle, (slurm::JobHandle{"57", kToken}.text()));
  }
}

TEST(JobHandles, AreReadBackOrRefused) {
  const auto handle = slurm::parse_job_handle(kJob.text());
  ASSERT_TRUE(handle.has_value());
  EXPECT_EQ(handle->id, "42");
  EXPECT_EQ(handle->token, kToken);
  for (const char* text :
       {"", "slurm:42", "slurm:0:0123456789abcdef", "slurm:42:0123", "slurm:x:0123456789abcdef",
        "12:34:boot", "slurm:42:0123456789abcdef:"}) {
    EXPECT_FALSE(slurm::parse_job_handle(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace regatta::orchestrator
