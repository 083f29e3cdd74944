#include "trainer/ranks/rendezvous.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

#include "base/error.h"
#include "tests/trainer/ranks/tcp_ranks.h"

namespace regatta::tests {
namespace {

using base::Code;
using trainer::ranks::FileRendezvous;
using trainer::ranks::MeetingPoint;
using trainer::ranks::rank_place;
using trainer::ranks::RankPlace;
using trainer::ranks::Variables;

using Map = std::map<std::string, std::string>;
Variables variables(const Map& map) {
  return [map](const char* name) -> const char* {
    const auto found = map.find(name);
    return found == map.end() ? nullptr : found->second.c_str();
  };
}
Map with(Map map, const std::string& name, const char* value) {
  map.erase(name);
  if (value != nullptr) map[name] = value;
  return map;
}

const Map kMpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                  {"OMPI_COMM_WORLD_SIZE", "8"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
const Map kSlurm = {{"SLURM_PROCID", "11"},   {"SLURM_NTASKS", "16"},
                    {"SLURM_LOCALID", "3"},   {"SLURM_STEP_ID", "0"},
                    {"SLURM_JOB_ID", "77"},   {"SLURM_STEP_NODELIST", "node[03-06]"},
                    {"SLURM_JOB_NAME", "run"}};

void expect_operator(const std::function<void()>& body, const std::string& word) {
  try {
    body();
    ADD_FAILURE() << "nothing was thrown; " << word;
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), Code::Operator) << error.what();
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
}

TEST(RankPlace, OfMpi) {
  const auto place = rank_place(variables(kMpi));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->ranks, 8);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->source, "Open MPI");
}
TEST(RankPlace, OfSlurm) {
  const auto place = rank_place(variables(kSlurm));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 11);
  EXPECT_EQ(place->ranks, 16);
  EXPECT_EQ(place->local_rank, 3);
  EXPECT_EQ(place->source, "Slurm");
}
TEST(RankPlace, MpirunWithinASlurmJob) {
  Map both = kSlurm;
  both.insert(kMpi.begin(), kMpi.end());
  EXPECT_EQ(rank_place(variables(both))->source, "Open MPI");
}
TEST(RankPlace, NothingWhenAlone) {
  EXPECT_FALSE(rank_place(variables({})));
  EXPECT_FALSE(rank_place(variables(with(kSlurm, "SLURM_STEP_ID", nullptr))));  // batch script
  for (const char* step : {"", "batch", "extern", "4294967291", "4294967290", "-1", "0x1", "1 ",
                           "99999999999999999999999999"}) {
    EXPECT_FALSE(rank_place(variables(with(kSlurm, "SLURM_STEP_ID", step)))) << step;
  }
  Map one = with(with(kMpi, "OMPI_COMM_WORLD_SIZE", "1"), "OMPI_COMM_WORLD_RANK", "0");
  one = with(one, "OMPI_COMM_WORLD_LOCAL_RANK", "0");
  EXPECT_FALSE(rank_place(variables(one)));
}
TEST(RankPlace, NamesTheVariableThatIsWrong) {
  struct Case {
    const Map& map;
    const char* name;
    const char* value;
  };
  const Case cases[] = {{kMpi, "OMPI_COMM_WORLD_RANK", nullptr},
                        {kMpi, "OMPI_COMM_WORLD_SIZE", nullptr},
                        {kMpi, "OMPI_COMM_WORLD_LOCAL_RANK", nullptr},
                        {kMpi, "OMPI_COMM_WORLD_RANK", ""},
                        {kMpi, "OMPI_COMM_WORLD_RANK", "8"},
                        {kMpi, "OMPI_COMM_WORLD_RANK", "-1"},
                        {kMpi, "OMPI_COMM_WORLD_RANK", "-0"},
                        {kMpi, "OMPI_COMM_WORLD_RANK", "5x"},
                        {kMpi, "OMPI_COMM_WORLD_RANK", " 5"},
                        {kMpi, "OMPI_COMM_WORLD_RANK", "+5"},
                        {kMpi, "OMPI_COMM_WORLD_RANK", "0x5"},
                        {kMpi, "OMPI_COMM_WORLD_RANK", "5.0"},
                        {kMpi, "OMPI_COMM_WORLD_RANK", "99999999999999999999"},
                        {kMpi, "OMPI_COMM_WORLD_RANK", "4294967301"},
                        {kMpi, "OMPI_COMM_WORLD_SIZE", "0"},
                        {kMpi, "OMPI_COMM_WORLD_SIZE", "2000000"},
                        {kMpi, "OMPI_COMM_WORLD_LOCAL_RANK", "6"},
                        {kMpi, "OMPI_COMM_WORLD_LOCAL_RANK", "one\n"},
                        {kSlurm, "SLURM_PROCID", nullptr},
                        {kSlurm, "SLURM_PROCID", "16"},
                        {kSlurm, "SLURM_NTASKS", nullptr},
                        {kSlurm, "SLURM_NTASKS", "4(x2)"},
                        {kSlurm, "SLURM_LOCALID", nullptr},
                        {kSlurm, "SLURM_LOCALID", "\x1b[2J"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.value == nullptr ? "(none)" : one.value);
    expect_operator(
        [&] { static_cast<void>(rank_place(variables(with(one.map, one.name, one.value)))); },
        one.name);
  }
}
TEST(RankPlace, ReadsTheProcess) {
  const Variables process = trainer::ranks::process_variables();
  EXPECT_NE(process("PATH"), nullptr);
  EXPECT_EQ(process("REGATTA_NO_SUCH_VARIABLE"), nullptr);
}

