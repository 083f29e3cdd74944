#include "orchestrator/sbatch/sbatch_additions.h"

#include <gmock/gmock.h>

namespace regatta::orchestrator {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Options = std::vector<sbatch::GivenOption>;
using Variables = std::map<std::string, std::string>;  // sbatch's

constexpr const char* kToken = "0123456789abcdef";

sbatch::KnownNode node(const std::string& name, double suspicion, bool usable = true) {
  return {name, usable, suspicion, suspicion > 0 ? "hung under demo-1" : "", {"main"}};
}

sbatch::SbatchAdditions additions_of(const Options& options, const Variables& environment = {},
                                     const std::vector<sbatch::KnownNode>& nodes = {},
                                     const Options& script = {}) {
  return sbatch::sbatch_additions(sbatch::options_that_count(script, environment, options), kToken,
                                  nodes);
}

std::vector<std::string> added(const Options& options, const Variables& environment = {},
                               const std::vector<sbatch::KnownNode>& nodes = {}) {
  return additions_of(options, environment, nodes).arguments;
}

TEST(SbatchAdditions, AreWhatNobodyHasSaid) {
  EXPECT_THAT(added({}),
              ElementsAre("--comment=regatta-sbatch:0123456789abcdef", "--open-mode=append"));
  EXPECT_EQ(additions_of({}, {}, {}).comment, "regatta-sbatch:0123456789abcdef");
  const auto given = additions_of({{"comment", "mine", 0}}, {}, {});
  EXPECT_THAT(given.arguments, ElementsAre("--open-mode=append"));
  EXPECT_EQ(given.comment, "");
}

TEST(SbatchAdditions, AppendOnlyToALogOfTheJobsOwn) {
  const auto appends = [](const Options& options, const Variables& environment = {}) {
    const auto arguments = added(options, environment);
    return std::find(arguments.begin(), arguments.end(), "--open-mode=append") != arguments.end();
  };
  EXPECT_TRUE(appends({{"output", "x-%j.out", 0}}));
  EXPECT_TRUE(appends({{"output", "%A_%a", 0}, {"error", "%J.err", 0}}));
  EXPECT_FALSE(appends({{"output", "train.log", 0}})) << "it would grow with every submission";
  EXPECT_FALSE(appends({{"output", "%j", 0}, {"error", "errors", 0}}));
  EXPECT_FALSE(appends({}, {{"SBATCH_OUTPUT", "train.log"}}));
  EXPECT_TRUE(appends({{"output", "%j", 0}}, {{"SBATCH_OUTPUT", "train.log"}}));
  EXPECT_FALSE(appends({{"open-mode", "truncate", 3}}));
  EXPECT_FALSE(appends({}, {{"SBATCH_OPEN_MODE", "truncate"}}));
  EXPECT_FALSE(appends({{"no-requeue", "", 0}}));
  EXPECT_FALSE(appends({}, {{"SBATCH_NO_REQUEUE", ""}}));
}

TEST(SbatchAdditions, VariablesCountMoreThanTheScript) {
  const Options script = {{"output", "%j.out", 2}, {"partition", "main", 3}};
  EXPECT_THAT(additions_of({}, {{"SBATCH_OUTPUT", "train.log"}}, {}, script).arguments,
              Not(Contains("--open-mode=append")));
  EXPECT_THAT(
      additions_of({{"output", "%j", 0}}, {{"SBATCH_OUTPUT", "train.log"}}, {}, script).arguments,
      Contains("--open-mode=append"));
  std::vector<sbatch::KnownNode> nodes = {node("n1", 0), node("n2", 1.5)};
  nodes.push_back({"d1", true, 3, "hung", {"debug"}});
  nodes.push_back({"d2", true, 0, "", {"debug"}});
  EXPECT_THAT(additions_of({}, {{"SBATCH_PARTITION", "debug"}}, nodes, script).arguments,
              Contains("--exclude=d1"));
  EXPECT_THAT(additions_of({}, {}, nodes, script).arguments, Contains("--exclude=n2"));
}

TEST(SbatchAdditions, KeepOffSuspectedNodes) {
  const std::vector<sbatch::KnownNode> nodes = {node("n1", 0), node("n2", 1.5), node("n3", 0.8)};
  const auto additions = additions_of({}, {}, nodes);
  EXPECT_TRUE(additions.avoids);
  EXPECT_THAT(additions.arguments, Contains("--exclude=n2"));
  EXPECT_THAT(additions.notes, ElementsAre("keeps off n2, which is suspected (hung under demo-1)"));
}

TEST(SbatchAdditions, LeaveAsManyNodesAsTheJobNeeds) {
  const std::vector<sbatch::KnownNode> nodes = {node("n1", 0), node("n2", 1.5), node("n3", 2),
                                                node("n4", 0, false)};
  EXPECT_THAT(added({{"nodes", "1", 0}}, {}, nodes), Contains("--exclude=n3,n2"));
  EXPECT_THAT(added({{"nodes", "2-3", 0}}, {}, nodes), Contains("--exclude=n3"))
      << "the worst first";
  const auto all = additions_of({{"nodes", "3", 0}}, {}, nodes);
  EXPECT_FALSE(all.avoids);
  EXPECT_THAT(all.notes,
              ElementsAre("may start on n3, which is suspected (hung under demo-1); --exclude=n3 "
                          "would keep it off",
                          HasSubstr("may start on n2")));
}

TEST(SbatchAdditions, ExcludeNothingWhereTheNodesAreNotForUsToCount) {
  const std::vector<sbatch::KnownNode> nodes = {node("n1", 0), node("n2", 1.5)};
  for (const char* const name :
       {"ntasks", "gpus", "constraint", "nodelist", "exclude", "reservation", "clusters", "gres"}) {
    EXPECT_FALSE(additions_of({{name, "1", 0}}, {}, nodes).avoids) << name;
  }
  for (const char* const value : {"2k", "", "many", "0"}) {
    EXPECT_FALSE(additions_of({{"nodes", value, 0}}, {}, nodes).avoids) << value;
  }
  EXPECT_FALSE(additions_of({}, {{"SBATCH_CONSTRAINT", "x"}}, nodes).avoids);
  EXPECT_TRUE(additions_of({{"nodes", "1", 0}, {"ntasks", "8", 0}}, {}, nodes).avoids);
}

TEST(SbatchAdditions, LookAtTheJobsPartitionsOnly) {
  std::vector<sbatch::KnownNode> nodes = {node("n1", 0), node("n2", 1.5)};
  nodes.push_back({"d1", true, 3, "hung", {"debug", "all"}});
  nodes.push_back({"d2", true, 0, "", {"debug"}});
  EXPECT_THAT(added({{"partition", "main", 0}}, {}, nodes), Contains("--exclude=n2"));
  EXPECT_THAT(added({{"partition", "debug,main", 0}}, {}, nodes), Contains("--exclude=d1,n2"));
  EXPECT_THAT(added({}, {{"SBATCH_PARTITION", "debug"}}, nodes), Contains("--exclude=d1"));
  EXPECT_THAT(added({{"partition", "other", 0}}, {}, nodes), Not(Contains(HasSubstr("--exclude"))));
}

}  // namespace
}  // namespace regatta::orchestrator
