#include "trainer/bench_balance.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "trainer/contract/balance.h"

namespace regatta::trainer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kLengthsSite = 1001;
constexpr int kRowSamples = 3;

// What a step costs each rank, and what of it is of use.
struct Shares {
  std::vector<double> tokens, cost;  // of each rank, padding included
  double useful_cost = 0;
  double bytes = 0;
};

struct Way {
  const char* name;
  const char* source;  // where it comes from
  BalanceOptions options;
  bool packed = false;
  bool moves = false;  // samples to their ranks, instead of being read there
};

double largest_over_mean(const std::vector<double>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const double largest = *std::max_element(values.begin(), values.end());
  return sum > 0 ? largest * static_cast<double>(values.size()) / sum : 1.0;
}

class BalanceBench {
 public:
  BalanceBench(const LengthTable& lengths, const BenchBalanceOptions& options)
      : lengths_(lengths), options_(options) {
    // Shares of the classes, and where in the table's distribution each begins.
    for (const std::int32_t limit : kStratumLimits) bounds_.push_back(share_up_to(limit));
    bounds_.push_back(1.0);
  }

  Json measure(const Way& way) const {
    std::vector<double> tokens, cost, idle;
    double bytes = 0;
    for (int step = 1; step <= options_.steps; ++step) {
      const std::vector<std::int32_t> lengths =
          way.options.strategy == Balance::Stratified ? draw_stratified(step) : draw(step);
      const Shares shares = way.packed ? packed(lengths) : dealt(lengths, way);
      tokens.push_back(largest_over_mean(shares.tokens));
      cost.push_back(largest_over_mean(shares.cost));
      const double slowest = *std::max_element(shares.cost.begin(), shares.cost.end());
      idle.push_back(1 - shares.useful_cost / (slowest * options_.ranks));
      bytes += shares.bytes / options_.steps;
    }
    Json json;
    json["way"] = way.name;
    json["source"] = way.source;
    json["tokens"] = statistics(tokens);
    json["cost"] = statistics(cost);
    json["idle_share"] = statistics(idle)["mean"];
    json["bytes_per_step"] = bytes;
    return json;
  }

 private:
  static Json statistics(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const double mean =
        std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    const auto rank = static_cast<std::size_t>(0.95 * static_cast<double>(values.size() - 1) + 0.5);
    return {{"mean", mean}, {"p95", values[rank]}};
  }

  // The share of samples with at most `limit` tokens, to 2⁻⁴⁰.
  double share_up_to(std::int32_t limit) const {
    double low = 0, high = 1;
    for (int i = 0; i < 40; ++i) {
      const double middle = (low + high) / 2;
      (lengths_.quantile(middle) <= limit ? low : high) = middle;
    }
    return low;
  }
  std::vector<std::int32_t> draw(int step) const {
    base::PhiloxStream random(options_.seed, 0, static_cast<std::uint32_t>(step), kLengthsSite);
    std::vector<std::int32_t> lengths;
    for (int i = 0; i < options_.batch; ++i) {
      lengths.push_back(
          static_cast<std::int32_t>(lengths_.quantile(static_cast<double>(random.uniform()))));
    }
    return lengths;
  }
  std::vector<std::int32_t> draw_stratified(int step) const {
    base::PhiloxStream random(options_.seed, 1, static_cast<std::uint32_t>(step), kLengthsSite);
    std::vector<double> fractions;
    for (std::size_t i = 0; i < bounds_.size(); ++i) {
      fractions.push_back(bounds_[i] - (i == 0 ? 0 : bounds_[i - 1]));
    }
    const std::vector<int> quotas = stratum_quotas(fractions, options_.batch, options_.ranks, step);
    std::vector<std::int32_t> lengths;
    for (std::size_t i = 0; i < quotas.size(); ++i) {
      const double below = i == 0 ? 0 : bounds_[i - 1];
      for (int n = 0; n < quotas[i]; ++n) {
        const double u = below + fractions[i] * static_cast<double>(random.uniform());
        lengths.push_back(static_cast<std::int32_t>(lengths_.quantile(std::min(u, 1 - 1e-12))));
      }
    }
    return lengths;
  }

  // Forward and backward FLOP of a sample's layers (training_flops without the heads).
  double cost_of(std::int64_t length) const {
    return training_flops(options_.shape, {0, length, length * length, 0});
  }

