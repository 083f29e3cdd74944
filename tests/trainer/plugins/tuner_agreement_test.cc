// One tuner for all ranks or none: threads stand for ranks, the plug-in is the real one.
#include "trainer/plugins/tuner_agreement.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <thread>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "topology/plan/tuner_table.h"
#include "topology/tuner/nccl_tuner.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/plugins/rank_group.h"
#include "trainer/ranks/rank_agreement.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;
using Action = plugins::TunerVerdict::Action;

constexpr int kNccl = 22809;

std::string a_plan(int ranks, int nccl_version = 0, std::uint64_t from_bytes = 1024) {
  topology::plan::TunerTable table;
  table.ranks = ranks;
  table.nodes = 1;
  table.nccl_version = nccl_version;
  table.ranges = {{topology::nccl::Collective::AllReduce,
                   from_bytes,
                   topology::plan::TunedRange::kNoEnd,
                   {topology::nccl::Algorithm::Ring, topology::nccl::Protocol::Ll}}};
  return topology::plan::to_tuner_file(table);
}

class TunerAgreement : public testing::Test {
 protected:
  // A run directory of its own for each rank, as ranks would see it that do not share one.
  base::Path directory(int rank) {
    const base::Path path = directory_.path() / std::to_string(rank);
    files().create_directory(path);
    return path;
  }
  void give(int rank, const std::string& plan) {
    base::replace_file(files(), directory(rank) / "plan.tuner", plan);
  }
  static base::FileSystem& files() { return base::posix_file_system(); }

  plugins::TunerOffer offer(int rank, int ranks,
                            const std::map<std::string, std::string>& variables = {},
                            int nccl_version = kNccl) {
    const ranks::Variables get = [&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    };
    return plugins::tuner_offer(files(), directory(rank) / "plan.tuner", place_, get, ranks,
                                nccl_version);
  }

  // What the ranks come to, each with its own directory.
  plugins::TunerVerdict verdict(int ranks, const std::map<int, int>& nccl_versions = {}) {
    std::vector<plugins::TunerVerdict> verdicts(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) directory(rank);
    ThreadRanks(ranks).run([&](ranks::Communicator& world) {
      const auto found = nccl_versions.find(world.rank());
      const plugins::TunerOffer mine =
          offer(world.rank(), ranks, {}, found == nccl_versions.end() ? kNccl : found->second);
      verdicts[static_cast<std::size_t>(world.rank())] =
          plugins::judge_offers(ranks::texts_of_ranks(world.host(), mine.text));
    });
    for (const plugins::TunerVerdict& one : verdicts) {
      EXPECT_EQ(one.action, verdicts[0].action) << "all ranks come to the same";
      EXPECT_EQ(one.warning, verdicts[0].warning);
    }
    return verdicts[0];
  }

  plugins::PluginPlace place_ = {{}, TUNER_PLUGIN_DIRECTORY};
  TemporaryDirectory directory_;
};

TEST_F(TunerAgreement, WithoutAPlanNothingIsSaid) {
  const plugins::TunerVerdict found = verdict(3);
  EXPECT_EQ(found.action, Action::Leave);
  EXPECT_EQ(found.warning, "");
}

TEST_F(TunerAgreement, OnePlanOnAllRanksIsUsed) {
  for (int rank = 0; rank < 3; ++rank) give(rank, a_plan(3, 22800));
  const plugins::TunerVerdict found = verdict(3);
  EXPECT_EQ(found.action, Action::Give);
  EXPECT_EQ(found.warning, "");
}

TEST_F(TunerAgreement, ARankWithoutThePlanIsNamed) {
  give(0, a_plan(3));
  give(2, a_plan(3));
  const plugins::TunerVerdict found = verdict(3);
  EXPECT_EQ(found.action, Action::Unset);
  EXPECT_EQ(found.warning,
            "plan.tuner is not used, NCCL chooses by itself: rank 1 sees no plan.tuner");
}

TEST_F(TunerAgreement, ARankWithAnotherPlanIsNamed) {
  for (int rank = 0; rank < 3; ++rank) give(rank, a_plan(3, 0, rank == 2 ? 2048 : 1024));
  const plugins::TunerVerdict found = verdict(3);
  EXPECT_EQ(found.action, Action::Unset);
  EXPECT_THAT(found.warning, HasSubstr("rank 2 has another plan.tuner, plug-in or NCCL"));
}

