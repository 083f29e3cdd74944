#include "trainer/contract/run_difference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace regatta::trainer {
namespace {

const std::string kData = "data: {path: /data}\n";

RunConfig run_of(const std::string& text) { return parse_run_config(kData + text, "f"); }

TEST(RunDifference, IsNoneBetweenSpellingsOfOneRun) {
  const RunConfig a = run_of("steps: 20\nmodel: {preset: mini}\noptimizer: {learning_rate: 1e-3}");
  const RunConfig b = parse_run_config(to_json(a), "canonical");
  EXPECT_TRUE(differences(a, b).empty());
  EXPECT_TRUE(differences(a, run_of("model:\n  layers: 4\n  hidden: 256\n  heads: 4\n"
                                    "  feed_forward: 1024\nsteps: 20"))
                  .empty());
}

TEST(RunDifference, NamesKeysWithBothValues) {
  const RunConfig a =
      run_of("steps: 20\ntarget: {value: 0.25}\nslurm: {options: [--nice]}\nthreads: 1");
  const RunConfig b = run_of("steps: 40\nclip: {mode: none}\nslurm: {partition: long}\nthreads: 1");
  const std::vector<KeyDifference> expected{
      {"clip.mode", "\"global\"", "\"none\""},
      {"steps", "20", "40"},
      {"target.metric", "\"mlm_accuracy\"", "absent"},
      {"target.value", "0.25", "absent"},
      {"target.stop", "true", "absent"},
      {"slurm.partition", "\"\"", "\"long\""},
      {"slurm.options", "[\"--nice\"]", "[]"},
  };
  EXPECT_EQ(differences(a, b), expected);
  const std::vector<KeyDifference> back = differences(b, a);
  ASSERT_EQ(back.size(), expected.size());
  EXPECT_EQ(back.back(), (KeyDifference{"target.stop", "absent", "true"}));
}

// Whatever stands in the canonical text is compared.
TEST(RunDifference, SeesEveryKey) {
  const RunConfig config =
      run_of("target: {value: 0.5}\nranks: 2\nranks_per_node: 1\nslurm: {partition: p}");
  using Json = nlohmann::ordered_json;
  const Json whole = Json::parse(to_json(config));
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
      const auto found = differences(config, parse_run_config(other.dump(), "other"));
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
  const RunConfig a = run_of("steps: 20\nthreads: 1\nslurm: {environment: {TOKEN: first}}");
  const RunConfig b = run_of("steps: 40\nthreads: 2\nslurm: {environment: {TOKEN: second}}");
  const auto found = differences(a, b);
  EXPECT_EQ(to_text(found, 9),
            "steps is 20 there and 40 here, threads is 1 there and 2 here, "
            "slurm.environment.TOKEN differs");
  EXPECT_EQ(to_text(found, 1), "steps is 20 there and 40 here, 2 more");
  EXPECT_EQ(to_text({}, 1), "");
}

}  // namespace
}  // namespace regatta::trainer
