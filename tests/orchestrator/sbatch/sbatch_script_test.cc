#include "orchestrator/sbatch/sbatch_script.h"

#include <gmock/gmock.h>

#include "tests/base/faulty_file_system.h"

namespace regatta::orchestrator {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> options_of(const sbatch::SbatchScript& script) {
  std::vector<std::string> out;
  for (const sbatch::GivenOption& option : script.options) {
    out.push_back(std::to_string(option.line) + " " + option.name + "=" + option.value);
  }
  return out;
}

std::vector<std::string> options_of(std::string_view text) {
  return options_of(sbatch::read_sbatch_script(text));
}

std::vector<std::string> findings_of(std::string_view text) {
  std::vector<std::string> out;
  for (const sbatch::SbatchFinding& finding : sbatch::read_sbatch_script(text).findings) {
    out.push_back(std::to_string(finding.line) + ": " + finding.text);
  }
  return out;
}

TEST(SbatchScript, OptionsStandBeforeTheFirstCommand) {
  const auto script = sbatch::read_sbatch_script(
      "#!/bin/bash\n\n# words\n#SBATCH -N 2 --partition=main\n##SBATCH --hold\n"
      "#SBATCH --comment='a b' -J \"c\\\"d\" # and why\n\nsrun hostname\n");
  EXPECT_THAT(options_of(script),
              ElementsAre("4 nodes=2", "4 partition=main", "6 comment=a b", "6 job-name=c\"d"));
  EXPECT_THAT(script.findings, IsEmpty());
  EXPECT_FALSE(script.heterogeneous);
}

TEST(SbatchScript, TellsOfLinesThatComeTooLate) {
  const char* const text =
      "#!/bin/bash\nset -euo pipefail\n#SBATCH --nodes=4\n#SBATCH is what begins a line\n";
  EXPECT_THAT(options_of(text), IsEmpty());
  EXPECT_THAT(findings_of(text), ElementsAre("3: sbatch ignores this line, since the first command "
                                             "stands before it (line 2); move it up"));
}

TEST(SbatchScript, TellsOfLinesThatAreNone) {
  for (const char* const line :
       {"# SBATCH -N 2", " #SBATCH -N 2", "#sbatch --nodes=2", "#\tSbatch -N2"}) {
    const std::string text = std::string("#!/bin/sh\n") + line + "\ntrue\n";
    EXPECT_THAT(options_of(text), IsEmpty()) << line;
    EXPECT_THAT(findings_of(text), ElementsAre(HasSubstr("for a comment"))) << line;
  }
  for (const char* const line :
       {"##SBATCH -N 2", "# sbatch reads these:", "#   sbatch -N 2 train.sh", "# SBATCH"}) {
    EXPECT_THAT(findings_of(std::string("#!/bin/sh\n") + line + "\n"), IsEmpty()) << line;
  }
}

TEST(SbatchScript, TellsWhatIsNotExpanded) {
  EXPECT_THAT(
      findings_of("#!/bin/sh\n#SBATCH --output=$HOME/%j.out -J a\n"),
      ElementsAre("2: sbatch expands nothing here: `$HOME/%j.out` is taken as it stands; give "
                  "--output on the command line, where your shell expands it"));
  EXPECT_THAT(findings_of("#!/bin/sh\n#SBATCH -D ~/runs\n"), ElementsAre(HasSubstr("`~/runs`")));
  EXPECT_THAT(findings_of("#!/bin/sh\n#SBATCH -D /a~b --comment=50%\n"), IsEmpty());
}

TEST(SbatchScript, TellsOfWordsThatAreNoOptions) {
  EXPECT_THAT(
      findings_of("#!/bin/sh\n#SBATCH nodes=2\n"),
      ElementsAre(
          "2: `nodes=2` is not an option, so sbatch refuses the script; options begin with -"));
}

TEST(SbatchScript, OptionsOfOtherJobsAreLeftOut) {
  const auto script =
      sbatch::read_sbatch_script("#!/bin/sh\n#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -N 2\n");
  EXPECT_TRUE(script.heterogeneous);
  EXPECT_THAT(options_of(script), ElementsAre("2 nodes=1"));
}

TEST(SbatchScript, SeesDirectivesOfOtherSystems) {
  EXPECT_TRUE(sbatch::read_sbatch_script("#!/bin/sh\n#PBS -o run.log\n").has_others);
  EXPECT_TRUE(sbatch::read_sbatch_script("#!/bin/sh\n#BSUB -q main\ntrue\n").has_others);
  EXPECT_FALSE(sbatch::read_sbatch_script("#!/bin/sh\ntrue\n#PBS -o run.log\n").has_others);
}

TEST(SbatchScript, SeesWhereTheTrainerRunsAsAStep) {
  const auto line = [](std::string_view text) {
    return sbatch::read_sbatch_script(text).trainer_line;
  };
  EXPECT_EQ(line("#!/bin/sh\nmodule load x\nsrun regatta-train run --directory d run.yaml\n"), 3);
  EXPECT_EQ(line("#!/bin/sh\nsrun --mpi=pmix \\\n  /opt/regatta-train run \\\n  run.yaml\n"), 2);
  EXPECT_EQ(line("#!/bin/sh\nregatta-train run run.yaml\n"), 0) << "a signal for steps misses it";
  EXPECT_EQ(line("#!/bin/sh\nsrun regatta-train prepare text\n"), 0);
  EXPECT_EQ(line("#!/bin/sh\nsrun regatta-train run --deadline-seconds 60 run.yaml\n"), 0);
  EXPECT_EQ(line("#!/bin/sh\n# srun regatta-train run run.yaml\n"), 0);
}

TEST(SbatchScript, HostileTextsAreQuotedHarmlessly) {
  const auto findings = findings_of("#!/bin/sh\n#SBATCH \x1b[31m" + std::string(500, 'x') + "\n");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].find('\x1b'), std::string::npos);
  EXPECT_LT(findings[0].size(), 200U);
  EXPECT_THAT(findings_of("#!/bin/sh\n#SBATCH --\x1b\x7f=$HOME\n"),
              ElementsAre(EndsWith("give --\\x1b\\x7f on the command line, where your shell "
                                   "expands it")));
  for (const char* const text :
       {"", "\n", "#SBATCH", "#SBATCH '", "#SBATCH \\", "#SBATCH --", "\\\n"}) {
    (void)sbatch::read_sbatch_script(text);
  }
}

