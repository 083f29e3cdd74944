#include "checkpoint/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace regatta::checkpoint {
namespace {

using testing::HasSubstr;

TEST(ShardNames, RoundTrip) {
  EXPECT_EQ(shard_file(kModel, 0, 1), "model.safetensors");
  EXPECT_EQ(shard_file(kOptimizer, 0, 1), "optimizer.safetensors");
  EXPECT_EQ(shard_file(kOptimizer, 1, 4), "optimizer-00002-of-00004.safetensors");
  EXPECT_EQ(sidecar_file("model.safetensors"), "model.safetensors.digest.json");
  for (const char* kind : {kModel, kOptimizer}) {
    for (const int shards : {1, 2, 3, 10, 512, 99'999}) {
      for (const int shard : {0, 1, shards / 2, shards - 1}) {
        if (shard >= shards) continue;
        const auto name = parse_shard_file(shard_file(kind, shard, shards));
        ASSERT_TRUE(name.has_value()) << shard << " of " << shards;
        EXPECT_EQ(name->kind, kind);
        EXPECT_EQ(name->shard, shard);
        EXPECT_EQ(name->shards, shards);
      }
    }
  }
}

TEST(ShardNames, RefuseEverythingElse) {
  for (const char* bad : {
           "",
           ".safetensors",
           "model",
           "model.safetensors.digest.json",
           "Model.safetensors",
           "models.safetensors",
           "notes.safetensors",
           "model.safetensors ",
           "../model.safetensors",
           "optimizer-.safetensors",
           "optimizer-00001.safetensors",
           "optimizer-00001-of-.safetensors",
           "optimizer-00001-of-0002.safetensors",
           "optimizer-0001-of-00002.safetensors",
           "optimizer-00001_of_00002.safetensors",
           "optimizer_00001-of-00002.safetensors",
           "optimizer-00000-of-00002.safetensors",  // they count from 1
           "optimizer-00003-of-00002.safetensors",
           "optimizer-00001-of-00001.safetensors",  // has the name without numbers
           "optimizer-00001-of-00000.safetensors",
           "optimizer-000001-of-100000.safetensors",
           "optimizer-100000-of-100000.safetensors",
           "optimizer-18446744073709551617-of-00002.safetensors",
           "optimizer-00001-of-99999999999999999999.safetensors",
           "optimizer--0001-of-00002.safetensors",
           "optimizer-+0001-of-00002.safetensors",
           "optimizer- 0001-of-00002.safetensors",
           "optimizer-0x001-of-00002.safetensors",
           "optimizer-00001-of-00002",
           "optimizer-00001-of-00002.safetensors.tmp",
           "optimizer-00001-of-00002-of-00003.safetensors",
       }) {
    EXPECT_FALSE(parse_shard_file(bad).has_value()) << bad;
  }
  EXPECT_FALSE(parse_shard_file(std::string_view("model\0.safetensors", 18)).has_value());
}

TEST(ShardNamesDeathTest, NumbersOutOfRangeAreABug) {
  EXPECT_DEATH((void)shard_file(kModel, 0, 0), "shard");
  EXPECT_DEATH((void)shard_file(kModel, 2, 2), "shard");
  EXPECT_DEATH((void)shard_file(kModel, -1, 2), "shard");
  EXPECT_DEATH((void)shard_file(kModel, 0, 100'000), "shard");
}

TEST(MissingShard, SaysWhatACheckpointLacks) {
  const std::string model = "model.safetensors";
  const std::string whole = "optimizer.safetensors";
  const auto of3 = [](int shard) { return shard_file(kOptimizer, shard, 3); };
  EXPECT_EQ(missing_shard({model, whole}), std::nullopt);
  EXPECT_EQ(missing_shard({whole, "notes.txt", model}), std::nullopt);
  EXPECT_EQ(missing_shard({of3(2), model, of3(0), of3(1)}), std::nullopt);
  struct Row {
    std::vector<std::string> files;
    const char* reason;
  };
  const Row rows[] = {
      {{}, "does not list model.safetensors"},
      {{whole}, "does not list model.safetensors"},
      {{model}, "does not list optimizer.safetensors"},
      {{model, of3(0), of3(1)}, "does not list optimizer-00003-of-00003.safetensors"},
      {{model, of3(1), of3(2)}, "does not list optimizer-00001-of-00003.safetensors"},
      {{model, whole, of3(0), of3(1), of3(2)}, "several divisions of the optimizer"},
      {{model, of3(0), of3(1), of3(2), shard_file(kOptimizer, 0, 2)}, "several divisions"},
      {{shard_file(kModel, 0, 2), shard_file(kModel, 1, 2), whole}, "parts of the model"},
      {{model, shard_file(kModel, 0, 2), shard_file(kModel, 1, 2), whole}, "several divisions"},
      {{model, "optimizer-00001-of-00001.safetensors"}, "does not list optimizer.safetensors"},
      {{model, shard_file(kOptimizer, 0, 99'999)}, "optimizer-00002-of-99999.safetensors"},
  };
  for (const Row& row : rows) {
    EXPECT_THAT(missing_shard(row.files).value_or("nothing"), HasSubstr(row.reason));
  }
}

TEST(RangeNames, RoundTrip) {
  EXPECT_EQ(range_name({"exp_avg.x", 4096, 8192}), "exp_avg.x[4096:8192]");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const TensorRange ranges[] = {{"x", 0, 1}, {"x", 9, 10},    {"a.b[0:1]", 5, 7},
                                {"[", 0, 1}, {"x", 0, kMost}, {"x", kMost - 1, kMost}};
  for (const TensorRange& range : ranges) {
    const auto back = parse_range_name(range_name(range));
    ASSERT_TRUE(back.has_value()) << range_name(range);
    EXPECT_EQ(back->tensor, range.tensor);
    EXPECT_EQ(back->begin, range.begin);
    EXPECT_EQ(back->end, range.end);
  }
}

TEST(RangeNames, RefuseEverythingElse) {
  for (const char* bad : {"",
                          "x",
                          "x[",
                          "x]",
                          "x[]",
                          "[0:1]",
                          "x[0]",
                          "x[0:]",
                          "x[:1]",
                          "x[:]",
                          "x[1:1]",
                          "x[2:1]",
                          "x[-1:1]",
                          "x[0:-1]",
                          "x[+0:1]",
                          "x[0:+1]",
                          "x[ 0:1]",
                          "x[0:1 ]",
                          "x[0:1] ",
                          "x[0 :1]",
                          "x[00:1]",
                          "x[0:01]",
                          "x[0:1:2]",
                          "x[0,1]",
                          "x[0x0:0x1]",
                          "x[0.:1.]",
                          "x[0:1]]",
                          "x[[0:1]x",
                          "x(0:1)",
                          "x[0:1e3]",
                          "x[0:9223372036854775808]",
                          "x[0:18446744073709551617]",
                          "x[9223372036854775808:9223372036854775809]"}) {
    EXPECT_FALSE(parse_range_name(bad).has_value()) << bad;
  }
  EXPECT_FALSE(parse_range_name(std::string_view("x[0:1\0]", 7)).has_value());
}

TEST(RangeNamesDeathTest, RangesWithoutElementsAreABug) {
  EXPECT_DEATH((void)range_name({"x", 1, 1}), "range");
  EXPECT_DEATH((void)range_name({"x", -1, 1}), "range");
  EXPECT_DEATH((void)range_name({"", 0, 1}), "range");
}

}  // namespace
}  // namespace regatta::checkpoint
