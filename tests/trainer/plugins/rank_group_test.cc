// How a process joins the ranks of its run, without MPI: two threads stand for two processes.
#include "trainer/plugins/rank_group.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "trainer/cpu/cpu_device.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

const std::map<std::string, std::string> kStep = {{"SLURM_JOB_ID", "71"}, {"SLURM_STEP_ID", "0"}};

const char* of_step(const char* name) {
  const auto found = kStep.find(name);
  return found == kStep.end() ? nullptr : found->second.c_str();
}

class Joining : public testing::Test {
 protected:
  plugins::RankGroup join(const contract::RunConfig& config,
                          const std::optional<ranks::RankPlace>& place) {
    // A directory without plug-ins: as on a machine without Open MPI.
    return {base::posix_file_system(),
            directory_.path(),
            config,
            place,
            {"/nowhere/bin/program", directory_.path().string()},
            of_step};
  }
  TemporaryDirectory directory_;
};

TEST_F(Joining, AloneNeedsNobody) {
  plugins::RankGroup group = join({}, std::nullopt);
  EXPECT_EQ(group.ranks(), 1);
  EXPECT_EQ(group.ranks_per_node(), 1);
  const auto device = cpu::make_cpu_device(1);
  EXPECT_EQ(group.communicator(*device, false).ranks(), 1);
}

TEST_F(Joining, InSlurmWithoutMpiRanksMeetOverTcp) {
  contract::RunConfig config;
  config.ranks = 2;
  config.device = contract::DeviceKind::Auto;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      plugins::RankGroup group = join(config, ranks::RankPlace{rank, 2, rank, "Slurm"});
      EXPECT_EQ(group.rank(), rank);
      EXPECT_EQ(group.local_rank(), rank);
      EXPECT_EQ(group.ranks_per_node(), 2);
      double sum = rank + 1;
      group.host().all_reduce_sum(&sum, 1);
      EXPECT_EQ(sum, 3);
      // Gradients on CPUs need MPI, and that is said.
      const auto device = cpu::make_cpu_device(1);
      try {
        (void)group.communicator(*device, false);
        ADD_FAILURE();
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), base::Code::Operator);
        EXPECT_NE(std::string(error.what()).find("libregatta-mpi.so"), std::string::npos);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_F(Joining, AsManyMustComeAsTheRunFileSays) {
  contract::RunConfig config;
  config.ranks = 4;
  for (const auto& [place, words] :
       {std::pair{std::optional<ranks::RankPlace>(), "one process was started"},
        std::pair{std::optional<ranks::RankPlace>(ranks::RankPlace{0, 3, 0, "Slurm"}),
                  "Slurm started 3"}}) {
    try {
      (void)join(config, place);
      ADD_FAILURE() << words;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

// On CPUs there is no other way than MPI: its absence is an error, not a fall-back.
TEST_F(Joining, OnCpusTheMissingPlugInIsNamed) {
  contract::RunConfig config;
  config.ranks = 2;
  try {
    (void)join(config, ranks::RankPlace{0, 2, 0, "Slurm"});
    ADD_FAILURE();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Operator);
    EXPECT_NE(std::string(error.what()).find("libregatta-mpi.so"), std::string::npos);
  }
}

}  // namespace
}  // namespace regatta::tests
