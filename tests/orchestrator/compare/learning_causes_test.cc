#include "orchestrator/compare/learning_causes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;

Json fingerprint() {
  return Json::parse(R"({
    "build": {"program_xxh3_128": "aa", "libraries": {"oneDNN": "2.6.3"}},
    "machine": {"processor": {"name": "EPYC"}}, "devices": {"of_rank_0": {"kind": "cpu"}},
    "fabric": {"ranks": 1}, "variables": {"digest": "0"},
    "numerics": {"activations": "float32", "instruction_set": "avx512", "threads": 1,
                 "gelu": "erf", "products": {"forward": "built in"}},
    "randomness": {"seed": 1},
    "data": {"fingerprint": "d", "datasets": [{"vocabulary": {"pieces": 256, "xxh3_128": "v"},
             "tokenizer": {"lower_case": true}, "corpus_xxh3_128": "c"}]},
    "model": {"begins_with": "new weights"},
    "configuration": {"steps": 100, "batch": {"size": 8, "micro": 0}, "clip": {"norm": 1},
      "model": {"layers": 2, "dropout": 0.1}, "data": {"mask_fraction": 0.15, "path": "/d"},
      "optimizer": {"name": "adamw", "learning_rate": 0.001, "schedule": "linear",
                    "decay_steps": 0},
      "evaluate": {"every": 10}, "checkpoint": {"every": 10}}
  })");
}

LearningDifference from_first(bool rounding) {
  LearningCurve a, b;
  a.steps[1] = {7, 1};
  b.steps[1] = {rounding ? 7 * (1 + 0x1p-22) : 7.5, 1};
  return difference_of(a, b, 0x1p-24);
}

LearningDifference from_second() {
  LearningCurve a, b;
  a.steps = {{1, {7, 1}}, {2, {6, 1}}};
  b.steps = {{1, {7, 1}}, {2, {6.5, 1}}};
  return difference_of(a, b, 0x1p-24);
}

struct Case {
  const char* pointer;
  Json value;
  const char* kind;
  const char* what;
  const char* key;  // of the evidence
};

TEST(LearningFacts, EachFactThatCanChangeLearningIsNamed) {
  const Case cases[] = {
      {"/data/datasets/0/vocabulary/xxh3_128", "w", "tokenisation", "another vocabulary",
       "data datasets 0 vocabulary xxh3_128"},
      {"/data/datasets/0/tokenizer/lower_case", false, "tokenisation", "another tokenizer",
       "data datasets 0 tokenizer lower_case"},
      {"/data/fingerprint", "e", "data", "other texts", "data fingerprint"},
      {"/model/begins_with", "/runs/x", "initial weights", "other weights to begin with",
       "model begins_with"},
      {"/randomness/seed", 2, "random numbers", "another seed", "randomness seed"},
      {"/configuration/batch/size", 16, "data order", "another batch", "configuration batch size"},
      {"/configuration/data/mask_fraction", 0.2, "masks", "other masks",
       "configuration data mask_fraction"},
      {"/configuration/model/dropout", 0, "dropout", "another dropout",
       "configuration model dropout"},
      {"/configuration/model/layers", 4, "model", "another model", "configuration model layers"},
      {"/numerics/activations", "bfloat16", "precision", "another precision",
       "numerics activations"},
      {"/configuration/optimizer/learning_rate", 0.01, "optimizer", "another optimizer",
       "configuration optimizer learning_rate"},
      {"/configuration/clip/norm", 2, "optimizer", "another clipping", "configuration clip norm"},
      {"/configuration/steps", 200, "optimizer", "another end of the learning rate's schedule",
       "configuration steps"},
      {"/numerics/gelu", "tanh", "kernels", "another GELU", "numerics gelu"},
      {"/numerics/instruction_set", "avx2", "kernels", "another instruction set",
       "numerics instruction_set"},
      {"/numerics/products/forward", "oneDNN", "library", "another library for products",
       "numerics products forward"},
      {"/build/libraries/oneDNN", "3.6", "library", "another library for products",
       "build libraries oneDNN"},
      {"/variables/DNNL_MAX_CPU_ISA", "SSE41", "library", "another setting of a library",
       "variables DNNL_MAX_CPU_ISA"},
      {"/fabric/ranks", 2, "world size", "another number of ranks", "fabric ranks"},
      {"/build/program_xxh3_128", "bb", "version", "another build of the trainer",
       "build program_xxh3_128"},
      {"/machine/processor/name", "Xeon", "kernels", "another processor", "machine processor name"},
  };
  for (const Case& of : cases) {
    Json other = fingerprint();
    other[Json::json_pointer(of.pointer)] = of.value;
    const std::vector<LearningCause> facts = learning_facts(fingerprint(), other);
    ASSERT_EQ(facts.size(), 1U) << of.pointer;
    EXPECT_EQ(facts[0].kind, of.kind);
    EXPECT_EQ(facts[0].what, of.what);
    ASSERT_EQ(facts[0].evidence.size(), 1U) << of.pointer;
    EXPECT_EQ(facts[0].evidence[0].key, of.key);
  }
}

