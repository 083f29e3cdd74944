#include "trainer/contract/balance.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace regatta::trainer {
namespace {

// Places by falling length; equal lengths in order of place, so that every rank computes the same.
std::vector<std::int32_t> by_length(std::span<const std::int32_t> lengths,
                                    std::vector<std::int32_t> places) {
  std::stable_sort(places.begin(), places.end(), [&](std::int32_t a, std::int32_t b) {
    return lengths[static_cast<std::size_t>(a)] > lengths[static_cast<std::size_t>(b)];
  });
  return places;
}

// Round after round of one sample each; `snake` turns every second round.
void deal_rounds(const std::vector<std::int32_t>& sorted, bool snake,
                 std::span<std::vector<std::int32_t>> to) {
  const std::size_t ranks = to.size();
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const std::size_t place = i % ranks;
    const bool backwards = snake && i / ranks % 2 == 1;
    to[backwards ? ranks - 1 - place : place].push_back(sorted[i]);
  }
}

// Ranks with ⌊B/R⌋ samples may take one more as long as the division's remainder lasts.
void deal_longest_first(std::span<const std::int32_t> lengths,
                        const std::vector<std::int32_t>& sorted,
                        std::span<std::vector<std::int32_t>> to) {
  const std::size_t share = sorted.size() / to.size();
  std::size_t extra = sorted.size() % to.size();
  using Load = std::pair<std::int64_t, std::size_t>;  // tokens, rank: least first
  std::priority_queue<Load, std::vector<Load>, std::greater<>> ranks;
  for (std::size_t r = 0; r < to.size(); ++r) ranks.push({0, r});
  for (const std::int32_t place : sorted) {
    auto [tokens, rank] = ranks.top();
    while (to[rank].size() == share && extra == 0) {
      ranks.pop();
      std::tie(tokens, rank) = ranks.top();
    }
    ranks.pop();
    if (to[rank].size() == share) --extra;
    to[rank].push_back(place);
    if (to[rank].size() <= share) {
      ranks.push({tokens + lengths[static_cast<std::size_t>(place)], rank});
    }
  }
}

void deal(std::span<const std::int32_t> lengths, std::vector<std::int32_t> places, Deal how,
          std::span<std::vector<std::int32_t>> to) {
  const std::vector<std::int32_t> sorted = by_length(lengths, std::move(places));
  if (how == Deal::LongestFirst) {
    deal_longest_first(lengths, sorted, to);
  } else {
    deal_rounds(sorted, how == Deal::Snake, to);
  }
}

// Class after class in turn, so every rank's share of every class differs by at most one sample
// from any other's; then each node deals what its ranks got among them.
Assignment stratify(std::span<const std::int32_t> lengths, const BalanceOptions& options) {
  const auto ranks = static_cast<std::size_t>(options.ranks);
  Assignment assignment(ranks);
  std::size_t next = 0;
  for (int stratum = 0; stratum < kStrata; ++stratum) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (stratum_of(lengths[i]) != stratum) continue;
      assignment[next++ % ranks].push_back(static_cast<std::int32_t>(i));
    }
  }
  const auto node = static_cast<std::size_t>(options.ranks_per_node);
  if (node == 1) return assignment;
  for (std::size_t first = 0; first < ranks; first += node) {
    const std::span<std::vector<std::int32_t>> mine(assignment.data() + first, node);
    std::vector<std::int32_t> places;
    for (std::vector<std::int32_t>& rank : mine) {
      places.insert(places.end(), rank.begin(), rank.end());
      rank.clear();
    }
    deal(lengths, std::move(places), options.deal, mine);
  }
  return assignment;
}

// Of `count` samples a step. Sample k of the run falls at k·φ mod 1 (the golden ratio spreads any
// stretch of them evenly) and belongs to the class whose part of [0, 1) that is in.
std::vector<int> quotas_of(std::span<const double> fractions, int count, std::int64_t step) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;  // φ − 1 in 64 bits
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  std::vector<int> quotas(fractions.size(), 0);
  for (int i = 0; i < count; ++i) {
    const auto k = static_cast<std::uint64_t>((step - 1) * count + i);
    double place = static_cast<double>((k * kGolden) >> 11U) * 0x1p-53 * sum;
    std::size_t stratum = 0;
    while (stratum + 1 < fractions.size() && place >= fractions[stratum]) {
      place -= fractions[stratum++];
    }
    ++quotas[stratum];
  }
  return quotas;
}

}  // namespace

int stratum_of(std::int32_t length) {
  int stratum = 0;
  for (const std::int32_t limit : kStratumLimits) stratum += length > limit ? 1 : 0;
  return stratum;
}

Assignment assign(std::span<const std::int32_t> lengths, const BalanceOptions& options) {
  base::check(options.ranks > 0 && options.ranks_per_node > 0 &&
                  options.ranks % options.ranks_per_node == 0,
              "whole nodes of ranks share a step");
  if (options.strategy == Balance::Stratified) return stratify(lengths, options);
  Assignment assignment(static_cast<std::size_t>(options.ranks));
  std::vector<std::int32_t> places(lengths.size());
  std::iota(places.begin(), places.end(), 0);
  if (options.strategy == Balance::GlobalPresort) {
    deal(lengths, std::move(places), options.deal, assignment);
  } else {
    for (const std::int32_t place : places) {
      assignment[static_cast<std::size_t>(place) % assignment.size()].push_back(place);
    }
  }
  return assignment;
}

std::vector<int> stratum_quotas(std::span<const double> fractions, int batch, int ranks,
                                std::int64_t step) {
  base::check(step >= 1 && batch >= 0 && ranks >= 1, "quotas are of a step that exists");
  std::vector<int> quotas = quotas_of(fractions, batch / ranks, step);
  const std::vector<int> rest = quotas_of(fractions, batch % ranks, step);
  for (std::size_t i = 0; i < quotas.size(); ++i) quotas[i] = quotas[i] * ranks + rest[i];
  return quotas;
}

std::vector<std::vector<std::int32_t>> pack_rows(std::span<const std::int32_t> lengths,
                                                 std::int32_t row_length, int most) {
  std::vector<std::int32_t> places(lengths.size());
  std::iota(places.begin(), places.end(), 0);
  std::vector<std::vector<std::int32_t>> rows;
  std::set<std::pair<std::int32_t, std::size_t>> open;  // room left, row
  for (const std::int32_t place : by_length(lengths, std::move(places))) {
    const std::int32_t length = lengths[static_cast<std::size_t>(place)];
    base::check(length <= row_length, "a sample fits a row");
    const auto fullest = open.lower_bound({length, 0});
    std::int32_t room = row_length;
    std::size_t row = rows.size();
    if (fullest == open.end()) {
      rows.emplace_back();
    } else {
      std::tie(room, row) = *fullest;
      open.erase(fullest);
    }
    rows[row].push_back(place);
    if (rows[row].size() < static_cast<std::size_t>(most)) open.insert({room - length, row});
  }
  return rows;
}

}  // namespace regatta::trainer
