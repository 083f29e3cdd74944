#include "orchestrator/compare/learning_replay.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/orchestrator/compare/made_probe.h"

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// Two runs, what is known of them, and a trainer that takes their steps again.
class TwoRuns {
 public:
  MadeRun b;
  std::int64_t step = 1;  // the first with other bits
  int asked = 0;
  std::string failure;  // of every replay, if any

  Json environment(const MadeRun& of) const {
    return {{"build", {{"version", versions.at(&of == &b ? 1 : 0)}}},
            {"numerics", {{"instruction_set", of.instructions}, {"gelu", of.gelu}, {"threads", 1}}},
            {"fabric", {{"ranks", ranks.at(&of == &b ? 1 : 0)}}},
            {"variables", {{"DNNL_MAX_CPU_ISA", of.summation}}},
            {"randomness", {{"seed", std::stoi(of.seed)}}},
            {"model", {{"begins_with", of.begins}}},
            {"data", {{"fingerprint", of.texts + std::to_string(of.changed_sample)}}},
            {"configuration",
             {{"seed", std::stoi(of.seed)},
              {"model", {{"gelu", of.gelu}, {"dropout", std::stod(of.dropout)}}},
              {"data",
               {{"path", of.texts + std::to_string(of.changed_sample)},
                {"mask_fraction", std::stod(of.masks)}}},
              {"from", of.begins},
              {"optimizer", {{"name", of.optimizer}}}}}};
  }
  Explanation explained() {
    const Json a_told = environment(a_), b_told = environment(b);
    return explain({1, step}, learning_facts(a_told, b_told), a_told,
                   [this](const ReplayRequest& request) { return taken(request); });
  }

  std::vector<int> ranks{1, 1};
  std::vector<std::string> versions{"1", "1"};  // the second sums in another order
  std::int64_t later = 1;                       // the first step with another optimizer

 private:
  ReplayAnswer taken(const ReplayRequest& request) {
    ++asked;
    if (!failure.empty()) return failure;
    MadeRun run = request.is_b ? b : a_;
    const auto text = [](const std::string& json) {
      const Json value = Json::parse(json);
      return value.is_string() ? value.get<std::string>() : value.dump();
    };
    for (const auto& [key, value] : request.change.keys) {
      if (key == "seed") run.seed = text(value);
      if (key == "model.gelu") run.gelu = text(value);
      if (key == "model.dropout") run.dropout = text(value);
      if (key == "data.mask_fraction") run.masks = text(value);
      if (key == "optimizer.name") run.optimizer = text(value);
      if (key == "from") run.begins = text(value);
      if (key == "data.path") {
        run.texts = a_.texts;
        run.changed_sample = a_.changed_sample;
      }
    }
    if (request.change.instruction_set) run.instructions = *request.change.instruction_set;
    const auto library = request.change.variables.find("DNNL_MAX_CPU_ISA");
    if (library != request.change.variables.end()) run.summation = library->second.value_or("");
    const std::string& version = versions[request.is_b && !request.change.program ? 1 : 0];
    if (version != "1") run.summation = "version " + version;
    StepProbe probe = made_probe(run, request.step);
    if (run.optimizer != a_.optimizer && request.step <= later) {
      MadeRun before = run;
      before.optimizer = a_.optimizer;
      StepProbe alike = made_probe(before, request.step);
      if (request.step == later) alike.update = probe.update;
      probe = std::move(alike);
    }
    probe.journal_loss = probe.loss;
    return probe;
  }

  MadeRun a_;
};

struct Planted {
  const char* what;
  std::int64_t step;
  ProbePart part;
  int replays;
  void (*plant)(MadeRun*);
};

// The step before is replayed, too, where the weights differ: what is planted in an update.
const Planted kPlanted[] = {
    {"another seed", 1, ProbePart::Weights, 3, [](MadeRun* b) { b->seed = "2"; }},
    {"other weights to begin with", 1, ProbePart::Weights, 3,
     [](MadeRun* b) { b->begins = "/runs/x"; }},
    {"other texts", 1, ProbePart::Tokens, 3, [](MadeRun* b) { b->texts = "u"; }},
    {"other texts", 3, ProbePart::Tokens, 3, [](MadeRun* b) { b->changed_sample = 1; }},
    {"other masks", 1, ProbePart::Masks, 3, [](MadeRun* b) { b->masks = "0.2"; }},
    {"another dropout", 1, ProbePart::Dropout, 3, [](MadeRun* b) { b->dropout = "0.0"; }},
    {"another GELU", 1, ProbePart::Activations, 3, [](MadeRun* b) { b->gelu = "tanh"; }},
    {"another instruction set", 1, ProbePart::Activations, 3,
     [](MadeRun* b) { b->instructions = "avx2"; }},
    {"another setting of a library", 1, ProbePart::Gradients, 3,
     [](MadeRun* b) { b->summation = "b"; }},
    {"another optimizer", 2, ProbePart::Update, 5, [](MadeRun* b) { b->optimizer = "lamb"; }},
};

