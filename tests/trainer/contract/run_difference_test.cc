#include "trainer/contract/run_difference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace regatta::trainer {
namespace {

const std::string kData = "data: {path: /data}\n";

contract::RunConfig run_of(const std::string& text) {
  return contract::parse_run_config(kData + text, "f");
}

TEST(RunDifference, IsNoneBetweenSpellingsOfOneRun) {
  const contract::RunConfig a =
      run_of("steps: 20\nmodel: {preset: mini}\noptimizer: {learning_rate: 1e-3}");
  const contract::RunConfig b = contract::parse_run_config(contract::to_json(a), "canonical");
  EXPECT_TRUE(contract::differences(a, b).empty());
  EXPECT_TRUE(contract::differences(a, run_of("model:\n  layers: 4\n  hidden: 256\n  heads: 4\n"
                                              "  feed_forward: 1024\nsteps: 20"))
                  .empty());
}

TEST(RunDifference, NamesKeysWithBothValues) {
  const contract::RunConfig a =
      run_of("steps: 20\ntarget: {value: 0.25}\nslurm: {options: [--nice]}\nthreads: 1");
  const contract::RunConfig b =
      run_of("steps: 40\nclip: {mode: none}\nslurm: {partition: long}\nthreads: 1");
  const std::vector<contract::KeyDifference> expected{
      {"clip.mode", "\"global\"", "\"none\""},
      {"steps", "20", "40"},
      {"target.metric", "\"mlm_accuracy\"", "absent"},
      {"target.value", "0.25", "absent"},
      {"target.stop", "true", "absent"},
      {"slurm.partition", "\"\"", "\"long\""},
      {"slurm.options", "[\"--nice\"]", "[]"},
  };
  EXPECT_EQ(contract::differences(a, b), expected);
  const std::vector<contract::KeyDifference> back = contract::differences(b, a);
  ASSERT_EQ(back.size(), expected.size());
  EXPECT_EQ(back.back(), (contract::KeyDifference{"target.stop", "absent", "true"}));
}

// Whatever stands in the canonical text is compared.
TEST(RunDifference, SeesEveryKey) {
  const contract::RunConfig config =
      run_of("target: {value: 0.5}\nranks: 2\nranks_per_node: 1\nslurm: {partition: p}");
  using Json = nlohmann::ordered_json;
  const Json whole = Json::parse(contract::to_json(config));
  int changed = 0;
  const std::function<void(const std::string&, const Json&)> visit = [&](const std::string& pointer,
                                                                         const Json& value) {
    if (value.is_object()) {
      for (const auto& [key, inner] : value.items()) visit(pointer + "/" + key, inner);
      return;
    }
    Json other = whole;
    Json& place = other[Json::json_pointer(pointer)];
    if (value.is_boolean()) place = !value.get<bool>();
    if (value.is_number_float()) place = value.get<double>() * 0.5 + 0.01;
    if (value.is_number_integer()) place = value.get<std::int64_t>() + 1;
    if (place == value) return;  // words: only some are valid
    try {
      const auto found =
          contract::differences(config, contract::parse_run_config(other.dump(), "other"));
      ASSERT_EQ(found.size(), 1U) << pointer;
      std::string key = pointer.substr(1);
      std::replace(key.begin(), key.end(), '/', '.');
      EXPECT_EQ(found[0].key, key);
      ++changed;
    } catch (const base::Error&) {  // a value that does not go with the others
    }
  };
  visit("", whole);
  EXPECT_GE(changed, 40);
}

TEST(RunDifference, TextIsShortAndTellsNoSecrets) {
  const contract::RunConfig a =
      run_of("steps: 20\nthreads: 1\nslurm: {environment: {TOKEN: first}}");
  const contract::RunConfig b =
      run_of("steps: 40\nthreads: 2\nslurm: {environment: {TOKEN: second}}");
  const auto found = contract::differences(a, b);
  EXPECT_EQ(contract::to_text(found, 9),
            "steps is 20 there and 40 here, threads is 1 there and 2 here, "
            "slurm.environment.TOKEN differs");
  EXPECT_EQ(contract::to_text(found, 1), "steps is 20 there and 40 here, 2 more");
  EXPECT_EQ(contract::to_text({}, 1), "");
}

}  // namespace
}  // namespace regatta::trainer