TEST(SbatchFolders, ThatAreMissingAreTold) {
  const tests::TemporaryDirectory folder;
  const auto told = [&](std::vector<sbatch::GivenOption> options) {
    std::vector<std::string> out;
    for (const sbatch::SbatchFinding& finding :
         sbatch::sbatch_folder_findings(options, folder.path())) {
      out.push_back(std::to_string(finding.line) + ": " + finding.text);
    }
    return out;
  };
  const std::string missing = (folder.path() / "logs").string();
  EXPECT_THAT(
      told({{"output", "logs/%j.out", 3}}),
      ElementsAre("3: there is no folder " + missing +
                  " for the job's output, so the job would end at once and leave no log; make "
                  "it first (mkdir -p)"));
  EXPECT_THAT(told({{"error", missing + "/e", 0}}), ElementsAre(HasSubstr("the job's error")));
  EXPECT_THAT(told({{"output", "%j.out", 0}}), IsEmpty());
  EXPECT_THAT(told({{"output", "out", 0}, {"error", "/dev/null", 0}}), IsEmpty());
  EXPECT_THAT(told({{"output", "x-%j/logs/out", 0}}), IsEmpty()) << "a pattern may make any folder";
  std::filesystem::create_directory(folder.path() / "logs");
  EXPECT_THAT(told({{"output", "logs/%j.out", 3}}), IsEmpty());
  EXPECT_THAT(told({{"chdir", "logs", 2}, {"output", "logs/%j.out", 3}}),
              ElementsAre(HasSubstr("logs/logs")));
}

}  // namespace
}  // namespace regatta::orchestrator