TEST(Explanation, EachPlantedDifferenceIsShownByAReplay) {
  for (const Planted& planted : kPlanted) {
    TwoRuns runs;
    runs.step = planted.step;
    planted.plant(&runs.b);
    const Explanation found = runs.explained();
    ASSERT_EQ(found.causes.size(), 1U) << planted.what << ": " << found.unknown;
    EXPECT_EQ(found.causes[0].what, planted.what);
    EXPECT_EQ(found.parts.at(0).part, planted.part) << planted.what;
    EXPECT_EQ(runs.asked, planted.replays) << planted.what;
    EXPECT_THAT(found.proofs.at(0), HasSubstr("is A's, bit for bit"));
    EXPECT_EQ(found.unknown, "");
  }
}

// Their losses looked the same for two steps more: the first step's update is taken, as that of
// most facts that change updates.
TEST(Explanation, TheStepOfTheUpdateThatMadeWeightsDifferIsFound) {
  TwoRuns runs;
  runs.step = 4;
  runs.b.optimizer = "lamb";
  const Explanation found = runs.explained();
  ASSERT_EQ(found.causes.size(), 1U) << found.unknown;
  EXPECT_EQ(found.causes[0].what, "another optimizer");
  EXPECT_EQ(found.step, 1);
  EXPECT_EQ(runs.asked, 5);
}

// B's optimizer is another only from step 3 on: its weights differ from step 4 on.
TEST(Explanation, AnUpdateInTheMiddleIsFoundByHalves) {
  TwoRuns runs;
  runs.step = 4;
  runs.later = 3;
  runs.b.optimizer = "lamb";
  const Explanation found = runs.explained();
  ASSERT_EQ(found.causes.size(), 1U) << found.unknown;
  EXPECT_EQ(found.step, 3);
  EXPECT_EQ(found.parts.at(0).part, ProbePart::Update);
  EXPECT_EQ(runs.asked, 7);
  runs.asked = 0;
  runs.step = 100;
  runs.later = 70;
  EXPECT_THAT(runs.explained().unknown,
              HasSubstr("after 8 replays it is not known which step's update"));
  EXPECT_EQ(runs.asked, kMostReplays);
}

// What else differs and changes nothing is tried only where it could.
TEST(Explanation, AFactThatExplainsNothingIsNotNamed) {
  TwoRuns runs;
  runs.b.masks = "0.2";
  runs.b.optimizer = "lamb";
  const Explanation found = runs.explained();
  ASSERT_EQ(found.causes.size(), 2U) << found.unknown;
  EXPECT_EQ(found.causes[0].what, "other masks");
  EXPECT_EQ(found.proofs[0],
            "step 1 of B taken again with A's masks differs from A's only from update on");
  EXPECT_EQ(found.causes[1].what, "another optimizer");
  EXPECT_EQ(found.proofs[1],
            "step 1 of B taken again with A's masks and optimizer is A's, bit for bit");
  EXPECT_EQ(runs.asked, 4);
}

TEST(Explanation, TwoInOnePartAreBothFound) {
  TwoRuns runs;
  runs.b.gelu = "tanh";
  runs.b.instructions = "avx2";
  const Explanation found = runs.explained();
  ASSERT_EQ(found.causes.size(), 2U);
  EXPECT_EQ(found.causes[0].what, "another instruction set") << "the embedding has no GELU";
  EXPECT_EQ(found.causes[1].what, "another GELU");
}

// A later change keeps the program of A.
TEST(Explanation, AnotherBuildAndAnotherFactAreBothFound) {
  TwoRuns runs;
  runs.versions = {"1", "2"};
  runs.b.optimizer = "lamb";
  const Explanation found = runs.explained();
  ASSERT_EQ(found.causes.size(), 2U) << found.unknown;
  EXPECT_EQ(found.causes[0].what, "another build of the trainer");
  EXPECT_EQ(found.causes[1].what, "another optimizer");
}

// What can change learning by more than rounding is replayed, never left over.
TEST(Explanation, WhatChangesMoreThanRoundingIsNotLeftWhereReplaysAreEqual) {
  TwoRuns runs;
  runs.b.begins = "/runs/x";
  const Json told = runs.environment(runs.b);
  std::vector<LearningCause> facts = learning_facts(runs.environment({}), told);
  ASSERT_EQ(facts.size(), 1U);
  facts[0].way = ReplayWay::None;
  const Explanation found = explain({1, 1}, facts, told, [](const ReplayRequest& request) {
    return ReplayAnswer(made_probe({}, request.step));
  });
  EXPECT_TRUE(found.causes.empty());
  EXPECT_THAT(found.unknown, HasSubstr("chance"));
}

// All replays are used where the last two are enough.
TEST(Explanation, TheLastTwoReplaysMayFindTheUpdate) {
  TwoRuns runs;
  runs.step = 5;
  runs.later = 3;
  runs.b.optimizer = "lamb";
  const Explanation found = runs.explained();
  EXPECT_EQ(found.step, 3) << found.unknown;
  EXPECT_EQ(runs.asked, kMostReplays);
}

