// A rank that is held back for long, by stopping its process for moments: the run's journal says
// which.
#include "tests/trainer/run/run_process.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

class StragglerProcess : public RunProcess {};

TEST_F(StragglerProcess, IsNamed) {
  const base::Path run = make_run("held", on_ranks(2, 1000000));
  const pid_t process = start(run);
  ASSERT_TRUE(wait_for_step(run, process, 1)) << log_of(run);
  const pid_t held = processes_of(run, 2)[1];
  ASSERT_GT(held, 0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(kDeadline);
  std::vector<contract::WarningRecord> warnings;
  while (warnings.empty() && std::chrono::steady_clock::now() < deadline) {
    for (int i = 0; i < 20; ++i) {  // half of the time
      ::kill(held, SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ::kill(held, SIGCONT);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    warnings = records_of<contract::WarningRecord>(run);
  }
  ::kill(static_cast<pid_t>(records_of<contract::StartRecord>(run).back().process), SIGTERM);
  EXPECT_EQ(finish(process), static_cast<int>(contract::ExitCode::Stopped)) << log_of(run);
  ASSERT_FALSE(warnings.empty()) << log_of(run);
  EXPECT_EQ(warnings[0].message.rfind("rank 1 (", 0), 0U) << warnings[0].message;
  EXPECT_NE(warnings[0].message.find("is a straggler"), std::string::npos);
  EXPECT_NE(log_of(run).find("is a straggler"), std::string::npos);
}

}  // namespace
}  // namespace regatta::tests