TEST(LearningFacts, WhatChangesNoLearningIsNoFact) {
  Json other = fingerprint();
  other["configuration"]["evaluate"]["every"] = 5;
  other["configuration"]["checkpoint"]["every"] = 5;
  other["configuration"]["data"]["path"] = "/elsewhere";
  other["variables"]["REGATTA_ISA"] = "avx2";  // told as what it does
  other["variables"]["digest"] = "1";
  EXPECT_TRUE(learning_facts(fingerprint(), other).empty());
  EXPECT_TRUE(learning_facts(fingerprint(), fingerprint()).empty());
}

TEST(LearningFacts, AnotherVocabularyIsNotToldAsOtherTextsToo) {
  Json other = fingerprint();
  other["data"]["fingerprint"] = "e";
  other["data"]["datasets"][0]["vocabulary"]["pieces"] = 300;
  const std::vector<LearningCause> facts = learning_facts(fingerprint(), other);
  ASSERT_EQ(facts.size(), 1U);
  EXPECT_EQ(facts[0].what, "another vocabulary");
}

TEST(LearningFacts, StepsMatterOnlyWhereTheScheduleEndsWithThem) {
  Json a = fingerprint(), b = fingerprint();
  b["configuration"]["steps"] = 200;
  a["configuration"]["optimizer"]["decay_steps"] = b["configuration"]["optimizer"]["decay_steps"] =
      100;
  EXPECT_TRUE(learning_facts(a, b).empty());
  for (Json* each : {&a, &b}) {  // of one of them the schedule ends with the run
    Json& decay_steps = (*each)["configuration"]["optimizer"]["decay_steps"];
    decay_steps = 0;
    std::vector<std::string> told;
    for (const LearningCause& cause : learning_facts(a, b)) told.push_back(cause.what);
    EXPECT_THAT(told, testing::Contains("another end of the learning rate's schedule"));
    decay_steps = 100;
  }
  for (Json* each : {&a, &b}) {
    (*each)["configuration"]["optimizer"]["decay_steps"] = 0;
    (*each)["configuration"]["optimizer"]["schedule"] = "constant";
  }
  EXPECT_TRUE(learning_facts(a, b).empty());
}

TEST(LearningFacts, WithoutBothFingerprintsNothingIsKnown) {
  EXPECT_TRUE(learning_facts(fingerprint(), Json()).empty());
  EXPECT_TRUE(learning_facts(Json(), fingerprint()).empty());
}

TEST(LikelyCauses, WhatFitsTheJournalsComesFirst) {
  Json other = fingerprint();
  other["randomness"]["seed"] = 2;
  other["numerics"]["instruction_set"] = "avx2";
  other["configuration"]["clip"]["norm"] = 2;
  const std::vector<LearningCause> facts = learning_facts(fingerprint(), other);
  ASSERT_EQ(facts.size(), 3U);
  EXPECT_EQ(likely_causes(from_first(false), facts)[0].what, "another seed");
  EXPECT_EQ(likely_causes(from_first(true), facts)[0].what, "another instruction set");
  EXPECT_EQ(likely_causes(from_second(), facts)[0].what, "another clipping");
  EXPECT_EQ(likely_causes(from_second(), facts).size(), 3U);
}

TEST(LikelyCauses, WhereNothingDiffersNothingIsNamed) {
  Json other = fingerprint();
  other["numerics"]["threads"] = 2;
  LearningCurve curve;
  curve.steps[1] = {7, 1};
  EXPECT_TRUE(
      likely_causes(difference_of(curve, curve, 0x1p-24), learning_facts(fingerprint(), other))
          .empty());
}

}  // namespace
}  // namespace regatta::orchestrator::compare
