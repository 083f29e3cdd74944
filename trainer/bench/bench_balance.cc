#include "trainer/bench/bench_balance.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/philox.h"
#include "base/statistics.h"
#include "trainer/contract/balance.h"

namespace regatta::trainer::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kLengthsSite = 1001;
constexpr int kMostBatch = 1 << 24;  // places of a window are 32-bit numbers

// What a step costs each rank, and what of it is of use.
struct Shares {
  std::vector<double> tokens, cost;  // of each rank, padding included
  double useful_cost = 0;
  double bytes = 0;
};

struct Way {
  const char* name;
  const char* source;  // where it comes from
  contract::BalanceOptions options;
  bool padded = false;  // rows of `packed` compute all their positions
  bool moves = false;   // samples to their ranks, instead of being read there
};

double largest_over_mean(const std::vector<double>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const double largest = *std::max_element(values.begin(), values.end());
  return sum > 0 ? largest * static_cast<double>(values.size()) / sum : 1.0;
}

// Over the steps.
struct Series {
  std::vector<double> tokens, cost, idle;
  double bytes = 0;
};

Json statistics(const std::vector<double>& values) {
  return {{"mean", base::mean(values)}, {"p95", base::percentile(values, 0.95)}};
}

contract::StratumLimits strata_of(const contract::LengthTable& lengths) {
  return contract::stratum_limits(lengths.evenly(contract::kStratumSamples));
}

class BalanceBench {
 public:
  BalanceBench(const contract::LengthTable& lengths, const BenchBalanceOptions& options)
      : lengths_(lengths), options_(options), strata_(strata_of(lengths)) {
    // Forward and backward FLOP of a sample's layers (training_flops without the heads).
    for (std::int64_t length = 0; length <= lengths.longest(); ++length) {
      cost_.push_back(contract::training_flops(options.shape, {0, length, length * length, 0}));
    }
  }

  Json measure(const std::vector<Way>& ways) {
    std::vector<Series> series(ways.size());
    for (int step = 0; step < options_.steps; ++step) {
      if (step % contract::kWindowSteps == 0) draw_window(step / contract::kWindowSteps);
      const std::size_t begin = static_cast<std::size_t>(step % contract::kWindowSteps) * batch();
      const std::span<const std::int32_t> in_turn(window_.data() + begin, batch());
      std::vector<std::int32_t> stratified;
      for (std::size_t i = begin; i < begin + batch(); ++i) {
        stratified.push_back(window_[static_cast<std::size_t>(order_[i])]);
      }
      dealt_.clear();
      for (std::size_t i = 0; i < ways.size(); ++i) {
        const bool strata = ways[i].options.strategy == contract::Balance::Stratified;
        add(share(strata ? stratified : in_turn, ways[i]), &series[i]);
      }
    }
    Json measured = Json::array();
    for (std::size_t i = 0; i < ways.size(); ++i) {
      Json json;
      json["way"] = ways[i].name;
      json["source"] = ways[i].source;
      json["tokens"] = statistics(series[i].tokens);
      json["cost"] = statistics(series[i].cost);
      json["idle_share"] = statistics(series[i].idle)["mean"];
      json["bytes_per_step"] = series[i].bytes / options_.steps;
      measured.push_back(json);
    }
    return measured;
  }

 private:
  std::size_t batch() const { return static_cast<std::size_t>(options_.batch); }
  // The length of a sample depends on the seed and its number, as in a run.
  void draw_window(int window) {
    window_.resize(contract::kWindowSteps * batch());
    for (std::size_t i = 0; i < window_.size(); i += 4) {  // as many draws in a block
      base::PhiloxStream random(options_.seed, static_cast<std::uint32_t>(i / 4),
                                static_cast<std::uint32_t>(window), kLengthsSite);
      for (std::size_t j = i; j < std::min(i + 4, window_.size()); ++j) {
        window_[j] =
            static_cast<std::int32_t>(lengths_.quantile(static_cast<double>(random.uniform())));
      }
    }
    order_ = contract::stratified_order(window_, options_.batch, options_.ranks, strata_);
  }

  double cost_of(std::int32_t length) const { return cost_[static_cast<std::size_t>(length)]; }

  static void add(const Shares& shares, Series* series) {
    series->tokens.push_back(largest_over_mean(shares.tokens));
    series->cost.push_back(largest_over_mean(shares.cost));
    const double slowest = *std::max_element(shares.cost.begin(), shares.cost.end());
    series->idle.push_back(1 - shares.useful_cost /
                                   (slowest * static_cast<double>(shares.cost.size())));
    series->bytes += shares.bytes;
  }

