#include "orchestrator/slurm/job_book.h"

#include <gtest/gtest.h>

#include "orchestrator/slurm/batch_script.h"

namespace regatta::orchestrator {
namespace {

const std::string kToken = "0123456789abcdef";
const JobHandle kJob{"42", kToken};

JobRow job(const std::string& state, const std::string& id = "42",
           const std::string& token = kToken) {
  JobRow row;
  row.id = id;
  row.state = parse_job_state(state);
  row.name = slurm_job_name(token);
  return row;
}
JobRow with_exit(JobRow row, int code, int signal) {
  row.exit = ExitStatus{code, signal};
  return row;
}
Jobs jobs(std::vector<JobRow> rows) { return {std::move(rows), 0}; }

class JobBookTest : public testing::Test {
 protected:
  JobBookTest() { book_.expect(kToken, 10); }
  ProcessState state() const { return book_.report(kJob).state; }
  JobBook book_{true};
};

TEST_F(JobBookTest, KnowsNothingBeforeAnAnswer) {
  EXPECT_EQ(state(), ProcessState::Unknown);
  EXPECT_FALSE(book_.find(kToken).known);
  EXPECT_FALSE(book_.find("ffffffffffffffff").known);
  EXPECT_TRUE(book_.has_open());
  EXPECT_TRUE(book_.wanted().empty()) << "the queue first";
}

TEST_F(JobBookTest, FollowsTheQueue) {
  book_.take_queue(jobs({job("PENDING")}), 11);
  EXPECT_EQ(state(), ProcessState::Waiting);
  EXPECT_NE(book_.report(kJob).words.find("waits in Slurm"), std::string::npos);
  EXPECT_EQ(book_.find(kToken).handle, kJob.text());
  for (const char* running : {"RUNNING", "CONFIGURING", "SUSPENDED", "COMPLETING"}) {
    book_.take_queue(jobs({job(running)}), 12);
    EXPECT_EQ(state(), ProcessState::Running) << running;
  }
  book_.take_queue(jobs({with_exit(job("COMPLETED"), 0, 0)}), 13);
  EXPECT_EQ(state(), ProcessState::Ended);
  EXPECT_EQ(book_.report(kJob).exit_code, 0);
  EXPECT_FALSE(book_.has_open());
}

// An answer to a question that was asked before the submission says nothing about it.
TEST_F(JobBookTest, AnEarlierQuestionDoesNotCount) {
  book_.take_queue(jobs({}), 9);
  EXPECT_EQ(state(), ProcessState::Unknown);
  EXPECT_TRUE(book_.wanted().empty());
  for (double asked = 11; asked < 11 + 59; asked += 5) {
    book_.take_queue(jobs({}), asked);
    book_.take_accounting(jobs({}), {kToken}, asked);
    EXPECT_EQ(state(), ProcessState::Unknown) << asked;
  }
}

TEST_F(JobBookTest, WhatVanishedIsLookedUpInAccounting) {
  book_.take_queue(jobs({job("RUNNING")}), 11);
  book_.take_queue(jobs({}), 500);
  EXPECT_EQ(book_.wanted(), std::vector<std::string>{kToken});
  EXPECT_EQ(state(), ProcessState::Unknown) << "no verdict before accounting was asked";
  book_.take_accounting(jobs({job("RUNNING")}), {kToken}, 501);
  EXPECT_EQ(state(), ProcessState::Unknown) << "accounting lags";
  book_.take_accounting(jobs({with_exit(job("FAILED"), 24, 0)}), {kToken}, 505);
  EXPECT_EQ(state(), ProcessState::Ended);
  EXPECT_EQ(book_.report(kJob).exit_code, 24);
  EXPECT_TRUE(book_.wanted().empty());
}

TEST_F(JobBookTest, IsLostAfterAMinuteOfAnswers) {
  for (double asked = 100; asked <= 160; asked += 10) {
    EXPECT_FALSE(book_.find(kToken).known) << asked;
    book_.take_queue(jobs({job("RUNNING", "7", "fedcba9876543210")}), asked);
    book_.take_accounting(jobs({}), {kToken}, asked);
  }
  EXPECT_TRUE(book_.find(kToken).known);
  EXPECT_EQ(book_.find(kToken).handle, std::nullopt);
  EXPECT_EQ(state(), ProcessState::Gone);
  EXPECT_TRUE(book_.wanted().empty());
}

TEST_F(JobBookTest, IsNotLostWhileOneOfTheTwoIsSilent) {
  for (double asked = 100; asked <= 1000; asked += 10) book_.take_queue(jobs({}), asked);
  EXPECT_EQ(state(), ProcessState::Unknown) << "slurmdbd does not answer";
  JobBook without(false);
  without.expect(kToken, 10);
  for (double asked = 100; asked <= 160; asked += 10) without.take_queue(jobs({}), asked);
  EXPECT_EQ(without.report(kJob).state, ProcessState::Gone) << "there is no accounting to ask";
  EXPECT_TRUE(without.wanted().empty());
}

// After a crash of slurmctld one id was given to two jobs.
TEST_F(JobBookTest, AnIdWithoutTheTokenIsAnothersJob) {
  JobRow other = job("RUNNING");
  other.name = "simulation";
  book_.take_queue(jobs({other}), 11);
  EXPECT_EQ(state(), ProcessState::Unknown);
  other.name = slurm_job_name("fedcba9876543210");
  book_.take_queue(jobs({other}), 12);
  EXPECT_EQ(state(), ProcessState::Unknown);
}

TEST_F(JobBookTest, OfSeveralExecutionsTheNewestCounts) {
  book_.take_queue(jobs({}), 500);
  JobRow first = with_exit(job("FAILED"), 22, 0);
  first.start = 1000;
  JobRow second = with_exit(job("COMPLETED"), 0, 0);
  second.start = 2000;
  book_.take_accounting(jobs({second, first}), {kToken}, 501);
  EXPECT_EQ(book_.report(kJob).exit_code, 0);
}

TEST(JobHandles, AreReadBackOrRefused) {
  const auto handle = parse_job_handle(kJob.text());
  ASSERT_TRUE(handle.has_value());
  EXPECT_EQ(handle->id, "42");
  EXPECT_EQ(handle->token, kToken);
  for (const char* text :
       {"", "slurm:42", "slurm:0:0123456789abcdef", "slurm:42:0123", "slurm:x:0123456789abcdef",
        "12:34:boot", "slurm:42:0123456789abcdef:"}) {
    EXPECT_FALSE(parse_job_handle(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace regatta::orchestrator
