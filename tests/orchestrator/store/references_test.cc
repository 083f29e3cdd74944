#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "orchestrator/runs/reference.h"
#include "orchestrator/store/store.h"
#include "tests/orchestrator/support.h"

namespace regatta::orchestrator {
namespace {

using Json = nlohmann::ordered_json;
using runs::ReferenceCurve;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::TemporaryDirectory;

ReferenceCurve curve(const std::string& name) {
  ReferenceCurve curve;
  curve.about.name = name;
  curve.about.submitter = "Somebody";
  curve.about.system = "box";
  curve.about.round = "v4.1";
  curve.about.division = "closed";
  curve.about.status = "success";
  curve.about.chips = 8;
  curve.about.global_batch = 448;
  curve.about.threshold = 0.72;
  curve.about.run_seconds = 9.25;
  curve.seconds = {1.5, 4, 9};
  curve.values = {0.25, 0.72, 0.5};
  curve.samples = {100, 200, 300};
  runs::complete(&curve);
  return curve;
}

std::vector<std::string> names(const std::vector<runs::Reference>& references) {
  std::vector<std::string> names;
  for (const runs::Reference& each : references) names.push_back(each.name);
  return names;
}

TEST(References, AreKeptAcrossOpening) {
  const TemporaryDirectory folder;
  ReferenceCurve bare;  // of which nothing is known but the curve
  bare.about.name = "a";
  bare.seconds = {1};
  bare.values = {0};
  runs::complete(&bare);
  {
    store::Store store(folder.path());
    EXPECT_TRUE(store.add_reference(curve("b")));
    EXPECT_TRUE(store.add_reference(bare));
    EXPECT_TRUE(store.add_reference(curve("c")));
  }
  store::Store store(folder.path());
  EXPECT_EQ(store.reference("b"), curve("b"));
  EXPECT_EQ(store.reference("a"), bare);
  EXPECT_EQ(store.reference("d"), std::nullopt);
  EXPECT_THAT(names(store.references("", 100)), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names(store.references("a", 1)), ElementsAre("b"));
  EXPECT_EQ(store.references("a", 1).front(), curve("b").about);
  EXPECT_TRUE(store.remove_reference("b"));
  EXPECT_FALSE(store.remove_reference("b"));
  EXPECT_THAT(names(store.references("", 100)), ElementsAre("a", "c"));
}

TEST(References, TheSameTwiceIsOne) {
  const TemporaryDirectory folder;
  store::Store store(folder.path());
  ReferenceCurve again = curve("one");
  again.about.imported_utc = 1000;
  EXPECT_TRUE(store.add_reference(curve("one")));
  EXPECT_FALSE(store.add_reference(again)) << "imported later";
  EXPECT_EQ(store.reference("one")->about.imported_utc, 0);
  again.values[0] = 0.26;
  try {
    store.add_reference(again);
    ADD_FAILURE();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::Conflict);
  }
  EXPECT_EQ(store.reference("one"), curve("one"));
}

TEST(References, BodiesComeBack) {
  EXPECT_EQ(runs::parse_reference(runs::reference_body(curve("one"))), curve("one"));
  EXPECT_EQ(curve("one").about.time_to_accuracy_seconds, 4);
  ReferenceCurve never = curve("never");
  never.about.threshold = 0.9;
  never.samples.clear();
  runs::complete(&never);
  EXPECT_EQ(never.about.time_to_accuracy_seconds, std::nullopt);
  EXPECT_EQ(runs::parse_reference(runs::reference_body(never)), never);
}

TEST(References, BadOnesAreRefused) {
  const auto with = [](const char* key, Json value) {
    Json body = runs::reference_body(curve("one"));
    body[key] = std::move(value);
    return body;
  };
  const auto points = [&](const char* json) { return with("evaluations", Json::parse(json)); };
  Json many = Json::array();
  for (int i = 0; i <= 10'000; ++i) many.push_back({i, nullptr, 0.5});
  Json without = runs::reference_body(curve("one"));
  without.erase("threshold");
  const std::pair<Json, const char*> cases[] = {
      {Json::array(), "is a JSON object"},
      {Json(), "is a JSON object"},
      {with("name", ""), "cannot be the name"},
      {with("name", nullptr), "cannot be the name"},
      {with("name", "../x"), "cannot be the name"},
      {with("name", "-x"), "cannot be the name"},
      {with("name", std::string(101, 'x')), "cannot be the name"},
      {with("name", 1), "name is not a text"},
      {with("more", 1), "no key 'more'"},
      {with("time_to_accuracy_seconds", 1), "no key 'time_to_accuracy_seconds'"},
      {with("system", std::string(201, 'x')), "system is longer than 200 bytes"},
      {with("threshold", 1.5), "threshold is out of range"},
      {without, "threshold is missing"},
      {with("chips", 0), "chips is out of range"},
      {with("chips", 1.5), "chips is not a whole number"},
      {with("run_seconds", -1), "run_seconds is out of range"},
      {with("global_batch", "8"), "global_batch is not a whole number"},
      {points("1"), "is not a list"},
      {points("[]"), "at least one evaluation"},
      {points("[[1, 2]]"), "is not [seconds, samples or null, accuracy]"},
      {points("[[1, 2, null]]"), "is not [seconds, samples or null, accuracy]"},
      {points("[[-1, 2, 0.5]]"), "evaluation 1: its seconds"},
      {points("[[1, 2, 1.5]]"), "evaluation 1: an accuracy"},
      {points("[[1, -2, 0.5]]"), "evaluation 1: its samples"},
      {points("[[1, 1.5, 0.5]]"), "evaluation 1: its samples"},
      {points("[[2, 1, 0.5], [1, 2, 0.5]]"), "evaluation 2 is earlier"},
      {points("[[1, 1, 0.5], [2, null, 0.5]]"), "samples are known of some"},
      {with("evaluations", many), "at most 10000"},
  };
  for (const auto& [body, why] : cases) {
    try {
      (void)runs::parse_reference(body);
      ADD_FAILURE() << why;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User) << why;
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  }
  ReferenceCurve endless = curve("one");
  endless.seconds[2] = std::numeric_limits<double>::infinity();
  EXPECT_THROW(runs::complete(&endless), base::Error);
  endless.seconds[2] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(runs::complete(&endless), base::Error);
}

}  // namespace
}  // namespace regatta::orchestrator
