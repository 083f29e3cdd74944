#include "orchestrator/sbatch/sbatch_options.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"
#include "tests/base/faulty_file_system.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

bool ends_in_sh(const std::string& word) { return word.ends_with(".sh"); }

// "nodes=2", and "+script.sh" for the script.
std::vector<std::string> told(const std::vector<std::string>& arguments) {
  const sbatch::SbatchCommand command = sbatch::parse_sbatch_command(arguments, ends_in_sh);
  std::vector<std::string> out;
  for (const sbatch::GivenOption& option : command.options)
    out.push_back(option.name + "=" + option.value);
  if (command.heterogeneous) out.emplace_back(":");
  if (command.script) out.push_back("+" + *command.script);
  return out;
}

TEST(SbatchOptions, AreReadAsGetoptReadsThem) {
  EXPECT_THAT(told({}), IsEmpty());
  EXPECT_THAT(told({"job.sh"}), ElementsAre("+job.sh"));
  EXPECT_THAT(told({"-N2", "-n", "8", "job.sh"}), ElementsAre("nodes=2", "ntasks=8", "+job.sh"));
  EXPECT_THAT(told({"--nodes=2", "--ntasks", "8"}), ElementsAre("nodes=2", "ntasks=8"));
  EXPECT_THAT(told({"-HQ", "-Wp", "main", "x"}),
              ElementsAre("hold=", "quiet=", "wait=", "partition=main", "+x"));
  EXPECT_THAT(told({"--wrap", "srun -N2 hostname"}), ElementsAre("wrap=srun -N2 hostname"));
  EXPECT_THAT(told({"--exclusive", "job"}), ElementsAre("exclusive=", "+job"));
  EXPECT_THAT(told({"--exclusive=user", "job"}), ElementsAre("exclusive=user", "+job"));
  EXPECT_THAT(told({"-k", "job"}), ElementsAre("no-kill=", "+job"));
  EXPECT_THAT(told({"--comment=", "job"}), ElementsAre("comment=", "+job"));
  EXPECT_THAT(told({"--", "-job"}), ElementsAre("+-job"));
}

TEST(SbatchOptions, OurOwnAreReadBeforeTheScriptOnly) {
  const auto own = [](const std::vector<std::string>& arguments) {
    return sbatch::parse_sbatch_command(arguments, ends_in_sh).own_words;
  };
  EXPECT_THAT(told({"--freeze", "job.sh"}), ElementsAre("freeze=", "+job.sh"));
  EXPECT_THAT(told({"--freeze", "job", "--freeze=v1"}), ElementsAre("freeze=", "+job"));
  EXPECT_THAT(told({"--freeze=v1", "--freeze-limit=5G"}),
              ElementsAre("freeze=v1", "freeze-limit=5G"));
  EXPECT_THAT(
      own({"-N", "2", "--freeze", "-J", "--freeze", "--freeze-limit=1G", "job.sh", "--freeze"}),
      ElementsAre(2u, 5u))
      << "that of -J is a name, and the last one the script's";
  EXPECT_THAT(own({"--", "--freeze"}), IsEmpty());
  EXPECT_EQ(sbatch::parse_sbatch_command({"-N", "2", "job.sh", "x"}, ends_in_sh).script_at, 2u);
  EXPECT_EQ(sbatch::parse_sbatch_command({"--", "job.sh", "x"}, ends_in_sh).script_at, 1u);
  EXPECT_EQ(sbatch::parse_sbatch_command({"--wrap=x"}, ends_in_sh).script_at, 1u);
}

TEST(SbatchOptions, WhatFollowsTheScriptIsTheScripts) {
  EXPECT_THAT(told({"job", "--nodes=2", "-p", "main"}), ElementsAre("+job"));
}

