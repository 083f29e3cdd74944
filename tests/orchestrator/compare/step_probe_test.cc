#include "orchestrator/compare/step_probe.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/philox.h"
#include "tests/orchestrator/compare/made_probe.h"

namespace regatta::orchestrator::compare {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

// The example of docs/formats/step_probe.md, made whole.
Json probe_file() {
  const Json tensor = {{"name", "w"}, {"norm", 2.0}, {"xxh3_128", "aa"}, {"sketch", {1.0, -1.0}}};
  return {{"format", 1},
          {"step", 12},
          {"from", {{"kind", "checkpoint"}, {"name", "step-10"}, {"step", 10}}},
          {"replayed_steps", 1},
          {"loss", 7.5},
          {"journal_loss", 7.5},
          {"parts",
           {{{"part", "weights"}, {"tensors", Json::array({tensor})}},
            {{"part", "samples"},
             {"count", 1},
             {"xxh3_128", "s"},
             {"each",
              {{{"id", "d0"}, {"tokens_xxh3_128", "t"}, {"masks_xxh3_128", "m"}, {"length", 9}}}}},
            {{"part", "tokens"}, {"xxh3_128", "t"}},
            {{"part", "masks"}, {"xxh3_128", "m"}},
            {{"part", "dropout"},
             {"hidden", 0.1},
             {"attention", 0.1},
             {"seed", 18446744073709551615U},
             {"xxh3_128", "d"}},
            {{"part", "activations"}, {"tensors", Json::array({tensor})}},
            {{"part", "loss"}, {"value", 7.5}},
            {{"part", "gradients"}, {"tensors", Json::array({tensor})}, {"norm", 2.0}},
            {{"part", "update"}, {"learning_rate", 0.001}, {"tensors", Json::array({tensor})}}}}};
}

StepProbe parsed(const Json& file) { return parse_step_probe(file.dump(), "probe.json"); }

std::string refused(const std::string& text) {
  try {
    (void)parse_step_probe(text, "probe.json");
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Operator);
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    return error.what();
  }
  return "";
}

TEST(StepProbe, ReadsWhatTheTrainerWrites) {
  const StepProbe probe = parsed(probe_file());
  EXPECT_EQ(probe.step, 12);
  EXPECT_EQ(probe.begins_with, "checkpoint step-10");
  EXPECT_EQ(probe.loss, 7.5);
  EXPECT_EQ(probe.journal_loss, 7.5);
  EXPECT_EQ(probe.weights.at(0).sketch, (std::vector<double>{1, -1}));
  EXPECT_EQ(probe.each.at(0).id, "d0");
  EXPECT_EQ(probe.dropout.seed, "18446744073709551615");
  EXPECT_EQ(probe.learning_rate, 0.001);
}

TEST(StepProbe, AStepThatDivergedHasNoUpdateAndNoLoss) {
  Json file = probe_file();
  file["loss"] = nullptr;
  file.erase("journal_loss");
  file["parts"].erase(8);
  const StepProbe probe = parsed(file);
  EXPECT_TRUE(std::isnan(probe.loss));
  EXPECT_FALSE(probe.journal_loss);
  EXPECT_TRUE(probe.update.empty());
}

TEST(StepProbe, WhatIsNoneIsToldInOneLine) {
  EXPECT_THAT(refused(""), HasSubstr("probe.json is no probe of a step: it has no format"));
  EXPECT_THAT(refused("[1]"), HasSubstr("it has no format"));
  EXPECT_THAT(refused(std::string(2000, '[')), HasSubstr("nests too deep"));
  Json file = probe_file();
  file["format"] = 2;
  EXPECT_THAT(refused(file.dump()), HasSubstr("its format is 2, not 1"));
  for (const char* const key : {"step", "from", "loss", "parts"}) {
    file = probe_file();
    file.erase(key);
    EXPECT_NE(refused(file.dump()), "") << key;
  }
  for (std::size_t part = 0; part < 8; ++part) {
    if (part == 6) continue;  // the loss stands above, too
    file = probe_file();
    file["parts"].erase(part);
    EXPECT_NE(refused(file.dump()), "") << part;
    file = probe_file();
    file["parts"][part] = {{"part", file["parts"][part]["part"]}};
    EXPECT_NE(refused(file.dump()), "") << part;
  }
}

std::vector<PartDifference> between(const MadeRun& b, std::int64_t step = 1) {
  return differences_of(made_probe({}, step), made_probe(b, step));
}

std::vector<std::string> parts_of(const std::vector<PartDifference>& all) {
  std::vector<std::string> names;
  for (const PartDifference& each : all) names.push_back(name_of(each.part));
  return names;
}

TEST(ProbeDifference, EqualProbesDifferInNothing) { EXPECT_TRUE(between({}).empty()); }

