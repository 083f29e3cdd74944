// What the end of an attempt says of its nodes.
#include "orchestrator/control/node_judge.h"

#include <gtest/gtest.h>

#include "base/file_system.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using tests::TemporaryDirectory;

struct Judged {
  const char* name;
  std::optional<int> exit_code;
  double seconds;
  runs::Cause cause;
  std::optional<control::Hang> hang;
  std::vector<std::string> hosts;
  std::vector<std::string> nodes;  // blamed or praised
  slurm::Blame blame;
  double weight;
  friend void PrintTo(const Judged& each, std::ostream* out) { *out << each.name; }
};
class JudgeAttempt : public testing::TestWithParam<Judged> {};
TEST_P(JudgeAttempt, Names) {
  const Judged& row = GetParam();
  runs::Attempt attempt;
  attempt.exit_code = row.exit_code;
  attempt.last_seconds = row.seconds;
  attempt.start_utc = 1000;
  attempt.hosts = row.hosts;
  runs::Launch launch;
  launch.nodes = "n[1-4]";
  launch.cause = runs::name_of(row.cause);
  const auto events = control::judge_attempt("r-1", attempt, launch, row.hang);
  std::vector<std::string> nodes;
  for (const slurm::NodeEvent& event : events) {
    nodes.push_back(event.node);
    EXPECT_EQ(event.blame, row.blame);
    EXPECT_DOUBLE_EQ(event.weight, row.weight);
    EXPECT_DOUBLE_EQ(event.utc, 1000 + row.seconds);
    EXPECT_EQ(event.run, "r-1");
  }
  EXPECT_EQ(nodes, row.nodes);
}
const std::vector<std::string> kAll{"n1", "n2", "n3", "n4"};
INSTANTIATE_TEST_SUITE_P(
    Table, JudgeAttempt,
    testing::Values(
        Judged{"hung",
               22,
               50,
               runs::Cause::None,
               control::Hang{"n2", "silent"},
               kAll,
               {"n2"},
               slurm::Blame::Hung,
               1},
        Judged{"hung_by_its_whole_name",
               22,
               50,
               runs::Cause::None,
               control::Hang{"n2.cluster", "silent"},
               {},
               {"n2"},
               slurm::Blame::Hung,
               1},
        Judged{"hung_on_a_host_that_nobody_knows",
               22,
               50,
               runs::Cause::None,
               control::Hang{"x9", ""},
               kAll,
               {},
               slurm::Blame::Hung,
               1},
        Judged{"early_end_is_shared",
               22,
               50,
               runs::Cause::None,
               {},
               kAll,
               kAll,
               slurm::Blame::Shared,
               0.25},
        Judged{"shared_by_the_attempts_own",
               22,
               50,
               runs::Cause::None,
               {},
               {"n1", "n2", "n3"},
               {"n1", "n2", "n3"},
               slurm::Blame::Shared,
               1.0 / 3},
        Judged{"alone_it_is_no_proof",
               22,
               50,
               runs::Cause::None,
               {},
               {"n4"},
               {"n4"},
               slurm::Blame::Shared,
               0.5},
        Judged{"without_a_word",
               {},
               50,
               runs::Cause::NodeFailure,
               {},
               {},
               kAll,
               slurm::Blame::Shared,
               0.25},
        Judged{"preempted", {}, 50, runs::Cause::Preempted, {}, {}, {}, slurm::Blame::Shared, 0},
        Judged{"at_its_limit", {}, 50, runs::Cause::TimeLimit, {}, {}, {}, slurm::Blame::Shared, 0},
        Judged{"worked_long", 0, 600, runs::Cause::None, {}, {}, kAll, slurm::Blame::Worked, 1},
        Judged{"worked_until_its_limit",
               25,
               6000,
               runs::Cause::None,
               {},
               {},
               kAll,
               slurm::Blame::Worked,
               1},
        Judged{"worked_too_short_to_tell",
               0,
               599,
               runs::Cause::None,
               {},
               {},
               {},
               slurm::Blame::Worked,
               1},
        Judged{"bad_input", 20, 50, runs::Cause::None, {}, {}, {}, slurm::Blame::Shared, 0},
        Judged{"a_bug", 70, 50, runs::Cause::None, {}, {}, {}, slurm::Blame::Shared, 0}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(JudgeCorruption, NamesTheNodeOfTheLaunch) {
  runs::Launch launch;
  launch.nodes = "n[1-4]";
  const auto judged = [&](const std::string& host) {
    return control::judge_corruption("r-1", {2, host, "wrong gradients", 1234}, launch);
  };
  for (const char* host : {"n3", "n3.cluster.example"}) {
    const auto event = judged(host);
    ASSERT_TRUE(event) << host;
    EXPECT_EQ(event->node, "n3");
    EXPECT_EQ(event->blame, slurm::Blame::Corrupted);
    EXPECT_EQ(event->utc, 1234);
    EXPECT_EQ(event->run, "r-1");
    EXPECT_EQ(event->words, "wrong gradients");
    EXPECT_EQ(event->weight, 1);
  }
  EXPECT_FALSE(judged("n5"));
  EXPECT_FALSE(judged(""));
}

TEST(JudgeReport, BlamesWhomTheSchedulerNames) {
  runs::ProcessReport report;
  report.cause = runs::Cause::NodeFailure;
  report.suspects = {"n3"};
  report.words = "node n3 failed";
  const auto events = control::judge_report("r-1", report, 5);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].blame, slurm::Blame::NodeFailed);
  EXPECT_EQ(events[0].node, "n3");
}

TEST(ReadHang, IsNothingWhenDamaged) {
  TemporaryDirectory folder;
  base::FileSystem& files = base::posix_file_system();
  EXPECT_FALSE(control::read_hang(files, folder.path()));
  for (const char* text : {"", "{", "[]", R"({"host": 5})", "\xff\xfe"}) {
    tests::write_file(folder.path() / "hang.json", text);
    EXPECT_FALSE(control::read_hang(files, folder.path())) << text;
  }
}

}  // namespace
}  // namespace regatta::orchestrator
