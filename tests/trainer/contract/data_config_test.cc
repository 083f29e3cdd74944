#include "trainer/contract/data_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_difference.h"
#include "trainer/contract/run_schema.h"

namespace regatta::trainer::contract {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DataConfig data_of(const std::string& text) { return parse_run_config(text + "\n", "f").data; }

TEST(DataConfig, ReadsAListAndAMixture) {
  const std::vector<MixturePart> parts{{"books", 2}, {"wiki", 1}};
  const DataConfig list = data_of("data: [{path: books, weight: 2}, {path: wiki}]");
  EXPECT_EQ(list.path, "");
  EXPECT_EQ(list.mixture, parts);
  EXPECT_EQ(list.max_length, 128);
  EXPECT_THAT(data_paths(list), ElementsAre("books", "wiki"));
  EXPECT_THAT(data_weights(list), ElementsAre(2, 1));
  EXPECT_EQ(data_path_key(list, 1), "data.mixture[1].path");

  const DataConfig long_form = data_of(
      "data:\n  mixture:\n  - path: books\n    weight: 2\n  - {path: wiki}\n  max_length: 64\n"
      "  mask_fraction: 0.2");
  EXPECT_EQ(long_form.mixture, parts);
  EXPECT_EQ(long_form.max_length, 64);
  EXPECT_EQ(long_form.mask_fraction, 0.2);

  EXPECT_EQ(
      data_of(R"({"data": [{"path": "a", "weight": 1e6}, {"path": "b", "weight": 1e-9}]})").mixture,
      (std::vector<MixturePart>{{"a", 1e6}, {"b", 1e-9}}));
  std::string most = "data:";
  for (std::size_t i = 0; i < kMostDatasets; ++i) most += "\n- path: d" + std::to_string(i);
  EXPECT_EQ(data_of(most).mixture.size(), kMostDatasets);
}

TEST(DataConfig, OneDatasetIsItsPathHoweverItIsWritten) {
  const std::string plain = to_json(parse_run_config("data: {path: d}\n", "f"));
  for (const char* const text : {"data: [{path: d}]", "data: [{path: d, weight: 7}]",
                                 "data: {mixture: [{path: d}]}", "data: {path: d, mixture: }"}) {
    EXPECT_EQ(to_json(parse_run_config(text, "f")), plain) << text;
  }
  EXPECT_EQ(plain.find("mixture"), std::string::npos);
  const DataConfig data = data_of("data: {path: d}");
  EXPECT_THAT(data_paths(data), ElementsAre("d"));
  EXPECT_THAT(data_weights(data), ElementsAre(1));
  EXPECT_EQ(data_path_key(data, 0), "data.path");
}

TEST(DataConfig, ChangesEveryPath) {
  const auto below = [](const std::string& path) { return "/x/" + path; };
  DataConfig one = data_of("data: {path: d}");
  change_data_paths(&one, below);
  EXPECT_THAT(data_paths(one), ElementsAre("/x/d"));
  DataConfig two = data_of("data: [{path: d}, {path: e}]");
  change_data_paths(&two, below);
  EXPECT_THAT(data_paths(two), ElementsAre("/x/d", "/x/e"));
  EXPECT_EQ(two.path, "");
}

TEST(DataConfig, CanonicalTextReadsBack) {
  std::uint64_t state = 5;
  for (int round = 0; round < 200; ++round) {
    RunConfig config;
    const std::size_t parts = 2 + state % 63;
    for (std::size_t i = 0; i < parts; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      config.data.mixture.push_back(
          {"/d \"" + std::to_string(i), static_cast<double>((state >> 11U) + 1) * 0x1p-53 * 1e6});
    }
    const std::string text = to_json(config);
    const RunConfig back = parse_run_config(text, "canonical");
    ASSERT_EQ(back.data.mixture, config.data.mixture) << text;
    ASSERT_EQ(to_json(back), text);
    config.data.mixture[parts - 1].weight /= 2;
    const std::vector<KeyDifference> found = differences(back, config);
    ASSERT_EQ(found.size(), 1U);
    ASSERT_EQ(found[0].key, "data.mixture");
  }
}

TEST(DataConfig, NamesWhatIsWrongWithAMixture) {
  struct Row {
    const char* name;
    std::string text;
    const char* message;
  };
  std::string many = "data:";
  for (std::size_t i = 0; i <= kMostDatasets; ++i) many += "\n- path: d" + std::to_string(i);
  const std::vector<Row> rows = {
      {"empty list", "data: []", "f:1: data: the list is empty; name at least one dataset"},
      {"empty mixture", "data: {mixture: []}", "f:1: data.mixture: the list is empty"},
      {"65", many, "f:2: data: has 65 datasets; use at most 64"},
      {"no path", "data: [{path: a}, {weight: 2}]", "f:1: data[1].path: missing; name a dataset"},
      {"empty path", "data: [{path: a}, {path: ''}]", "f:1: data[1].path: missing"},
      {"control", "data: [{path: a}, {path: \"b\\n\"}]", "data[1].path: not a path"},
      {"long path", "data: [{path: " + std::string(4097, 'x') + "}]", "at most 4096 bytes"},
      {"weight 0", "data:\n- path: a\n- path: b\n  weight: 0",
       "f:4: data[1].weight: is 0; use more than 0 to 1e+06"},
      {"negative", "data: [{path: a, weight: -1}, {path: b}]", "data[0].weight: is -1; use more"},
      {"too heavy", "data: [{path: a, weight: 1000001}]", "weight: is 1000001; use more than 0"},
      {"NaN", "data: [{path: a, weight: .nan}]", "data[0].weight: expected a number"},
      {"infinite", "data: [{path: a, weight: .inf}]", "data[0].weight: expected a number"},
      {"word", "data: [{path: a, weight: much}]", "data[0].weight: expected a number"},
      {"twice", "data: [{path: a}, {path: b}, {path: a}]",
       "data[2].path: 'a' is also the dataset of [0]; name it once, with the sum of the weights"},
      {"twice, spelled apart", "data: {mixture: [{path: x/../a/}, {path: ./a}]}",
       "data.mixture[1].path: './a' is also the dataset of [0]"},
      {"unknown key", "data: [{path: a, wieght: 2}]",
       "f:1: data[0].wieght: unknown key; did you mean 'weight'?"},
      {"key of all", "data: [{path: a, max_length: 64}]", "data[0].max_length: unknown key"},
      {"key of all in a mixture", "data: {mixture: [{path: a, mask_fraction: 0.1}]}",
       "data.mixture[0].mask_fraction: unknown key"},
      {"another program's key", "data: [{dataset: a}]",
       "f:1: data[0].dataset: unknown key; did you mean 'data.path'?"},
      {"both", "data: {path: a, mixture: [{path: b}]}",
       "f:1: data.path: stands beside data.mixture; use one of the two"},
      {"texts", "data: [books, wiki]", "f:1: data[0]: expected a mapping"},
      {"a text", "data: books", "f:1: data: expected a mapping"},
      {"mixture a text", "data: {mixture: books}", "data.mixture: expected a list of mappings"},
      {"mixture a mapping", "data: {mixture: {path: a}}",
       "data.mixture: expected a list of mappings"},
      {"neither", "data: {mixture: }", "f:1: data.path: missing"},
      {"list longer than the model", "model: {max_positions: 64}\ndata: [{path: a}]",
       "f:2: data: a list has max_length 128, and the model takes 64 tokens; write "
       "{mixture: [...], max_length: 64}"},
      {"mixture longer than the model", "model: {max_positions: 64}\ndata: {mixture: [{path: a}]}",
       "data.max_length: is 128; use 5 to 64"},
      {"a task", "task: classification\ndata: [{path: a}, {path: b}]",
       "f:2: data: names several datasets, and task classification takes one"},
      {"a task's mixture", "task: classification\ndata: {mixture: [{path: a}, {path: b}]}",
       "f:2: data.mixture: names several datasets"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    try {
      (void)parse_run_config(row.text + "\n", "f");
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(row.message));
    }
  }
}

TEST(DataConfig, TheSchemaHasAMixtureAndAList) {
  using Json = nlohmann::json;
  const Json data = Json::parse(run_file_schema())["properties"]["data"];
  const Json& keys = data["properties"];
  EXPECT_EQ(data["type"], Json({"object", "array"}));
  EXPECT_EQ(keys["mixture"]["type"], "array");
  EXPECT_EQ(keys["mixture"]["minItems"], 1);
  EXPECT_EQ(keys["mixture"]["maxItems"], 64);
  const Json& part = keys["mixture"]["items"];
  EXPECT_EQ(part["additionalProperties"], false);
  EXPECT_EQ(part["required"], Json::array({"path"}));
  EXPECT_EQ(part["properties"].size(), 2U);
  EXPECT_EQ(part["properties"]["path"]["pattern"], keys["path"]["pattern"]);
  EXPECT_EQ(part["properties"]["weight"]["type"], "number");
  EXPECT_EQ(part["properties"]["weight"]["exclusiveMinimum"], 0);
  EXPECT_EQ(part["properties"]["weight"]["maximum"], 1e6);
  EXPECT_EQ(part["properties"]["weight"]["default"], 1);
  EXPECT_EQ(data["items"], part) << "a list is a mixture";
  EXPECT_EQ(data["maxItems"], 64);
  EXPECT_EQ(data["anyOf"], Json::parse(R"([{"required": ["path"]}, {"required": ["mixture"]}])"));
  EXPECT_EQ(data["not"], Json::parse(R"({"type": "object", "required": ["path", "mixture"]})"));
}

}  // namespace
}  // namespace regatta::trainer::contract