TEST_F(TunerAgreement, ARankWithAnotherNcclIsNamed) {
  for (int rank = 0; rank < 3; ++rank) give(rank, a_plan(3));
  EXPECT_THAT(verdict(3, {{1, 22803}}).warning, HasSubstr("rank 1 has another"));
  EXPECT_EQ(verdict(3).action, Action::Give);
}

TEST_F(TunerAgreement, ADamagedPlanIsNamed) {
  std::string bad = a_plan(2);
  bad[60] = static_cast<char>(bad[60] ^ 1);
  give(0, a_plan(2));
  give(1, bad);
  EXPECT_THAT(verdict(2).warning, HasSubstr("rank 1 says: plan.tuner is damaged"));
}

TEST_F(TunerAgreement, OffersSayWhatIsWrong) {
  struct Row {
    std::string plan;
    std::map<std::string, std::string> variables;
    int nccl_version;
    const char* text;
  };
  const Row rows[] = {
      {a_plan(4), {}, kNccl, "no plan.tuner is for 4 ranks, not 2; plan again"},
      {a_plan(2, 22800), {}, 22700, "no plan.tuner is for NCCL 2.28, and this is 2.27; plan again"},
      {a_plan(2, 22800), {}, 22809, "terms "},
      {a_plan(2), {}, 23001, "terms "},
      {"", {}, kNccl, "no plan.tuner is cut off"},
      {std::string(2U << 20U, 'x'), {}, kNccl, "no "},
      {a_plan(2), {{"NCCL_ALGO", "allreduce:ring"}}, kNccl, "no NCCL_ALGO is set"},
      {a_plan(2), {{"NCCL_PROTO", "simple"}}, kNccl, "no NCCL_PROTO is set"},
      {a_plan(2), {{"REGATTA_TUNER", "off"}}, kNccl, "no REGATTA_TUNER is off"},
      {a_plan(2), {{"REGATTA_TUNER", "on"}, {"NCCL_ALGO", ""}}, kNccl, "terms "},
      {a_plan(2), {{"NCCL_TUNER_PLUGIN", "/opt/x.so\n"}}, kNccl, "own plan /opt/x.so\\n"},
  };
  for (const Row& row : rows) {
    give(0, row.plan);
    EXPECT_THAT(offer(0, 2, row.variables, row.nccl_version).text, StartsWith(row.text));
  }
  files().remove_file(directory(0) / "plan.tuner");
  EXPECT_EQ(offer(0, 2).text, "none");
  EXPECT_EQ(offer(0, 2, {{"NCCL_TUNER_PLUGIN", "x"}}).text, "own none x");
  give(0, a_plan(2));
  place_.directory = directory(5);  // without the plug-in
  EXPECT_THAT(offer(0, 2).text,
              AllOf(StartsWith("no NCCL's tuner's libnccl-tuner-regatta.so is not in "),
                    testing::SizeIs(testing::Le(255U))));
}

TEST(TunerVerdicts, OfTheUsersOwnPlugIns) {
  struct Row {
    std::vector<std::string> texts;
    Action action;
    const char* words;
  };
  const Row rows[] = {
      {{"own none a.so", "own none a.so"}, Action::Leave, ""},
      {{"own none a.so", "none"}, Action::Leave, ""},  // nobody planned: not ours to judge
      {{"own plan a.so", "own plan a.so"}, Action::Leave, "is set on all ranks, and stays"},
      {{"own plan a.so", "own plan b.so"}, Action::Unset, "rank 0 has a NCCL_TUNER_PLUGIN"},
      {{"terms 1 2 3", "own plan a.so"}, Action::Unset, "rank 1 has a NCCL_TUNER_PLUGIN"},
      {{"terms 1 2 3", "none", "no disk"}, Action::Unset, "rank 2 says: disk"},
      {{"no disk", "no disk"}, Action::Unset, "rank 0 says: disk"},
      {{"terms 1 2 3"}, Action::Give, ""},
  };
  for (const Row& row : rows) {
    const plugins::TunerVerdict found = plugins::judge_offers(row.texts);
    EXPECT_EQ(found.action, row.action) << row.texts[0];
    EXPECT_THAT(found.warning, HasSubstr(row.words));
    EXPECT_EQ(found.warning.empty(), std::string(row.words).empty());
  }
}

