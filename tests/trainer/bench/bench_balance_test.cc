// What balancing reaches on the default length table: the bounds are the project's own.
#include "trainer/bench/bench_balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/file_system.h"
#include "trainer/contract/balance.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

bench::BenchBalanceOptions options_of(int ranks, int per_rank) {
  bench::BenchBalanceOptions options;
  options.shape = contract::preset_shape("large");
  options.shape.vocabulary = 30522;
  options.ranks = ranks;
  options.batch = ranks * per_rank;
  return options;
}

contract::LengthTable default_table() {
  const std::string path = REGATTA_SOURCE_DIR "/tests/data/lengths_wikipedia_512.csv";
  return contract::LengthTable::parse(base::posix_file_system().read(path, 1 << 20), path);
}

using Ways = std::map<std::string, nlohmann::json>;

Ways by_name(const nlohmann::json& measured) {
  Ways ways;
  for (const nlohmann::json& way : measured) ways[way["way"]] = way;
  return ways;
}

Ways ways_of(const bench::BenchBalanceOptions& options) {
  return by_name(nlohmann::json::parse(bench::bench_balance(default_table(), options))["ways"]);
}

double tokens(const nlohmann::json& way) { return way["tokens"]["mean"]; }

TEST(BenchBalance, EightRanksOf56) {
  const auto ways = ways_of(options_of(8, 56));
  EXPECT_LE(tokens(ways.at("global longest-first")), 1.0005);
  EXPECT_LE(tokens(ways.at("stratified, node longest-first")), 1.0005);
  EXPECT_LT(tokens(ways.at("global snake")), tokens(ways.at("global stride")));
  EXPECT_GT(tokens(ways.at("none")), 1.1);
}

TEST(BenchBalance, AThousandRanksOf16) {
  const auto ways = ways_of(options_of(1024, 16));
  EXPECT_LE(tokens(ways.at("stratified, node snake")), 1.045);
  EXPECT_LE(tokens(ways.at("stratified, node longest-first")), 1.035);
  EXPECT_LE(tokens(ways.at("global longest-first")), 1.0015);
}

TEST(BenchBalance, FiguresFitTogether) {
  bench::BenchBalanceOptions options = options_of(4, 10);
  options.ranks_per_node = 2;
  options.steps = 30;
  const auto ways = ways_of(options);
  EXPECT_EQ(ways.size(), 12U);
  for (const auto& [name, way] : ways) {
    EXPECT_GE(tokens(way), 1.0) << name;
    EXPECT_GE(way["tokens"]["p95"].get<double>(), tokens(way)) << name;
    EXPECT_GE(way["idle_share"].get<double>(), 0.0) << name;
    if (name == "packed rows, padded") continue;
    // Mean of 1 − 1/x, and 1 − 1/mean x, are close for x near 1.
    EXPECT_NEAR(way["idle_share"].get<double>(), 1 - 1 / way["cost"]["mean"].get<double>(), 0.02)
        << name;
  }
  EXPECT_EQ(ways.at("none")["bytes_per_step"], 0.0);
  EXPECT_EQ(ways.at("global longest-first")["bytes_per_step"], 0.0) << "read where needed";
  EXPECT_EQ(ways.at("exchange, read again")["bytes_per_step"], 4.0 * options.batch);
  EXPECT_EQ(ways.at("exchange, read again")["tokens"], ways.at("global longest-first")["tokens"]);
  EXPECT_EQ(ways.at("exchange, moved")["tokens"], ways.at("global longest-first")["tokens"]);
  // Three of four samples change their rank.
  EXPECT_NEAR(ways.at("exchange, moved")["bytes_per_step"].get<double>(),
              0.75 * bench::kBytesPerToken * 255.3 * options.batch,
              0.15 * bench::kBytesPerToken * 255.3 * options.batch);
  EXPECT_LT(ways.at("packed rows, unpadded")["idle_share"],
            ways.at("packed rows, padded")["idle_share"]);
  EXPECT_EQ(ways_of(options), ways) << "seeded";
}

TEST(BenchBalance, RefusesWhatDoesNotFit) {
  EXPECT_THROW((void)ways_of(options_of(12, 4)), base::Error);  // nodes of 8
  bench::BenchBalanceOptions few = options_of(8, 1);
  few.batch = 7;
  EXPECT_THROW((void)ways_of(few), base::Error);
}

TEST(BenchBalance, TableHasALineForEachWay) {
  bench::BenchBalanceOptions options = options_of(8, 2);
  options.steps = 2;
  const std::string table =
      bench::bench_balance_table(bench::bench_balance(default_table(), options));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 14);
}

// Classes come from the lengths at hand, and the figures say which.
TEST(BenchBalance, ShortSamplesHaveClassesToo) {
  const contract::LengthTable table =
      contract::LengthTable::parse("4,127,0.4\n128,128,0.6\n", "short");
  const std::string json = bench::bench_balance(table, options_of(8, 16));
  const auto parsed = nlohmann::json::parse(json);
  const auto strata = parsed["strata"].get<contract::StratumLimits>();
  EXPECT_EQ(strata, contract::stratum_limits(table.evenly(contract::kStratumSamples)))
      << "the best, as elsewhere";
  EXPECT_GT(strata[0], 4);
  EXPECT_GT(strata[1], strata[0]);
  EXPECT_GT(strata[2], strata[1]);
  EXPECT_LT(strata[2], 128);
  const std::string line = "classes of up to " + std::to_string(strata[0]) + ", " +
                           std::to_string(strata[1]) + ", " + std::to_string(strata[2]) +
                           ", and more tokens\n";
  EXPECT_NE(bench::bench_balance_table(json).find(line), std::string::npos);
  const Ways ways = by_name(parsed["ways"]);
  EXPECT_LT(tokens(ways.at("stratified")) - 1, (tokens(ways.at("none")) - 1) / 3);
}

TEST(BenchBalance, SmallBatchesAreTheSameBenchmark) {
  bench::BenchBalanceOptions options = options_of(16, 3);
  options.steps = 70;  // a window and a bit
  const std::string json = bench::bench_small_batches(default_table(), options);
  const auto parsed = nlohmann::json::parse(json);
  ASSERT_EQ(parsed["batches"].size(), std::size(bench::kSmallBatches));
  double before = 10;
  for (std::size_t i = 0; i < std::size(bench::kSmallBatches); ++i) {
    const auto& batch = parsed["batches"][i];
    EXPECT_EQ(batch["samples_per_rank"], bench::kSmallBatches[i]);
    const Ways ways = by_name(batch["ways"]);
    bench::BenchBalanceOptions same = options;
    same.batch = 16 * bench::kSmallBatches[i];
    EXPECT_EQ(ways, ways_of(same));
    // One sample each: nothing can be evened out. With more there is ever more to be gained.
    if (bench::kSmallBatches[i] == 1) {
      EXPECT_EQ(ways.at("global longest-first")["tokens"], ways.at("none")["tokens"]);
    }
    EXPECT_LT(tokens(ways.at("global longest-first")), before);
    before = tokens(ways.at("global longest-first"));
  }
  const std::string table = bench::bench_small_batches_table(json);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 13);
}

}  // namespace
}  // namespace regatta::tests