TEST(Explanation, WhatAReplayDoesWithoutIsLeftWhereReplaysAreEqual) {
  TwoRuns runs;
  runs.ranks = {1, 2};
  const Explanation found = runs.explained();
  ASSERT_EQ(found.causes.size(), 1U);
  EXPECT_EQ(found.causes[0].what, "another number of ranks");
  EXPECT_THAT(found.proofs[0], HasSubstr("taken by one process here, is the same bit for bit"));
  EXPECT_EQ(runs.asked, 2);
}

TEST(Explanation, WhereNothingDiffersChanceIsLeft) {
  TwoRuns runs;
  const Explanation found = runs.explained();
  EXPECT_TRUE(found.causes.empty());
  EXPECT_THAT(found.unknown, HasSubstr("chance"));
}

// B's run file was changed since: its steps are now A's.
TEST(Explanation, WhereReplaysAreNotTheJournalsChanceIsNotBlamed) {
  const Json told = TwoRuns().environment({});
  const Explanation found = explain({1, 1}, {}, told, [](const ReplayRequest& request) {
    StepProbe probe = made_probe({}, request.step);
    probe.journal_loss = request.is_b ? probe.loss + 1 : probe.loss;
    return ReplayAnswer(probe);
  });
  EXPECT_TRUE(found.causes.empty());
  EXPECT_THAT(found.unknown, HasSubstr("but not those of their journals: what lies in a run's "
                                       "directory has been changed since"));
}

TEST(Explanation, WhatNoFactExplainsIsSaid) {
  TwoRuns runs;
  runs.b.summation = "b";
  Explanation found = runs.explained();
  ASSERT_EQ(found.causes.size(), 1U);
  found = explain({1, 1}, {}, runs.environment(runs.b),
                  [&](const ReplayRequest& request) -> ReplayAnswer {
                    return made_probe(request.is_b ? runs.b : MadeRun{}, request.step);
                  });
  EXPECT_TRUE(found.causes.empty());
  EXPECT_THAT(found.unknown, HasSubstr("the steps still differ in gradients"));
}

// A dataset that is not what its fingerprint says.
TEST(Explanation, TokensThatNoFactExplainsPointAtTheDataset) {
  MadeRun b;
  b.changed_sample = 2;
  const Json told = TwoRuns().environment({});
  const Explanation found = explain({1, 3}, {}, told, [&](const ReplayRequest& request) {
    return ReplayAnswer(made_probe(request.is_b ? b : MadeRun{}, request.step));
  });
  EXPECT_TRUE(found.causes.empty());
  EXPECT_EQ(found.unknown,
            "with all that is known to differ and can be replayed the steps still differ in tokens "
            "(1 of 4 samples has other tokens: sample-1-2); `regatta-train verify-data DATASET` "
            "tells whether a dataset was changed");
}

TEST(Explanation, ReplaysAreBounded) {
  TwoRuns runs;
  runs.b = {"2", "u", "0.2", "0.0", "tanh", "avx2", "b", "lamb", "/runs/x", -1};
  const Explanation found = runs.explained();
  EXPECT_EQ(runs.asked, kMostReplays);
  EXPECT_EQ(found.replays.size(), static_cast<std::size_t>(kMostReplays));
  EXPECT_THAT(found.unknown, HasSubstr("after 8 replays the steps still differ in "));
}

TEST(Explanation, WhyAStepCannotBeTakenAgainIsSaid) {
  TwoRuns runs;
  runs.b.seed = "2";
  runs.failure = "/data/books is not a directory";
  const Explanation found = runs.explained();
  EXPECT_EQ(runs.asked, 1);
  EXPECT_EQ(found.unknown, "step 1 of A could not be taken again: /data/books is not a directory");
  EXPECT_TRUE(found.causes.empty());
}

TEST(ReplayChange, TakesKeysOfTheRunFileAsAHasThem) {
  const Json a = {{"configuration", {{"optimizer", {{"beta1", 0.9}}}, {"from", "/runs/x"}}},
                  {"model", {{"begins_with", "/runs/x"}}},
                  {"variables", {{"OMP_NUM_THREADS", "2"}}}};
  const Json b = {{"configuration", {{"optimizer", {{"beta1", 0.8}, {"power", 2}}}}},
                  {"model", {{"begins_with", "new weights"}}},
                  {"variables", {{"MKL_CBWR", "AVX2"}}}};
  std::map<std::string, ReplayChange> changes;
  for (const LearningCause& cause : learning_facts(a, b)) {
    if (const auto change = change_of(cause, a)) changes[cause.what] = *change;
  }
  const auto& optimizer = changes.at("another optimizer").keys;
  EXPECT_EQ(optimizer.at("optimizer.beta1"), "0.9");
  EXPECT_EQ(optimizer.at("optimizer.power"), "null");
  EXPECT_EQ(changes.at("other weights to begin with").keys.at("from"), "\"/runs/x\"");
  const auto& variables = changes.at("another setting of a library").variables;
  EXPECT_EQ(variables.at("OMP_NUM_THREADS"), "2");
  EXPECT_FALSE(variables.at("MKL_CBWR").has_value());
}

}  // namespace
}  // namespace regatta::orchestrator::compare
