// `regatta serve --scheduler auto` beside fake Slurm commands, in each state that Slurm can be in.
#include "orchestrator/control/scheduler_choice.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/error.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using Kind = control::SchedulerChoice::Kind;

struct Surroundings {
  const char* name;
  bool programs;
  const char* scontrol;  // what `scontrol show config` does
};
const Surroundings kMissing{"missing", false, ""};
const Surroundings kUnconfigured{"unconfigured", true,
                                 "echo 'scontrol: error: resolve_ctls_from_dns_srv: res_nsearch "
                                 "error: Unknown host; scontrol: error: fetch_config: DNS SRV "
                                 "lookup failed' >&2; exit 1"};
const Surroundings kNoNames{"no_name_service", true,
                            "echo 'scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: "
                            "Host name lookup failure; scontrol: error: fetch_config: DNS SRV "
                            "lookup failed' >&2; exit 1"};
const Surroundings kSilent{"silent", true, "exec sleep 600"};
const Surroundings kDown{"down", true,
                         "echo 'slurm_load_ctl_conf error: Unable to contact slurm controller "
                         "(connect failure)' >&2; exit 1"};
const Surroundings kAnswers{"answers", true,
                            "echo 'AccountingStorageType = accounting_storage/none'"};

struct Case {
  Surroundings surroundings;
  const char* option;
  bool has_slurm_runs;
  // "processes", "slurm" (which answered), "waits" (for Slurm) or "refused".
  const char* chosen;
  bool surprising;
  const char* part;  // of what is told
};
std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.surroundings.name) + "_" + info.param.option +
         (info.param.has_slurm_runs ? "_with_runs" : "");
}

class Choice : public testing::TestWithParam<Case> {
 protected:
  Choice() {
    if (!GetParam().surroundings.programs) return;
    for (const char* const name : {"sbatch", "squeue", "scancel", "scontrol"}) {
      const base::Path path = folder_.path() / name;
      tests::write_file(path,
                        std::string("#!/bin/sh\ncase $1 in --version) echo slurm-wlm 22.05.8; "
                                    "exit;; esac\n") +
                            GetParam().surroundings.scontrol + "\n");
      ::chmod(path.c_str(), 0755);
    }
  }
  control::SchedulerChoice choose() {
    const auto path = [&](const char* name) { return (folder_.path() / name).string(); };
    const double seconds = GetParam().surroundings.name == kSilent.name ? 1 : 60;
    const slurm::SlurmCommands commands({path("sbatch"), path("squeue"), path("sacct"),
                                         path("scontrol"), path("scancel"), path("sinfo")},
                                        {seconds, seconds}, {{"PATH", "/usr/bin:/bin"}});
    return control::choose_scheduler(GetParam().option, GetParam().has_slurm_runs, commands);
  }

  tests::TemporaryDirectory folder_;
};

TEST_P(Choice, Is) {
  const std::string wanted = GetParam().chosen;
  try {
    const control::SchedulerChoice choice = choose();
    EXPECT_NE(wanted, "refused");
    EXPECT_EQ(choice.kind, wanted == "processes" ? Kind::Processes : Kind::Slurm);
    EXPECT_EQ(choice.cluster.has_value(), wanted == "slurm");
    EXPECT_EQ(choice.surprising, GetParam().surprising);
    EXPECT_THAT(choice.why, HasSubstr(GetParam().part));
    if (wanted == "waits") {
      EXPECT_THAT(choice.why, HasSubstr("--scheduler local"));
    }
    if (choice.cluster) {
      EXPECT_EQ(slurm::to_string(choice.cluster->version), "22.05.8");
      EXPECT_FALSE(choice.cluster->accounting);
    }
  } catch (const base::Error& error) {
    EXPECT_EQ(wanted, "refused") << error.what();
    EXPECT_EQ(error.code(), base::Code::Operator);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().part));
  }
}
INSTANTIATE_TEST_SUITE_P(
    Scheduler, Choice,
    testing::Values(Case{kMissing, "auto", false, "processes", false, "cannot start"},
                    Case{kMissing, "auto", true, "waits", true, "belong to Slurm"},
                    Case{kMissing, "slurm_cli", false, "refused", false, "cannot be used"},
                    Case{kMissing, "local", true, "processes", false, ""},
                    Case{kUnconfigured, "auto", false, "processes", true,
                         "processes of this machine"},
                    Case{kUnconfigured, "auto", true, "waits", true, "belong to Slurm"},
                    Case{kUnconfigured, "slurm_cli", true, "refused", false, "cannot be used"},
                    Case{kNoNames, "auto", false, "waits", true, "lookup failure"},
                    Case{kSilent, "auto", false, "waits", true, "did not answer in time"},
                    Case{kSilent, "slurm_cli", false, "waits", true, "did not answer in time"},
                    Case{kSilent, "local", false, "processes", false, ""},
                    Case{kDown, "auto", false, "waits", true, "Unable to contact"},
                    Case{kDown, "slurm_cli", true, "waits", true, "Unable to contact"},
                    Case{kAnswers, "auto", false, "slurm", false, "runs go to Slurm 22.05.8"},
                    Case{kAnswers, "slurm_cli", true, "slurm", false, "keeps no accounting"},
                    Case{kAnswers, "local", true, "processes", false, ""}),
    name_of_case);

}  // namespace
}  // namespace regatta::orchestrator
