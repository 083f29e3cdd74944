// The real regatta-train fine-tuning: killed, and given a dataset of another task.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "base/process.h"
#include "tests/trainer/run/run_process.h"
#include "tests/trainer/run/task_fixture.h"
#include "trainer/contract/journal.h"
#include "trainer/contract/model_shape.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;

class TaskProcess : public RunProcess {
 protected:
  void SetUp() override {
    for (const Task task : {Task::QuestionAnswering, Task::Classification}) {
      (void)make_task_fixture(directory_.path() / contract::name_of(task), task);
    }
  }
  base::Path dataset_for(Task task) {
    return directory_.path() / contract::name_of(task) / "dataset";
  }
};

TEST_F(TaskProcess, KilledAfterACheckpointEndsWithTheSameBits) {
  for (const Task task : {Task::QuestionAnswering, Task::Classification}) {
    const std::string name = contract::name_of(task);
    SCOPED_TRACE(name);
    const std::string text = task_run_file(task, dataset_for(task), 200);
    const base::Path undisturbed = make_run("undisturbed-" + name, text);
    ASSERT_EQ(run_to_end(undisturbed), 0) << log_of(undisturbed);
    const base::Path killed = make_run("killed-" + name, text);
    for (const int step : {13, 57}) {  // checkpoints are after every tenth
      const pid_t process = start(killed);
      EXPECT_TRUE(wait_for_step(killed, process, step)) << log_of(killed);
      ::kill(process, SIGKILL);
      (void)base::wait_exit(process);
    }
    ASSERT_EQ(run_to_end(killed), 0) << log_of(killed);
    EXPECT_GT(records_of<contract::StartRecord>(killed).back().first_step, 0);
    EXPECT_TRUE(final_weights(killed) == final_weights(undisturbed));
  }
}

TEST_F(TaskProcess, RefusesADatasetOfAnotherTaskInOneLine) {
  const base::Path run = make_run(
      "refused", with(task_run_file(Task::Classification, dataset_for(Task::Classification), 5),
                      "task: classification", "task: regression"));
  EXPECT_EQ(run_to_end(run), static_cast<int>(contract::ExitCode::User)) << log_of(run);
  const std::string log = log_of(run);
  const std::string message = "is a dataset for task classification, and the run's task is";
  const std::size_t at = log.find(message);
  ASSERT_NE(at, std::string::npos) << log;
  const std::string line = log.substr(at, log.find('\n', at) - at);
  EXPECT_NE(line.find("regression; set task to it, or name another dataset"), std::string::npos)
      << log;
}

}  // namespace
}  // namespace regatta::tests