  Shares dealt(const std::vector<std::int32_t>& lengths, const Way& way) const {
    const Assignment assignment = assign(lengths, way.options);
    Shares shares;
    for (std::size_t rank = 0; rank < assignment.size(); ++rank) {
      double tokens = 0, cost = 0;
      for (const std::int32_t place : assignment[rank]) {
        const std::int32_t length = lengths[static_cast<std::size_t>(place)];
        tokens += length;
        cost += cost_of(length);
        const bool stays = static_cast<std::size_t>(place) % assignment.size() == rank;
        if (way.moves && !stays) shares.bytes += static_cast<double>(kBytesPerToken * length);
      }
      shares.tokens.push_back(tokens);
      shares.cost.push_back(cost);
      shares.useful_cost += cost;
    }
    const bool knows_lengths = way.options.strategy == Balance::GlobalPresort;
    if (knows_lengths && !way.moves) {
      shares.bytes = static_cast<double>(kBytesPerLength) * static_cast<double>(lengths.size());
    }
    return shares;
  }

  // Rows in turn; a row computes all its positions, attention over the whole row included.
  Shares packed(const std::vector<std::int32_t>& lengths) const {
    const auto longest = static_cast<std::int32_t>(lengths_.longest());
    Shares shares;
    shares.tokens.assign(static_cast<std::size_t>(options_.ranks), 0);
    shares.cost.assign(static_cast<std::size_t>(options_.ranks), 0);
    const auto rows = pack_rows(lengths, longest, kRowSamples);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      shares.tokens[row % shares.tokens.size()] += longest;
      shares.cost[row % shares.cost.size()] += cost_of(longest);
      for (const std::int32_t place : rows[row]) {
        shares.useful_cost += cost_of(lengths[static_cast<std::size_t>(place)]);
      }
    }
    return shares;
  }

  const LengthTable& lengths_;
  const BenchBalanceOptions& options_;
  std::vector<double> bounds_;  // share of samples up to the end of each class
};

std::vector<Way> ways_of(const BenchBalanceOptions& options) {
  const auto way = [&](Balance strategy, Deal deal, int node) {
    return BalanceOptions{strategy, deal, options.ranks, node};
  };
  const int node = options.ranks_per_node;
  return {
      {"none", "", way(Balance::None, Deal::Snake, 1)},
      {"stratified", "Samsung, without exchange", way(Balance::Stratified, Deal::Snake, 1)},
      {"stratified, node snake", "Samsung", way(Balance::Stratified, Deal::Snake, node), false,
       true},
      {"stratified, node longest-first", "ours", way(Balance::Stratified, Deal::LongestFirst, node),
       false, true},
      {"global stride", "Baidu", way(Balance::GlobalPresort, Deal::Stride, 1), false, true},
      {"global snake", "ours", way(Balance::GlobalPresort, Deal::Snake, 1)},
      {"global longest-first", "ours", way(Balance::GlobalPresort, Deal::LongestFirst, 1)},
      {"exchange, moved", "ours", way(Balance::GlobalPresort, Deal::LongestFirst, 1), false, true},
      {"packed rows", "NVIDIA, Graphcore", way(Balance::None, Deal::Snake, 1), true},
  };
}

}  // namespace

std::string bench_balance(const LengthTable& lengths, const BenchBalanceOptions& options) {
  if (options.batch < options.ranks) {
    throw base::Error(base::Code::User, "a batch of " + std::to_string(options.batch) +
                                            " leaves some of " + std::to_string(options.ranks) +
                                            " ranks without a sample; use --batch " +
                                            std::to_string(options.ranks) + " or more");
  }
  if (options.ranks % options.ranks_per_node != 0) {
    throw base::Error(base::Code::User,
                      std::to_string(options.ranks) + " ranks are not whole nodes of " +
                          std::to_string(options.ranks_per_node) + "; change --ranks-per-node");
  }
  const BalanceBench bench(lengths, options);
  Json json;
  json["benchmark"] = "balance";
  json["lengths"] = options.lengths_name;
  json["mean_length"] = lengths.mean();
  json["cost_of"] = options.model_name;
  json["ranks"] = options.ranks;
  json["ranks_per_node"] = options.ranks_per_node;
  json["batch"] = options.batch;
  json["steps"] = options.steps;
  json["seed"] = options.seed;
  for (const Way& way : ways_of(options)) json["ways"].push_back(bench.measure(way));
  return json.dump(2) + "\n";
}

std::string bench_balance_table(const std::string& json) {
  const Json parsed = Json::parse(json);
  std::string table =
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

}  // namespace regatta::trainer