TEST(SbatchOptions, BeginningsOfNamesCountWhereOnlyOneNameHasThem) {
  EXPECT_THAT(told({"--parti=main"}), ElementsAre("partition=main"));
  EXPECT_THAT(told({"--node=2"}), ElementsAre("node=2")) << "nodes, nodefile or nodelist";
  EXPECT_THAT(told({"--nodes=2"}), ElementsAre("nodes=2"));
  EXPECT_THAT(told({"--comm", "text", "job"}), ElementsAre("comment=text", "+job"));
}

TEST(SbatchOptions, UnknownOnesTakeAValueThatIsNoScript) {
  EXPECT_THAT(told({"--container-image", "a/b", "job.sh"}),
              ElementsAre("container-image=a/b", "+job.sh"));
  EXPECT_THAT(told({"--container-image=a/b", "job.sh"}),
              ElementsAre("container-image=a/b", "+job.sh"));
  EXPECT_THAT(told({"--site-flag", "job.sh"}), ElementsAre("site-flag=", "+job.sh"));
  EXPECT_THAT(told({"--site-flag", "-N2", "job.sh"}),
              ElementsAre("site-flag=", "nodes=2", "+job.sh"));
}

TEST(SbatchOptions, OfSeveralJobsTheFirstOnesCount) {
  EXPECT_THAT(told({"-N1", ":", "-N2", "job.sh", "a.sh"}), ElementsAre("nodes=1", ":", "+job.sh"));
}

TEST(SbatchOptions, TheLastOneOfAName) {
  const sbatch::SbatchCommand command =
      sbatch::parse_sbatch_command({"-N1", "--nodes=3"}, ends_in_sh);
  ASSERT_NE(sbatch::find_option(command.options, "nodes"), nullptr);
  EXPECT_EQ(sbatch::find_option(command.options, "nodes")->value, "3");
  EXPECT_EQ(sbatch::find_option(command.options, "ntasks"), nullptr);
}

TEST(SbatchOptions, WhateverTheWordsNothingIsLost) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"-"}, {""}, {"--"}, {"-N"}, {"--nodes"}, {"--="}, {":"}, {"-\xff"}}) {
    (void)sbatch::parse_sbatch_command(words, ends_in_sh);
  }
  EXPECT_THAT(told({"-", "x"}), ElementsAre("+-"));
  EXPECT_THAT(told({"-N"}), ElementsAre("nodes="));
}

// The words of `sbatch --help` that begin an option's line: "-N, --nodes=N", "--nice[=value]". It
// leaves out that some values may or must be given.
TEST(SbatchOptions, AreThoseOfTheInstalledSbatch) {
  const tests::TemporaryDirectory folder;
  const base::Path conf = folder.path() / "slurm.conf";
  base::replace_file(base::posix_file_system(), conf,
                     "ClusterName=none\nSlurmctldHost=localhost\nNodeName=localhost\n");
  base::Command command;
  command.arguments = {"sbatch", "--help"};
  command.environment["SLURM_CONF"] = conf.string();
  base::Output output;
  try {
    output = base::run(command, 120);
  } catch (const base::Error&) {
    GTEST_SKIP() << "sbatch is not installed";
  }
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  int checked = 0;
  for (const std::string& line : base::split(output.text, '\n')) {
    const std::size_t dashes = line.find("--");
    const std::size_t first = line.find_first_not_of(' ');
    if (dashes > 6 || line[first] != '-') continue;
    const std::size_t end = line.find_first_of(" =[", dashes);
    const std::string name = line.substr(dashes + 2, end - dashes - 2);
    const auto all = sbatch::sbatch_options();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const auto& option) { return option.name == name; });
    ASSERT_NE(found, all.end()) << line;
    if (end != std::string::npos && line[end] == '=') {
      EXPECT_EQ(found->argument, sbatch::Argument::Required) << line;
    }
    if (first < dashes) {
      EXPECT_EQ(found->letter, line[first + 1]) << line;
    }
    ++checked;
  }
  EXPECT_GT(checked, 80) << output.text;
}

}  // namespace
}  // namespace regatta::orchestrator