TEST(ProbeDifference, PartsComeInTheOrderOfAStep) {
  MadeRun b;
  b.seed = "2";
  EXPECT_EQ(parts_of(between(b)),
            (std::vector<std::string>{"weights", "samples", "masks", "dropout", "activations",
                                      "loss", "gradients", "update"}));
  MadeRun gelu;
  gelu.gelu = "tanh";
  const std::vector<PartDifference> found = between(gelu);
  EXPECT_EQ(found.at(0).part, ProbePart::Activations);
  EXPECT_EQ(found.at(0).first, 1U);  // the embedding is the same
  EXPECT_THAT(found.at(0).what, HasSubstr("1 of 2 tensors differs: layer.0.gelu by "));
}

TEST(ProbeDifference, OneChangedSampleIsFound) {
  MadeRun b;
  b.changed_sample = 2;
  EXPECT_TRUE(between(b).empty());
  const std::vector<PartDifference> found = between(b, 3);
  EXPECT_EQ(found.at(0).part, ProbePart::Tokens);
  EXPECT_EQ(found.at(0).what, "1 of 4 samples has other tokens: sample-1-2");
}

TEST(ProbeDifference, OrderIsToldFromOtherSamples) {
  const StepProbe a = made_probe({}, 1);
  StepProbe b = a;
  std::swap(b.each[0], b.each[3]);
  b.samples = "other";
  EXPECT_EQ(differences_of(a, b).at(0).what, "the same 4 samples in another order");
  b = a;
  b.each[1].id = "x";
  b.samples = "other";
  EXPECT_EQ(differences_of(a, b).at(0).what, "1 of 4 samples is another one");
  b.each.pop_back();
  b.sample_count = 3;
  EXPECT_EQ(differences_of(a, b).at(0).what, "4 samples | 3");
}

TEST(ProbeDifference, WhereNothingIsDroppedTheSeedOfDropoutIsNoDifference) {
  StepProbe a = made_probe({}, 1), b = a;
  b.dropout.seed = "2";
  b.dropout.digest = "other";
  EXPECT_EQ(differences_of(a, b).at(0).what, "other elements are dropped");
  a.dropout.hidden = a.dropout.attention = b.dropout.hidden = b.dropout.attention = 0;
  EXPECT_TRUE(differences_of(a, b).empty());
  b.dropout.hidden = 0.2;
  EXPECT_EQ(differences_of(a, b).at(0).what, "0 and 0 of attention | 0.2 and 0 of attention");
  a.dropout.hidden = 0.2;  // of one kind alone
  EXPECT_EQ(differences_of(a, b).at(0).what, "other elements are dropped");
}

TEST(ProbeDifference, TensorsOfOtherModelsDifferWhateverTheirDigests) {
  const StepProbe a = made_probe({}, 1);
  StepProbe b = a;
  b.weights[0].name = "another";
  ASSERT_EQ(parts_of(differences_of(a, b)), std::vector<std::string>{"weights"});
  b = a;
  b.gradients.pop_back();
  ASSERT_EQ(parts_of(differences_of(a, b)), std::vector<std::string>{"gradients"});
  EXPECT_EQ(differences_of(a, b)[0].first, b.gradients.size());
}

TEST(ProbeDifference, TwoLossesThatAreNoNumberAreTheSame) {
  StepProbe a = made_probe({}, 1), b = a;
  a.loss = std::nan("");
  EXPECT_EQ(parts_of(differences_of(a, b)), std::vector<std::string>{"loss"});
  b.loss = std::nan("");
  EXPECT_TRUE(differences_of(a, b).empty());
}

TEST(ProbeDifference, AnotherLearningRateIsTold) {
  const StepProbe a = made_probe({}, 1);
  StepProbe b = a;
  b.learning_rate = 0.002;
  EXPECT_EQ(differences_of(a, b).at(0).what, "learning rate 0.001 | 0.002");
}

// The sketch of docs/formats/step_probe.md, of tensors whose distance is known.
std::vector<double> sketch_of(const std::vector<double>& tensor) {
  std::vector<double> sketch(32, 0);
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    const auto words = base::philox(0, {static_cast<std::uint32_t>(i / 128), 0, 0, 0});
    const bool is_minus = (words[i % 128 / 32] >> (i % 32) & 1U) != 0;
    sketch[i % 32] += is_minus ? -tensor[i] : tensor[i];
  }
  return sketch;
}

TEST(ProbeDifference, SketchesEstimateTheDistanceOfTensors) {
  std::vector<double> a(4096), b(4096);
  double norm = 0, distance = 0;
  base::PhiloxStream random(7, 0, 0, 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = random.uniform() - 0.5;
    b[i] = a[i] + 0.01 * (random.uniform() - 0.5);
    norm += a[i] * a[i];
    distance += (a[i] - b[i]) * (a[i] - b[i]);
  }
  const ProbedTensor one{"w", std::sqrt(norm), "a", sketch_of(a)};
  const ProbedTensor other{"w", std::sqrt(norm), "b", sketch_of(b)};
  // 32 numbers: the estimate of the square has a relative error of √(2/32), 25 %.
  EXPECT_NEAR(relative_distance(one, other), std::sqrt(distance / norm), 0.003);
  EXPECT_EQ(relative_distance(one, one), 0);
}

}  // namespace
}  // namespace regatta::orchestrator::compare