class Rendezvous : public testing::Test {
 protected:
  Rendezvous() {
    std::string pattern = testing::TempDir() + "/rendezvous-XXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~Rendezvous() override { std::filesystem::remove_all(directory_); }
  [[nodiscard]] std::vector<std::string> names() const {
    return base::posix_file_system().list(directory_);
  }
  static RankPlace place(int rank, int ranks) { return {rank, ranks, rank, "a test"}; }
  std::filesystem::path directory_;
};

TEST_F(Rendezvous, RanksMeet) {
  for (const int ranks : {1, 2, 5}) {
    const Ends ends = each_rank(ranks, [&](int rank) {
      // Rank 0 is late.
      if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(120));
      FileRendezvous rendezvous(base::posix_file_system(), directory_,
                                "3f-1_" + std::to_string(ranks));
      const auto host = rendezvous.meet(place(rank, ranks), 60);
      double sum = 1;
      host->all_reduce_sum(&sum, 1);
      EXPECT_EQ(sum, ranks);
      host->open_channel()->barrier();
      EXPECT_TRUE(names().empty());
      host->barrier();
    });
    for (const auto& end : ends) EXPECT_FALSE(end) << end->what();
  }
}

// Two groups, the second backwards, and rank 5 in none.
TEST(GroupsOverTcp, MeetEachForItself) {
  const Ends ends = run_ranks(6, [](trainer::ranks::TcpHost& all) {
    std::vector<int> members = all.rank() % 2 == 0 ? std::vector{0, 2, 4} : std::vector{3, 1};
    if (all.rank() == 5) members = {};
    const auto group = trainer::ranks::meet_in_group(all, members, 60);
    ASSERT_EQ(group == nullptr, all.rank() == 5);
    if (group != nullptr) {
      const int mine = all.rank();
      std::vector<int> found(members.size());
      group->all_gather(&mine, sizeof mine, found.data());
      EXPECT_EQ(found, members);
      group->open_channel()->barrier();
    }
    EXPECT_EQ(trainer::ranks::meet_in_group(all, {all.rank()}, 60), nullptr);
    all.barrier();
    if (all.rank() == 2) group->abandon();
    if (all.rank() == 0 || all.rank() == 4) {
      EXPECT_THROW(group->barrier(), base::Error);
    }
    if (all.rank() == 1 || all.rank() == 3) group->barrier();
  });
  for (const auto& end : ends) EXPECT_FALSE(end) << end->what();
}

