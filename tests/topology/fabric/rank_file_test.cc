#include "topology/fabric/rank_file.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/text.h"

namespace regatta::topology {
namespace {

using testing::HasSubstr;

TEST(RankFile, OfOpenMpi) {
  EXPECT_EQ(fabric::write_open_mpi_ranks({{"n1", 0, ""}, {"n2", 0, ""}, {"n1", 1, ""}}),
            "rank 0=n1 slot=0\nrank 1=n2 slot=0\nrank 2=n1 slot=1\n");
  EXPECT_EQ(fabric::write_open_mpi_ranks({{"n1", 3, "0-15,32-47"}, {"n1", 2, "16"}}),
            "rank 0=n1 slot=0-15,32-47\nrank 1=n1 slot=16\n");
}

TEST(RankFile, OfSlurm) {
  EXPECT_EQ(fabric::write_slurm_ranks({{"n1", 0, ""}, {"n2", 0, ""}, {"n1", 1, ""}}),
            "n1\nn2\nn1\n");
}

TEST(RankFile, GpusOfSlurm) {
  const struct {
    std::vector<fabric::RankPlace> places;
    std::optional<std::string> map;
  } rows[] = {
      {{{"n1", 3, ""}, {"n1", 0, ""}}, "map_gpu:3,0"},
      {{{"n1", 3, ""}, {"n2", 3, ""}, {"n1", 0, ""}, {"n2", 0, ""}}, "map_gpu:3,0"},
      {{{"n1", 3, ""}, {"n2", 0, ""}, {"n1", 0, ""}, {"n2", 3, ""}}, std::nullopt},
      {{{"n1", 0, ""}, {"n1", 1, ""}, {"n2", 0, ""}}, std::nullopt},
  };
  for (const auto& row : rows) EXPECT_EQ(fabric::slurm_gpu_map(row.places), row.map);
}

TEST(RankFile, RefusesWhatHasNoPlace) {
  const struct {
    std::vector<fabric::RankPlace> places;
    const char* why;
  } rows[] = {
      {{}, "no rank has a place"},
      {{{"n1", 0, ""}, {"", 0, ""}}, "rank 1: '' is not the name of one node"},
      {{{"n[1-2]", 0, ""}}, "rank 0:"},
      {{{"n[1]", 0, ""}}, "rank 0: 'n[1]' is not the name of one node"},
      {{{"n1\nrank 1=n2", 0, ""}}, "rank 0:"},
      {{{"-x", 0, ""}}, "rank 0:"},
      {{{"n1", -1, ""}}, "rank 0: GPU -1"},
      {{{"n1", 0, "all"}}, "'all' is not a list of CPUs"},
      {{{"n1", 0, "3-1"}}, "not a list of CPUs"},
      {{{"n1", 0, "1,"}}, "not a list of CPUs"},
      {{{"n1", 0, "0\nrank 5=n9 slot=0"}}, "not a list of CPUs"},
      {{{"n1", 0, "-1"}}, "not a list of CPUs"},
  };
  for (const auto& row : rows) {
    for (const auto write : {fabric::write_open_mpi_ranks, fabric::write_slurm_ranks}) {
      try {
        ADD_FAILURE() << write(row.places) << " instead of: " << row.why;
      } catch (const base::Error& error) {
        EXPECT_EQ(error.code(), base::Code::User);
        EXPECT_THAT(error.what(), HasSubstr(row.why));
        EXPECT_EQ(base::printable(error.what()), error.what());
      }
    }
  }
}

}  // namespace
}  // namespace regatta::topology
