#include "trainer/probe/changed_run.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer::probe;  // the subject
using trainer::contract::RunConfig;

RunConfig changeable_run() {
  RunConfig config;
  config.data.path = "/data";
  config.model.vocabulary = 100;
  return config;
}

ChangedRun change(const std::vector<std::string>& texts) {
  std::vector<KeyValue> changes;
  for (const std::string& text : texts) changes.push_back(parse_key_value(text));
  return change_run(changeable_run(), changes, "run.json");
}

TEST(ChangedRun, HasTheValuesAndSaysWhichAreNew) {
  const ChangedRun run = change({"seed=2", "model.dropout=0.25", "model.gelu=tanh", "device=cuda",
                                 "dtype=bfloat16", "optimizer.beta2=0.98", "threads=0"});
  EXPECT_EQ(run.config.seed, 2U);
  EXPECT_EQ(run.config.dropout, 0.25);
  EXPECT_EQ(run.config.model.gelu, trainer::contract::Gelu::Tanh);
  EXPECT_EQ(run.config.dtype, trainer::contract::Precision::BFloat16);
  EXPECT_EQ(run.config.optimizer.beta2, 0.98);
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(std::ssize(run.changed), 6) << "threads is 0 already";
  for (const Pair& each : {Pair{"seed", "2"},
                           {"model.dropout", "0.25"},
                           {"model.gelu", "\"tanh\""},
                           {"dtype", "\"bfloat16\""},
                           {"optimizer.beta2", "0.98"}}) {
    EXPECT_EQ(std::count(run.changed.begin(), run.changed.end(), each), 1) << each.first;
  }
  EXPECT_FALSE(run.data_changed);
  EXPECT_TRUE(change({"data.path=/other data"}).data_changed);
  EXPECT_EQ(change({"data.path=/other data"}).config.data.path, "/other data");
  EXPECT_EQ(change({"seed=2", "seed=3"}).config.seed, 3U) << "the last counts";
  EXPECT_TRUE(change({}).changed.empty());
}

TEST(ChangedRun, NullLeavesAKeyOut) {
  RunConfig config = changeable_run();
  config.from = trainer::contract::StartConfig{};
  config.from->path = "/runs/x";
  config.optimizer.beta2 = 0.5;
  const ChangedRun run = change_run(
      config, {parse_key_value("from=null"), parse_key_value("optimizer.beta2=null")}, "run.json");
  EXPECT_FALSE(run.config.from);
  EXPECT_EQ(run.config.optimizer.beta2, RunConfig{}.optimizer.beta2) << "its default";
  const auto of_from = std::find_if(run.changed.begin(), run.changed.end(), [](const auto& each) {
    return each.first.starts_with("from");
  });
  ASSERT_NE(of_from, run.changed.end());
  EXPECT_EQ(of_from->second, "null");
  EXPECT_THROW((void)change({"sede=null"}), base::Error);
}

TEST(ChangedRun, BadChangesAreOneLineThatNamesTheKey) {
  const std::string deep(100, '[');
  const struct {
    std::string change, says;
  } kCases[] = {
      {"seed", "has no ="},
      {"=2", "names no key"},
      {".seed=2", "names no key"},
      {"model..gelu=tanh", "names no key"},
      {"seed.=2", "names no key"},
      {"sede=2", "sede"},
      {"model.hiden=8", "hiden"},
      {"seed.more=2", "has no keys in it"},
      {"seed=two", "seed"},
      {"seed=-1", "seed"},
      {"model.dropout=1", "dropout"},
      {"model.hidden=0", "hidden"},
      {"optimizer=3", "optimizer"},
      {"dtype=float8", "dtype"},
      {"seed=" + deep, "seed"},
      {"data.path=a\nb", "path"},
      {"model.preset=base", "model.layers"},
      {"seed=" + std::string(5000, '1'), "5000 bytes"},
      {"steps=1e300", "steps"},
  };
  for (const auto& each : kCases) {
    try {
      (void)change({each.change});
      ADD_FAILURE() << each.change.substr(0, 40) << " is taken";
    } catch (const base::Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.code(), base::Code::User) << text;
      EXPECT_NE(text.find(each.says), std::string::npos)
          << each.change.substr(0, 40) << ": " << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      EXPECT_LT(text.size(), 500U);
    }
  }
}

}  // namespace
}  // namespace regatta::tests