TEST_F(Rendezvous, FileIsPrivateAndWhole) {
  std::atomic<bool> seen = false;
  const Ends ends = each_rank(2, [&](int rank) {
    FileRendezvous rendezvous(base::posix_file_system(), directory_, "e1");
    if (rank == 1) {
      while (!std::filesystem::exists(rendezvous.path())) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      struct stat status {};
      ASSERT_EQ(stat(rendezvous.path().c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 0777U, 0600U);
      const auto point = trainer::ranks::parse_meeting_point(
          base::posix_file_system().read(rendezvous.path(), 10000));
      ASSERT_TRUE(point);
      EXPECT_NE(point->secret, 0U);
      seen = true;
    }
    static_cast<void>(rendezvous.meet(place(rank, 2), 60));
  });
  for (const auto& end : ends) EXPECT_FALSE(end) << end->what();
  EXPECT_TRUE(seen);
}

TEST_F(Rendezvous, NobodyWritesTheFile) {
  FileRendezvous rendezvous(base::posix_file_system(), directory_, "e1");
  try {
    static_cast<void>(rendezvous.meet(place(1, 2), 0.2));
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), Code::Retry) << error.what();
    EXPECT_NE(std::string(error.what()).find("rendezvous-e1"), std::string::npos) << error.what();
  }
}

TEST_F(Rendezvous, NobodyComesAndTheFileIsGone) {
  FileRendezvous rendezvous(base::posix_file_system(), directory_, "e1");
  try {
    static_cast<void>(rendezvous.meet(place(0, 2), 0.2));
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), Code::Retry) << error.what();
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(Rendezvous, DirectoryIsNotThere) {
  FileRendezvous rendezvous(base::posix_file_system(), directory_ / "absent", "e1");
  EXPECT_THROW(static_cast<void>(rendezvous.meet(place(0, 2), 0.2)), base::Error);
}

TEST_F(Rendezvous, OtherTextInTheFileIsRefused) {
  const MeetingPoint good{{"node1", "10.0.0.1", "2001:db8::1"}, 4000, 0xabc};
  const std::string text = trainer::ranks::to_text(good);
  const auto again = trainer::ranks::parse_meeting_point(text);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->hosts, good.hosts);
  EXPECT_EQ(again->port, good.port);
  EXPECT_EQ(again->secret, good.secret);
  const std::string first = "regatta rendezvous 1\n";
  const std::string secret = "0000000000000abc\n";
  std::string many;
  for (int i = 0; i < 100; ++i) many += "node1\n";
  const std::string cases[] = {"",
                               "\n\n\n\n",
                               "regatta rendezvous 2\n" + secret + "4000\nnode1\n",
                               first + "abc\n4000\nnode1\n",
                               first + "000000000000zabc\n4000\nnode1\n",
                               first + secret + "0\nnode1\n",
                               first + secret + "65536\nnode1\n",
                               first + secret + "-1\nnode1\n",
                               first + secret + "4000\n",
                               first + secret + "4000\n\n",
                               first + secret + "4000\nnode1",
                               first + secret + "4000\nnode 1\n",
                               first + secret + "4000\n-x\n",
                               first + secret + "4000\n:\x1b\n",
                               first + secret + "4000\n" + many,
                               text.substr(0, text.size() - 1)};
  for (const std::string& one : cases) {
    EXPECT_FALSE(trainer::ranks::parse_meeting_point(one))
        << testing::PrintToString(one.substr(0, 80));
    FileRendezvous rendezvous(base::posix_file_system(), directory_, "e1");
    base::replace_file(base::posix_file_system(), rendezvous.path(), one);
    expect_operator([&] { static_cast<void>(rendezvous.meet(place(1, 2), 5)); }, "rendezvous-e1");
  }
}

}  // namespace
}  // namespace regatta::tests
