// A run directory, and a run file that is another than the one it was made of.
#include <fstream>

#include "tests/trainer/run/run_process.h"
#include "trainer/contract/exit_code.h"
#include "trainer/contract/journal.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

// Steps and target are none of what a run is.
TEST_F(RunProcess, ARunFileOfMoreStepsLetsARunGoOn) {
  const std::string text = run_file(*dataset_, 5);
  const base::Path run = make_run("extended", text);
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  std::ofstream(run.string() + ".yaml") << with(text, "steps: 5", "steps: 12");
  ASSERT_EQ(run_to_end(run), 0) << log_of(run);
  EXPECT_NE(log_of(run).find("steps is 5 there and 12 here"), std::string::npos) << log_of(run);
  const auto starts = records_of<contract::StartRecord>(run);
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[1].first_step, 5);
  EXPECT_EQ(records_of<contract::StepRecord>(run).back().step, 12);
  EXPECT_EQ(resume_to_end(run), 0) << "its run.json is the new one";
  EXPECT_EQ(records_of<contract::StartRecord>(run).back().steps, 12);
  // A controller has its own account of what it keeps there.
  std::ofstream(run / "submission.json") << "{}";
  std::ofstream(run.string() + ".yaml") << with(text, "steps: 5", "steps: 20");
  EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::User));
  EXPECT_NE(log_of(run).find("use `regatta extend` or `regatta change`"), std::string::npos);
  EXPECT_EQ(records_of<contract::StartRecord>(run).back().steps, 12);
}

TEST_F(RunProcess, AFileThatNothingWasTrainedByMayBeCorrected) {
  const std::string text = run_file(*dataset_, 5);
  const base::Path run = make_run("corrected", text + "from: /none/model\n");
  EXPECT_NE(run_to_end(run), 0);
  EXPECT_NE(log_of(run).find("/none/model"), std::string::npos) << log_of(run);
  std::ofstream(run.string() + ".yaml") << text;
  EXPECT_EQ(run_to_end(run), 0) << log_of(run);
  EXPECT_NE(log_of(run).find("begins anew"), std::string::npos) << log_of(run);
  EXPECT_EQ(records_of<contract::StepRecord>(run).size(), 5U);
  std::ofstream(run.string() + ".yaml") << with(text, "learning_rate: 0.003", "learning_rate: 0.1");
  EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::User)) << "it has trained";
}

}  // namespace
}  // namespace regatta::tests