  Shares share(std::span<const std::int32_t> lengths, const Way& way) {
    return way.padded ? padded(lengths) : dealt(lengths, way);
  }

  // `exchange` is `global presort` that knows its lengths from elsewhere; once is enough.
  const contract::Assignment& deal(std::span<const std::int32_t> lengths,
                                   contract::BalanceOptions how) {
    if (how.strategy == contract::Balance::Exchange)
      how.strategy = contract::Balance::GlobalPresort;
    const auto [at, fresh] = dealt_.try_emplace({how.strategy, how.deal, how.ranks_per_node});
    if (fresh) at->second = contract::assign(lengths, how);
    return at->second;
  }

  Shares dealt(std::span<const std::int32_t> lengths, const Way& way) {
    const contract::Assignment& assignment = deal(lengths, way.options);
    Shares shares;
    for (std::size_t rank = 0; rank < assignment.size(); ++rank) {
      double tokens = 0, cost = 0;
      for (const std::int32_t place : assignment[rank]) {
        const std::int32_t length = lengths[static_cast<std::size_t>(place)];
        tokens += length;
        cost += cost_of(length);
        const bool stays = static_cast<std::size_t>(place) % assignment.size() == rank;
        if (way.moves && !stays) shares.bytes += kBytesPerToken * length;
      }
      shares.tokens.push_back(tokens);
      shares.cost.push_back(cost);
      shares.useful_cost += cost;
    }
    if (way.options.strategy == contract::Balance::Exchange) {
      shares.bytes += kBytesPerLength * static_cast<double>(lengths.size());
    }
    return shares;
  }

  // Rows in turn; a row computes all its positions, attention over the whole row included.
  Shares padded(std::span<const std::int32_t> lengths) const {
    const auto longest = static_cast<std::int32_t>(lengths_.longest());
    Shares shares;
    shares.tokens.assign(static_cast<std::size_t>(options_.ranks), 0);
    shares.cost.assign(static_cast<std::size_t>(options_.ranks), 0);
    const auto rows = contract::packed_rows(lengths, longest, options_.ranks);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      shares.tokens[row % shares.tokens.size()] += longest;
      shares.cost[row % shares.cost.size()] += cost_of(longest);
      for (const std::int32_t place : rows[row]) {
        shares.useful_cost += cost_of(lengths[static_cast<std::size_t>(place)]);
      }
    }
    return shares;
  }

  const contract::LengthTable& lengths_;
  const BenchBalanceOptions& options_;
  contract::StratumLimits strata_;
  std::vector<double> cost_;  // of each length
  // Lengths of one window, and in which order its steps take them when they are stratified.
  std::vector<std::int32_t> window_, order_;
  std::map<std::tuple<contract::Balance, contract::Deal, int>, contract::Assignment>
      dealt_;  // of this step
};

std::vector<Way> ways_of(const contract::LengthTable& lengths, const BenchBalanceOptions& options) {
  const auto way = [&, strata = strata_of(lengths)](contract::Balance strategy, contract::Deal deal,
                                                    int node) {
    return contract::BalanceOptions{
        strategy, deal, options.ranks, node, static_cast<std::int32_t>(lengths.longest()), strata};
  };
  const int node = options.ranks_per_node;
  constexpr contract::Deal kLongest = contract::Deal::LongestFirst;
  constexpr bool kMoves = true;
  return {
      {"none", "", way(contract::Balance::None, kLongest, 1)},
      {"stratified", "Samsung, without exchange", way(contract::Balance::Stratified, kLongest, 1)},
      {"stratified, node snake", "Samsung",
       way(contract::Balance::Stratified, contract::Deal::Snake, node), false, kMoves},
      {"stratified, node longest-first", "ours", way(contract::Balance::Stratified, kLongest, node),
       false, kMoves},
      {"stratified, all longest-first", "ours",
       way(contract::Balance::Stratified, kLongest, options.ranks)},
      {"global stride", "Baidu", way(contract::Balance::GlobalPresort, contract::Deal::Stride, 1),
       false, kMoves},
      {"global snake", "ours", way(contract::Balance::GlobalPresort, contract::Deal::Snake, 1)},
      {"global longest-first", "ours", way(contract::Balance::GlobalPresort, kLongest, 1)},
      {"exchange, read again", "ours", way(contract::Balance::Exchange, kLongest, 1)},
      {"exchange, moved", "ours", way(contract::Balance::Exchange, kLongest, 1), false, kMoves},
      {"packed rows, padded", "NVIDIA, Graphcore", way(contract::Balance::Packed, kLongest, 1),
       true},
      {"packed rows, unpadded", "ours", way(contract::Balance::Packed, kLongest, 1)},
  };
}

