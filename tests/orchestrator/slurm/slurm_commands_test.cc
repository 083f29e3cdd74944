// Fake programs: small shell scripts in a temporary directory. The real Slurm is asked in the
// end-to-end tests.
#include "orchestrator/slurm/slurm_commands.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <tuple>

#include "base/text.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr double kLong = 60;  // for what answers at once, also on a busy machine

class SlurmCommandsTest : public testing::Test {
 protected:
  SlurmCommandsTest() {
    std::string name = testing::TempDir() + "slurm_commands_XXXXXX";
    folder_ = ::mkdtemp(name.data());
    environment_ = {{"PATH", "/usr/bin:/bin"}, {"LANG", "C"}};
  }
  ~SlurmCommandsTest() override { std::filesystem::remove_all(folder_); }

  // A program `name` with this body.
  void program(const std::string& name, const std::string& body) {
    const base::Path path = folder_ / name;
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    ::chmod(path.c_str(), 0755);
  }
  slurm::SlurmCommands commands(double seconds = kLong) const {
    const auto path = [&](const char* name) { return (folder_ / name).string(); };
    return slurm::SlurmCommands({path("sbatch"), path("squeue"), path("sacct"), path("scontrol"),
                                 path("scancel"), path("sinfo")},
                                {seconds, seconds}, environment_);
  }
  slurm::Submission submit(const std::string& body, double seconds = kLong) {
    program("sbatch", body);
    return commands(seconds).sbatch({"--nodes=2"}, folder_ / "job.sh");
  }
  std::string file(const std::string& name) const {
    std::ifstream stream(folder_ / name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  base::Path folder_;
  std::map<std::string, std::string> environment_;
};

std::string kind_of(const slurm::Submission& submission) {
  if (const auto* submitted = std::get_if<slurm::Submitted>(&submission))
    return "job " + submitted->id;
  return std::holds_alternative<slurm::Refused>(submission) ? "refused" : "ambiguous";
}

TEST_F(SlurmCommandsTest, SbatchTellsSubmittedRefusedAndAmbiguous) {
  struct Row {
    const char* body;
    const char* kind;
  };
  const std::string failed = "echo 'sbatch: error: Batch job submission failed: ";
  const std::pair<std::string, const char*> rows[] = {
      {"echo 17", "job 17"},
      {"echo '17;lab'", "job 17"},
      {"echo Welcome; echo 17", "job 17"},
      {"echo note >&2; echo 17", "job 17"},
      {"echo 'Submitted batch job 17'", "ambiguous"},
      {"echo", "ambiguous"},
      {"true", "ambiguous"},
      {"head -c 10000000 /dev/zero | tr '\\0' x", "ambiguous"},
      {"head -c 3000000 /dev/zero >&2; exit 1", "ambiguous"},
      {"kill -9 $$", "ambiguous"},
      {"echo 17; kill -9 $$", "ambiguous"},
      {"exit 1", "ambiguous"},
      {"echo 'Segmentation fault' >&2; exit 139", "ambiguous"},
      {"echo 17; exit 1", "ambiguous"},
      {failed + "Socket timed out on send/recv operation' >&2; exit 1", "ambiguous"},
      {failed + "Unable to contact slurm controller (connect failure)' >&2; exit 1", "ambiguous"},
      {failed + "Unable to contact slurm controller (receive failure)' >&2; exit 1", "ambiguous"},
      {failed + "Zero Bytes were transmitted or received' >&2; exit 1", "ambiguous"},
      {failed + "Protocol authentication error' >&2; exit 1", "ambiguous"},
      {failed + "Unspecified error' >&2; exit 1", "ambiguous"},
      {failed + "Invalid partition name specified' >&2; exit 1", "refused"},
      {failed + "Requested node configuration is not available' >&2; exit 1", "refused"},
      {failed + "Rate limit exceeded, please retry momentarily' >&2; exit 1", "refused"},
      {failed + "Something new in a later release' >&2; exit 1", "refused"},
      {"echo \"sbatch: unrecognized option '--segment'\" >&2; exit 1", "refused"},
      {"echo 'sbatch: error: Unable to open file /x' >&2; exit 1", "refused"},
      // It knows nobody to whom it could have sent anything.
      {"echo 'sbatch: error: fetch_config: DNS SRV lookup failed\nsbatch: fatal: Could not "
       "establish a configuration source' >&2; exit 1",
       "refused"},
      {"echo 'sbatch: error: resolve_ctls_from_dns_srv: Host name lookup failure' >&2; exit 1",
       "ambiguous"},
  };
  for (const auto& [body, kind] : rows) EXPECT_EQ(kind_of(submit(body)), kind) << body;
}

TEST_F(SlurmCommandsTest, AnSbatchThatHangsIsAmbiguousAndEnded) {
  // The deadline comes while the program and a child of its hang.
  const slurm::Submission submission = submit("echo 17; sleep 600 & sleep 600", 0.5);
  ASSERT_EQ(kind_of(submission), "ambiguous");
  EXPECT_THAT(std::get<slurm::Ambiguous>(submission).why, HasSubstr("did not answer in time"));
}

TEST_F(SlurmCommandsTest, AMissingSbatchIsRefused) {
  const slurm::Submission submission = commands().sbatch({}, folder_ / "job.sh");
  ASSERT_EQ(kind_of(submission), "refused");
  EXPECT_EQ(std::get<slurm::Refused>(submission).code, base::Code::Operator);
  EXPECT_THAT(std::get<slurm::Refused>(submission).reason, HasSubstr("cannot start"));
}

TEST_F(SlurmCommandsTest, ArgumentsArriveLiterally) {
  program("sbatch", "for a in \"$@\"; do printf '%s\\n' \"[$a]\"; done > '" +
                        (folder_ / "arguments").string() + "'; echo 5");
  const std::string hostile =
      "--comment=$(touch " + (folder_ / "hacked").string() + ") `x` \"'\\ ;&|*";
  EXPECT_EQ(kind_of(commands().sbatch({hostile, "--job-name=-x"}, folder_ / "a b.sh")), "job 5");
  EXPECT_EQ(file("arguments"), "[--parsable]\n[" + hostile + "]\n[--job-name=-x]\n[" +
                                   (folder_ / "a b.sh").string() + "]\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "hacked"));
  EXPECT_EQ(kind_of(commands().sbatch({std::string("a\0b", 3)}, folder_ / "x")), "refused");
  EXPECT_THROW((void)commands().sbatch({}, "relative.sh"), base::Error);
}

TEST_F(SlurmCommandsTest, OnlyTheAllowedEnvironmentIsSeen) {
  const std::map<std::string, std::string> whole = {
      {"PATH", "/usr/bin:/bin"}, {"HOME", "/h"},         {"USER", "ada"},
      {"SLURM_CONF", "/c"},      {"TZ", "Asia/Tokyo"},   {"SLURM_JWT", "secret"},
      {"SBATCH_PARTITION", "x"}, {"SQUEUE_FORMAT", "x"}, {"SLURM_TIME_FORMAT", "relative"},
      {"LD_PRELOAD", "/x"},      {"LANG", "de_DE"},      {"SACCT_FORMAT", "x"}};
  environment_ = slurm::slurm_environment(whole);
  ASSERT_EQ(::setenv("SQUEUE_STATES", "RUNNING", 1), 0);
  program("squeue", "env > '" + (folder_ / "seen").string() + "'");
  program("sbatch", "env > '" + (folder_ / "seen_by_sbatch").string() + "'; echo 5");
  EXPECT_TRUE(commands().squeue({.user = "ada"}).value);
  (void)commands().sbatch({}, folder_ / "job.sh");
  ::unsetenv("SQUEUE_STATES");
  const std::string seen = file("seen");
  EXPECT_THAT(seen, HasSubstr("SLURM_CONF=/c\n"));
  EXPECT_THAT(seen, HasSubstr("HOME=/h\n"));
  EXPECT_THAT(seen, HasSubstr("LANG=C\n"));
  EXPECT_THAT(seen, HasSubstr("TZ=UTC\n")) << "times of answers come without a zone";
  EXPECT_THAT(file("seen_by_sbatch"), HasSubstr("TZ=Asia/Tokyo\n"));
  for (const char* const name :
       {"SLURM_JWT", "SBATCH_", "SQUEUE_", "SACCT_", "LD_PRELOAD", "SLURM_TIME_FORMAT"}) {
    EXPECT_THAT(seen, Not(HasSubstr(name)));
  }
}

TEST_F(SlurmCommandsTest, HintsForRefusals) {
  const std::pair<const char*, const char*> rows[] = {
      {"Invalid partition name specified", "sinfo"},
      {"invalid partition specified: nope", "sinfo"},
      {"Invalid account or account/partition combination specified", "associations"},
      {"Invalid qos specification", "associations"},
      {"Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
       "fewer nodes"},
      {"Requested time limit is invalid (missing or exceeds some limit)", "lower the time limit"},
      {"Invalid --time specification", "D-HH:MM:SS"},
      {"Node count specification invalid", "as many nodes"},
      {"Requested node configuration is not available", "regatta nodes"},
      {"Invalid generic resource (gres) specification", "GPUs"},
      {"Access/permission denied", "operators"},
      {"User's group not permitted to use this partition", "sinfo"},
      {"Memory required by task is not available", "less memory"},
      {"System submissions disabled", "wait"},
      {"Requested account has breached requested QOS usage threshold", "usage decays"},
  };
  for (const auto& [text, part] : rows) {
    EXPECT_THAT(slurm::refusal_hint(text), HasSubstr(part)) << text;
    const slurm::Submission submission = slurm::submission_of(
        {{1, std::nullopt}, "", "sbatch: error: " + std::string(text) + "\n", false});
    ASSERT_EQ(kind_of(submission), "refused") << text;
    EXPECT_THAT(std::get<slurm::Refused>(submission).hint, HasSubstr(part));
    EXPECT_THAT(std::get<slurm::Refused>(submission).reason, HasSubstr(text));
  }
  EXPECT_EQ(slurm::refusal_hint("never heard of"), "");
}

// The words are those of 22.05; sbatch names the limit in the line before.
TEST_F(SlurmCommandsTest, ALimitOnSubmittedJobsPasses) {
  const std::string refusal =
      "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit "
      "limit, user's size and/or time limits)\n";
  const auto asked = [&](const std::string& limit) {
    return std::get<slurm::Refused>(slurm::submission_of(
        {{1, std::nullopt}, "", "sbatch: error: " + limit + "\n" + refusal, false},
        {"--account=submitjob", "--qos=a"}));
  };
  for (const std::string limit :
       {"AssocMaxSubmitJobLimit", "AssocGrpSubmitJobsLimit", "QOSMaxSubmitJobPerUserLimit",
        "QOSGrpSubmitJobsLimit", "MaxSubmitJobsPerAccount"}) {
    const slurm::Refused refused = asked(limit);
    EXPECT_EQ(refused.code, base::Code::Retry) << limit;
    EXPECT_THAT(refused.hint, HasSubstr("wait"));
    EXPECT_THAT(refused.reason,
                HasSubstr("sbatch: error: " + limit + "; sbatch: error: Batch job"));
  }
  for (const std::string limit : {"QOSMaxWallDurationPerJobLimit", "QOSMaxNodePerUserLimit",
                                  "invalid account specified: submitjob", ""}) {
    const slurm::Refused refused = asked(limit);
    EXPECT_EQ(refused.code, base::Code::User) << limit;
    EXPECT_THAT(refused.reason, HasSubstr(limit));
  }
}

// sbatch repeats what it refuses: a name that reads like a lost connection is still refused.
TEST_F(SlurmCommandsTest, WhatSbatchRepeatsIsNotItsAnswer) {
  const std::tuple<const char*, const char*, const char*> rows[] = {
      {"--partition=munge", "sbatch: error: invalid partition specified: munge\n", "refused"},
      {"--unable=connection refused", "sbatch: unrecognized option '--unable=connection refused'\n",
       "refused"},
      {"--begin=try again", "try again\nsbatch: error: Invalid --begin specification\n", "refused"},
      {"--partition=main", "sbatch: error: Unable to contact slurm controller\n", "ambiguous"},
      {"--partition=munge", "sbatch: error: Munge encode failed: no socket\n", "ambiguous"},
  };
  for (const auto& [argument, errors, kind] : rows) {
    const slurm::Submission submission =
        slurm::submission_of({{1, std::nullopt}, "", errors, false}, {argument});
    EXPECT_EQ(kind_of(submission), kind) << argument << ": " << errors;
    const auto* const refused = std::get_if<slurm::Refused>(&submission);
    if (refused == nullptr) continue;
    EXPECT_EQ(refused->code, base::Code::User) << errors;
    EXPECT_THAT(refused->reason, HasSubstr("sbatch: ")) << "nothing is left out of the message";
  }
}

TEST_F(SlurmCommandsTest, FailuresHaveAKindAndOneLine) {
  const auto failed = [](const std::string& errors) {
    return slurm::failure_of("squeue", {{1, std::nullopt}, "", errors, false});
  };
  EXPECT_EQ(
      failed("slurm_load_jobs error: Unable to contact slurm controller (connect failure)").kind,
      slurm::FailureKind::Unreachable);
  EXPECT_EQ(failed("slurm_load_jobs error: Socket timed out on send/recv operation").kind,
            slurm::FailureKind::Unreachable);
  EXPECT_EQ(failed("error: Rate limit exceeded, please retry momentarily").kind,
            slurm::FailureKind::RateLimited);
  EXPECT_EQ(failed("slurm_load_jobs error: Invalid job id specified").kind,
            slurm::FailureKind::NotFound);
  EXPECT_EQ(failed("Slurm accounting storage is disabled").kind, slurm::FailureKind::Disabled);
  EXPECT_EQ(failed("squeue: error: Invalid user: nobody").kind, slurm::FailureKind::Refused);
  EXPECT_EQ(slurm::failure_of("squeue", {{std::nullopt, 11}, "", "", false}).kind,
            slurm::FailureKind::Unreachable);
  EXPECT_EQ(slurm::failure_of("squeue", {{std::nullopt, 9}, "", "", true}).kind,
            slurm::FailureKind::Deadline);
  const std::string message =
      failed("note\nsqueue: error: \x1b[31mbad\x07 " + std::string(100000, 'x') + "\nbye\n")
          .message;
  EXPECT_THAT(message, StartsWith("squeue ended with code 1: squeue: error: \\x1b[31mbad\\x07 x"));
  EXPECT_LT(message.size(), 700u);
  EXPECT_EQ(base::printable(message), message);
  EXPECT_THAT(failed("squeue: unrecognized option '--x'\nTry \"squeue --help\"\n").message,
              HasSubstr("unrecognized option"));
}

TEST_F(SlurmCommandsTest, SqueueIsAskedWithAnUnknownSeparator) {
  // Prints a row as squeue would, by the format that it was given.
  program("squeue", R"sh(for a in "$@"; do case "$a" in --format=*) f=${a#--format=};; esac; done
printf '%s\n' "$f" >> ')sh" +
                        (folder_ / "formats").string() + R"sh('
printf '%s\n' "$f" | sed 's/%A/17/g; s/%T/RUNNING/; s/%j/regatta-1/; s/%[a-zA-Z]//g')sh");
  for (int i = 0; i < 2; ++i) {
    const slurm::Answer<slurm::Jobs> jobs = commands().squeue({.user = "ada"});
    ASSERT_TRUE(jobs.value) << jobs.failure->message;
    ASSERT_EQ(jobs.value->rows.size(), 1u);
    EXPECT_EQ(jobs.value->rows[0].id, "17");
    EXPECT_EQ(jobs.value->rows[0].name, "regatta-1");
    EXPECT_EQ(jobs.value->damaged, 0u);
    EXPECT_GT(jobs.seconds, 0);
  }
  const auto formats = base::split(file("formats"), '\n');
  EXPECT_NE(formats[0], formats[1]) << "a new separator for every call";
}

TEST_F(SlurmCommandsTest, QueriesThatFail) {
  program("squeue", "sleep 600");
  EXPECT_EQ(commands(0.3).squeue({.user = "a"}).failure->kind, slurm::FailureKind::Deadline);
  program("squeue", "head -c 10000000 /dev/zero | tr '\\0' '\\n'; exit 0");
  EXPECT_TRUE(commands().squeue({.user = "a"}).value->rows.empty());
  program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
  EXPECT_EQ(commands().sacct({.user = "a"}, 0, {22, 5, 8}).failure->kind,
            slurm::FailureKind::Disabled);
  program("sacct", R"sh(case "$*" in *FailedNode*)
echo 'sacct: error: Invalid field requested: "FailedNode"' >&2; exit 1;; esac)sh");
  EXPECT_TRUE(commands().sacct({.user = "a"}, 0, {25, 5, 0}).value) << "asked again without it";
  EXPECT_EQ(commands().sinfo().failure->kind, slurm::FailureKind::Missing);
  program("scontrol", "echo JobId=6 JobName=a JobState=RUNNING");
  EXPECT_EQ(commands().show_job("6").value->state.base, slurm::JobBase::Running);
  EXPECT_EQ(commands().show_job("7").failure->kind, slurm::FailureKind::Incomplete)
      << "another's row";
  EXPECT_THROW((void)commands().show_job("6; reboot"), base::Error);
  program("scontrol", "echo 'ClusterName = lab'");
  EXPECT_EQ(commands().show_config().value->cluster_name, "lab");
}

// A row as squeue prints it, for a shell; $f is the format that was asked for.
const std::string kRow =
    R"sh(for a in "$@"; do case "$a" in --format=*) f=${a#--format=};; esac; done
row() { printf '%s' "$f" | sed "s/%A/$1/g; s/%T/RUNNING/; s/%j/$2/; s/%[a-zA-Z]//g"; }
)sh";

TEST_F(SlurmCommandsTest, AnAnswerOfJobsIsWholeOrSaysThatItIsNot) {
  struct Row {
    const char* name;
    std::string body;
    bool whole;
    std::size_t rows;
  };
  const std::string good = "row 17 a; echo; ";
  const Row rows[] = {
      {"nothing", "true", true, 0},
      {"a row", good, true, 1},
      {"no line's end", "row 17 a", false, 1},
      {"a torn last row", good + "row 18 b | head -c 40", false, 1},
      {"too few fields", good + "echo 18$s RUNNING", false, 1},
      {"garbage", good + "echo garbage", false, 1},
      {"garbage before", "echo garbage; " + good, false, 1},
      {"a huge line", good + "head -c 20000000 /dev/zero | tr '\\0' x; echo", false, 1},
      {"more than is kept", good + "head -c 70000000 /dev/zero | tr '\\0' '\\n'", false, 1},
      {"no answer, and success",
       "echo 'slurm_load_jobs error: Unable to contact slurm controller "
       "(connect failure)' >&2",
       false, 0},
      {"20 MB of other jobs",
       "l=$(row 16 $(head -c 500 /dev/zero | tr '\\0' x)); yes \"$l\" | head -n 30000; " + good,
       true, 30001},
  };
  for (const Row& row : rows) {
    for (const char* const name : {"squeue", "sacct"}) {
      if (name == std::string("sacct") && row.rows > 0) continue;  // its row looks otherwise
      program(name, kRow + row.body);
      const slurm::Answer<slurm::Jobs> answer = name == std::string("sacct")
                                                    ? commands().sacct({.user = "a"}, 0, {22, 5, 8})
                                                    : commands().squeue({.user = "a"});
      ASSERT_TRUE(answer.value) << row.name << ": " << answer.failure->message;
      EXPECT_EQ(answer.value->whole, row.whole) << name << ": " << row.name;
      EXPECT_EQ(answer.value->rows.size(), row.rows) << name << ": " << row.name;
    }
  }
  for (const char* const end : {"exit 1", "kill -9 $$"}) {
    program("squeue", kRow + good + end);
    EXPECT_FALSE(commands().squeue({.user = "a"}).value) << end;
  }
}

TEST_F(SlurmCommandsTest, OtherAnswersComeToTheirEndOrAreNone) {
  const std::string job = "JobId=6 JobName=a JobState=RUNNING";
  program("scontrol", "printf '%s' '" + job + "'");
  EXPECT_EQ(commands().show_job("6").failure->kind, slurm::FailureKind::Incomplete);
  program("scontrol", "echo '" + job + "'");
  EXPECT_TRUE(commands().show_job("6").value);
  program("scontrol", "echo NodeName=a State=IDLE; printf 'NodeName=b Sta'");
  EXPECT_EQ(commands().show_nodes().failure->kind, slurm::FailureKind::Incomplete);
  program("scontrol", "echo ClusterName = lab; printf 'MinJobA'");
  EXPECT_EQ(commands().show_config().failure->kind, slurm::FailureKind::Incomplete);
  program("scancel", "printf 'whatever a site has to say'");
  EXPECT_TRUE(commands().cancel("6", "a").value);
}

TEST_F(SlurmCommandsTest, AreGivenUpWhenNobodyWaitsAnyMore) {
  for (const char* const name : {"sbatch", "squeue", "scancel"}) program(name, "sleep 600");
  std::stop_source stop;
  stop.request_stop();
  const slurm::SlurmCommands given_up = commands().until(stop.get_token());
  EXPECT_EQ(given_up.squeue({.user = "a"}).failure->kind, slurm::FailureKind::Stopped);
  EXPECT_EQ(given_up.cancel("6", "a").failure->kind, slurm::FailureKind::Stopped);
  EXPECT_EQ(kind_of(given_up.sbatch({}, folder_ / "job.sh")), "ambiguous");
}

TEST_F(SlurmCommandsTest, CancelsOnlyTheJobThatHasTheName) {
  program("scancel", "echo \"$@\" > '" + (folder_ / "arguments").string() + "'");
  EXPECT_TRUE(commands().cancel("17", "regatta-0123").value);
  EXPECT_EQ(file("arguments"), "--name=regatta-0123 17\n");
  EXPECT_TRUE(commands().cancel("17", "regatta-0123", "USR2").value);
  EXPECT_EQ(file("arguments"), "--name=regatta-0123 --signal=USR2 17\n");
  EXPECT_TRUE(commands().cancel("17", "").value) << "somebody took its name away";
  EXPECT_EQ(file("arguments"), "17\n");
  EXPECT_THROW((void)commands().cancel("-1", "n"), base::Error);
  program("scancel",
          "echo 'scancel: error: Kill job error on job id 17: Invalid job id specified' >&2; "
          "exit 1");
  EXPECT_EQ(commands().cancel("17", "n").failure->kind, slurm::FailureKind::NotFound);
  program("scontrol", "echo \"$@\" > '" + (folder_ / "arguments").string() + "'");
  EXPECT_TRUE(commands().requeue("17").value);
  EXPECT_EQ(file("arguments"), "requeue 17\n");
  EXPECT_TRUE(commands().release("17").value);
  EXPECT_EQ(file("arguments"), "release 17\n");
}

TEST_F(SlurmCommandsTest, TheVersionIsThatOfAllPrograms) {
  EXPECT_EQ(commands().version().failure->kind, slurm::FailureKind::Missing);
  for (const char* const name : {"sbatch", "squeue", "scontrol"}) {
    program(name, "echo slurm-wlm 22.05.8");
  }
  EXPECT_EQ(commands().version().failure->kind, slurm::FailureKind::Missing);
  EXPECT_THAT(commands().version().failure->message, HasSubstr("scancel"));
  program("scancel", "echo slurm-wlm 22.05.8");
  EXPECT_EQ(slurm::to_string(*commands().version().value), "22.05.8");
  program("sbatch", "echo something else");
  EXPECT_THAT(commands().version().failure->message, HasSubstr("something else"));
}

// As 22.05.8 says it.
TEST_F(SlurmCommandsTest, ToldIsWhetherSlurmIsAwayOrNotSetUp) {
  const auto kind_of = [&](const std::string& why) {
    program("scontrol",
            "echo 'scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: " + why +
                "\nscontrol: error: fetch_config: DNS SRV lookup failed\nscontrol: error: "
                "_establish_config_source: failed to fetch config\nscontrol: fatal: Could not "
                "establish a configuration source' >&2; exit 1");
    return commands().show_config().failure->kind;
  };
  EXPECT_EQ(kind_of("Unknown host"), slurm::FailureKind::Unconfigured);
  EXPECT_EQ(kind_of("No address associated with name"), slurm::FailureKind::Unconfigured);
  EXPECT_EQ(kind_of("Host name lookup failure"), slurm::FailureKind::Unreachable);
  program("scontrol",
          "echo 'slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)' "
          ">&2; exit 1");
  EXPECT_EQ(commands().show_config().failure->kind, slurm::FailureKind::Unreachable);
}

TEST(SlurmEnvironment, WhatItLeavesOutForSbatchIsNamed) {
  const std::map<std::string, std::string> whole{{"SBATCH_PARTITION", "gpu"},
                                                 {"SBATCH_ACCOUNT", ""},
                                                 {"SLURM_CONF", "/c"},
                                                 {"MY_SBATCH_X", "1"}};
  EXPECT_THAT(slurm::ignored_variables(whole),
              testing::ElementsAre("SBATCH_ACCOUNT", "SBATCH_PARTITION"));
  for (const auto& [name, value] : slurm::slurm_environment(whole))
    EXPECT_NE(name.rfind("SBATCH_", 0), 0U);
}

}  // namespace
}  // namespace regatta::orchestrator