// NCCL and the plug-in find what was agreed on, also when the file is gone by then.
TEST_F(TunerAgreement, GivesACopyThatNobodyCanChange) {
  const std::string plan = a_plan(2);
  give(0, plan);
  const plugins::TunerOffer mine = offer(0, 2);
  give(0, "another");
  plugins::act_on({Action::Give, ""}, mine);
  EXPECT_EQ(std::string(std::getenv("NCCL_TUNER_PLUGIN")),
            TUNER_PLUGIN_DIRECTORY "/libnccl-tuner-regatta.so");
  EXPECT_EQ(std::string(std::getenv("REGATTA_TUNER")), "on");
  const std::string copy = std::getenv("REGATTA_TUNER_FILE");
  EXPECT_EQ(files().read(copy, 1 << 20), plan);
  EXPECT_EQ(files().read(copy, 1 << 20), plan) << "from its beginning, every time";
  // As NCCL does it from here on.
  void* const library = dlopen(std::getenv("NCCL_TUNER_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  const auto* tuner = static_cast<const NcclTunerV5*>(dlsym(library, "ncclTunerPlugin_v5"));
  for (int communicator = 0; communicator < 2; ++communicator) {
    void* context = nullptr;
    EXPECT_EQ(tuner->init(&context, 1, 2, 1, nullptr, nullptr, nullptr), 0);
    EXPECT_NE(context, nullptr) << "the plug-in acts on it";
    EXPECT_EQ(tuner->finalize(context), 0);
  }
  dlclose(library);
  plugins::act_on({Action::Leave, ""}, mine);
  EXPECT_NE(std::getenv("NCCL_TUNER_PLUGIN"), nullptr);
  plugins::act_on({Action::Unset, "why"}, mine);
  EXPECT_EQ(std::getenv("NCCL_TUNER_PLUGIN"), nullptr);
  for (const char* name : {"REGATTA_TUNER", "REGATTA_TUNER_FILE"}) unsetenv(name);
}

// The place where it happens: two ranks that meet over TCP, with the real plug-in beside a
// libregatta-cuda.so that ends where NCCL would begin. Both find their plan in the run directory.
TEST_F(TunerAgreement, ComesBeforeNccl) {
  const base::Path plugins = directory(9), run = directory(0);
  std::filesystem::create_symlink(TUNER_PLUGIN_DIRECTORY "/libnccl-tuner-regatta.so",
                                  plugins / "libnccl-tuner-regatta.so");
  std::filesystem::create_symlink(ASKING_PLUGIN, plugins / "libregatta-cuda.so");
  contract::RunConfig config;
  config.ranks = 2;
  config.device = contract::DeviceKind::Auto;
  const ranks::Variables none = [](const char*) -> const char* { return nullptr; };
  const auto warnings = [&] {
    std::vector<std::string> found(2);
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        plugins::RankGroup group(files(), run, config, ranks::RankPlace{rank, 2, rank, "Slurm"},
                                 {"/nowhere/bin/program", plugins}, none);
        const auto device = cpu::make_cpu_device(1);
        try {
          (void)group.communicator(*device, true);
          ADD_FAILURE();
        } catch (const base::Error& error) {
          EXPECT_STREQ(error.what(), "asked, and no more");
        }
        found[static_cast<std::size_t>(rank)] = group.tuner_warning();
        group.host().barrier();
      });
    }
    ranks.clear();
    return found;
  };
  EXPECT_THAT(warnings(), Each(""));
  EXPECT_EQ(std::getenv("NCCL_TUNER_PLUGIN"), nullptr) << "there is no plan";
  give(0, a_plan(2));
  EXPECT_THAT(warnings(), Each(""));
  ASSERT_NE(std::getenv("NCCL_TUNER_PLUGIN"), nullptr);
  EXPECT_EQ(std::string(std::getenv("NCCL_TUNER_PLUGIN")),
            (plugins / "libnccl-tuner-regatta.so").string());
  give(0, a_plan(3));
  EXPECT_THAT(warnings(), Each(HasSubstr("rank 0 says: plan.tuner is for 3 ranks, not 2")));
  EXPECT_EQ(std::getenv("NCCL_TUNER_PLUGIN"), nullptr) << "what was set before is gone";
  for (const char* name : {"REGATTA_TUNER", "REGATTA_TUNER_FILE"}) unsetenv(name);
}

}  // namespace
}  // namespace regatta::tests