void check_options(const BenchBalanceOptions& options) {
  if (options.batch < options.ranks) {
    throw base::Error(base::Code::User, "a batch of " + std::to_string(options.batch) +
                                            " leaves some of " + std::to_string(options.ranks) +
                                            " ranks without a sample; use --batch " +
                                            std::to_string(options.ranks) + " or more");
  }
  if (options.batch > kMostBatch) {
    throw base::Error(base::Code::User, "a batch of " + std::to_string(options.batch) +
                                            " is too large; use --batch " +
                                            std::to_string(kMostBatch) + " or less");
  }
  if (options.ranks % options.ranks_per_node != 0) {
    throw base::Error(base::Code::User,
                      std::to_string(options.ranks) + " ranks are not whole nodes of " +
                          std::to_string(options.ranks_per_node) + "; change --ranks-per-node");
  }
}

Json describe(const char* benchmark, const contract::LengthTable& lengths,
              const BenchBalanceOptions& options) {
  Json json;
  json["benchmark"] = benchmark;
  json["lengths"] = options.lengths_name;
  json["mean_length"] = lengths.mean();
  json["strata"] = strata_of(lengths);
  json["cost_of"] = options.model_name;
  json["ranks"] = options.ranks;
  json["ranks_per_node"] = options.ranks_per_node;
  json["steps"] = options.steps;
  json["seed"] = options.seed;
  return json;
}

}  // namespace

std::string bench_balance(const contract::LengthTable& lengths,
                          const BenchBalanceOptions& options) {
  check_options(options);
  Json json = describe("balance", lengths, options);
  json["batch"] = options.batch;
  json["ways"] = BalanceBench(lengths, options).measure(ways_of(lengths, options));
  return base::json_text(json, 2) + "\n";
}

std::string bench_small_batches(const contract::LengthTable& lengths,
                                const BenchBalanceOptions& options) {
  Json json = describe("small batches", lengths, options);
  for (const int samples : kSmallBatches) {
    BenchBalanceOptions small = options;
    small.batch = samples * options.ranks;
    check_options(small);
    json["batches"].push_back(
        {{"samples_per_rank", samples},
         {"ways", BalanceBench(lengths, small).measure(ways_of(lengths, small))}});
  }
  return base::json_text(json, 2) + "\n";
}

std::string bench_balance_table(const std::string& json) {
  const Json parsed = base::parse_json<Json>(json);
  std::string table = "stratified: classes of up to";
  for (const Json& limit : parsed["strata"]) table += " " + std::to_string(limit.get<int>()) + ",";
  table +=
      " and more tokens\n"
      "way                              tokens max/mean   p95      cost max/mean   p95      idle   "
      " "
      "  bytes/step\n";
  for (const Json& way : parsed["ways"]) {
    char line[200];
    std::snprintf(line, sizeof line, "%-32s %11.5f %11.5f %11.5f %11.5f %8.2f %% %12.0f\n",
                  way["way"].get<std::string>().c_str(), way["tokens"]["mean"].get<double>(),
                  way["tokens"]["p95"].get<double>(), way["cost"]["mean"].get<double>(),
                  way["cost"]["p95"].get<double>(), 100 * way["idle_share"].get<double>(),
                  way["bytes_per_step"].get<double>());
    table += line;
  }
  return table;
}

std::string bench_small_batches_table(const std::string& json) {
  const Json parsed = base::parse_json<Json>(json);
  char cell[64];
  std::string table = "tokens max/mean; samples a rank: ";
  for (const Json& batch : parsed["batches"]) {
    std::snprintf(cell, sizeof cell, " %8d", batch["samples_per_rank"].get<int>());
    table += cell;
  }
  table += '\n';
  const Json& first = parsed["batches"][0]["ways"];
  for (std::size_t way = 0; way < first.size(); ++way) {
    std::snprintf(cell, sizeof cell, "%-33s", first[way]["way"].get<std::string>().c_str());
    table += cell;
    for (const Json& batch : parsed["batches"]) {
      std::snprintf(cell, sizeof cell, " %8.4f",
                    batch["ways"][way]["tokens"]["mean"].get<double>());
      table += cell;
    }
    table += '\n';
  }
  return table;
}

}  // namespace regatta::trainer::bench
