#include "orchestrator/site/trainer_environment.h"

#include <gmock/gmock.h>

namespace regatta::orchestrator {
namespace {

TEST(TrainerEnvironment, WhatIsNeededPasses) {
  for (const char* const name : {"PATH",
                                 "HOME",
                                 "USER",
                                 "LOGNAME",
                                 "SHELL",
                                 "LANG",
                                 "LC_ALL",
                                 "TZ",
                                 "TMPDIR",
                                 "LD_LIBRARY_PATH",
                                 "CUDA_VISIBLE_DEVICES",
                                 "NVIDIA_VISIBLE_DEVICES",
                                 "NCCL_DEBUG",
                                 "OMP_NUM_THREADS",
                                 "OMPI_MCA_btl",
                                 "PMIX_MCA_gds",
                                 "MKL_NUM_THREADS",
                                 "DNNL_VERBOSE",
                                 "ONEDNN_MAX_CPU_ISA",
                                 "UCX_TLS",
                                 "XDG_RUNTIME_DIR",
                                 "REGATTA_PLUGIN_DIR",
                                 "REGATTA_MPIRUN",
                                 "TSAN_OPTIONS"}) {
    EXPECT_TRUE(site::may_reach_trainer(name)) << name;
  }
}

TEST(TrainerEnvironment, SecretsDoNotWhateverTheyBeginWith) {
  for (const char* const name : {"",
                                 "REGATTA_TOKEN",
                                 "REGATTA_TOKEN_FILE",
                                 "REGATTA_SERVER",
                                 "AWS_SECRET_ACCESS_KEY",
                                 "AWS_ACCESS_KEY_ID",
                                 "SSH_AUTH_SOCK",
                                 "GITHUB_TOKEN",
                                 "HF_TOKEN",
                                 "LC_TOKEN",
                                 "NCCL_SECRET",
                                 "OMPI_MCA_password",
                                 "UCX_API_KEY",
                                 "CUDA_Credentials",
                                 "LD_PRELOAD",
                                 "BASH_ENV",
                                 "BASH_FUNC_srun%%",
                                 "SLURM_JWT",
                                 "SLURM_CONF",
                                 "PATHS",
                                 "DATABASE_URL"}) {
    EXPECT_FALSE(site::may_reach_trainer(name)) << name;
  }
}

TEST(TrainerEnvironment, ValuesStay) {
  EXPECT_THAT(site::trainer_environment({{"PATH", "/bin"}, {"TOKEN", "x"}, {"LANG", ""}}),
              testing::ElementsAre(testing::Pair("LANG", ""), testing::Pair("PATH", "/bin")));
}

}  // namespace
}  // namespace regatta::orchestrator
