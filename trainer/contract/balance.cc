#include "trainer/contract/balance.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace regatta::trainer::contract {
namespace {

// Places by falling length, equal lengths in their order, so that every rank computes the same.
// By counting, since lengths are a few thousand at most.
std::vector<std::int32_t> by_length(std::span<const std::int32_t> lengths,
                                    const std::vector<std::int32_t>& places) {
  const auto length_of = [&](std::int32_t place) {
    return static_cast<std::size_t>(lengths[static_cast<std::size_t>(place)]);
  };
  std::size_t longest = 0;
  for (const std::int32_t place : places) longest = std::max(longest, length_of(place));
  std::vector<std::size_t> begin(longest + 2, 0);  // of a length; those above it come first
  for (const std::int32_t place : places) ++begin[longest - length_of(place) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<std::int32_t> sorted(places.size());
  for (const std::int32_t place : places) sorted[begin[longest - length_of(place)]++] = place;
  return sorted;
}

using Classes = std::array<std::vector<std::int32_t>, kStrata>;

// The places of each class, ascending.
Classes by_class(std::span<const std::int32_t> lengths, const StratumLimits& strata) {
  base::check(strata[0] > 0, "length classes have limits");
  Classes classes;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    classes[static_cast<std::size_t>(stratum_of(lengths[i], strata))].push_back(
        static_cast<std::int32_t>(i));
  }
  return classes;
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

void deal(std::span<const std::int32_t> lengths, const std::vector<std::int32_t>& places, Deal how,
          std::span<std::vector<std::int32_t>> to) {
  const std::vector<std::int32_t> sorted = by_length(lengths, places);
  if (how == Deal::LongestFirst) {
    deal_longest_first(lengths, sorted, to);
  } else {
    deal_rounds(sorted, how == Deal::Snake, to);
  }
}

// A sequence that holds class c counts[c] times, any beginning of which has each class's part up to
// 1 − 1/(2n − 2) for n classes, n > 1 (Tijdeman, "The chairman assignment problem", Discrete
// Mathematics 32, 1980): of the classes that may come next, that whose turn must come first.
std::vector<std::uint8_t> spread(std::span<const std::int64_t> counts) {
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const std::int64_t slack = 2 * static_cast<std::int64_t>(counts.size()) - 2;
  std::vector<std::int64_t> had(counts.size(), 0);
  std::vector<std::uint8_t> sequence;
  sequence.reserve(static_cast<std::size_t>(total));
  for (std::int64_t t = 1; t <= total; ++t) {
    std::size_t next = counts.size();
    double first_deadline = 0;
    for (std::size_t c = 0; c < counts.size(); ++c) {
      const std::int64_t owed = slack * (counts[c] * t - had[c] * total);  // · 1/(slack · total)
      if (counts[c] == 0 || owed < total) continue;
      const double deadline =
          static_cast<double>((slack - 1) * total - owed) / static_cast<double>(counts[c]);
      if (next == counts.size() || deadline < first_deadline) {
        next = c;
        first_deadline = deadline;
      }
    }
    base::check(next < counts.size(), "some class may always come next");
    ++had[next];
    sequence.push_back(static_cast<std::uint8_t>(next));
  }
  return sequence;
}

// Every rank gets as many of each class as any other; what is left of the classes then is dealt one
// by one, well mixed, so that neighbours (a node) get all classes of that too. Then each node deals
// what its ranks got among them.
Assignment stratify(std::span<const std::int32_t> lengths, const BalanceOptions& options) {
  const auto ranks = static_cast<std::size_t>(options.ranks);
  const Classes classes = by_class(lengths, options.strata);
  Assignment assignment(ranks);
  std::size_t next[kStrata] = {};
  std::int64_t loose[kStrata];
  for (std::size_t c = 0; c < kStrata; ++c) {
    loose[c] = std::ssize(classes[c]) % options.ranks;
    const std::size_t whole = classes[c].size() - static_cast<std::size_t>(loose[c]);
    for (; next[c] < whole; ++next[c]) assignment[next[c] % ranks].push_back(classes[c][next[c]]);
  }
  std::size_t dealt = 0;
  for (const std::uint8_t c : spread(loose)) {
    assignment[dealt++ % ranks].push_back(classes[c][next[c]++]);
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
    deal(lengths, places, options.deal, mine);
  }
  return assignment;
}

}  // namespace

int stratum_of(std::int32_t length, const StratumLimits& limits) {
  int stratum = 0;
  for (const std::int32_t limit : limits) stratum += length > limit ? 1 : 0;
  return stratum;
}

// Dynamic programming over the lengths that occur (Fisher 1958): the best c + 1 classes of the
// first j of them end in a class i … j behind the best c classes of the first i.
StratumLimits stratum_limits(std::span<const std::int32_t> lengths) {
  base::check(!lengths.empty(), "there are lengths");
  std::map<std::int32_t, double> histogram;
  for (const std::int32_t length : lengths) ++histogram[length];
  std::vector<std::int32_t> values;
  std::vector<double> count{0}, sum{0}, squares{0};  // of the first i lengths; whole numbers
  for (const auto& [length, times] : histogram) {
    const auto value = static_cast<double>(length);
    values.push_back(length);
    count.push_back(count.back() + times);
    sum.push_back(sum.back() + times * value);
    squares.push_back(squares.back() + times * value * value);
  }
  const std::size_t distinct = values.size();
  const auto spread = [&](std::size_t i, std::size_t j) {  // of a class, around its mean
    const double s = sum[j] - sum[i];
    return squares[j] - squares[i] - s * s / (count[j] - count[i]);
  };
  std::vector<double> best(distinct + 1, 0);
  for (std::size_t j = 1; j <= distinct; ++j) best[j] = spread(0, j);
  std::vector<std::vector<std::size_t>> from;  // of each further class: where it begins
  const std::size_t classes = std::min<std::size_t>(kStrata, distinct);
  for (std::size_t c = 1; c < classes; ++c) {
    std::vector<double> next(distinct + 1, 0);
    std::vector<std::size_t> begin(distinct + 1, 0);
    for (std::size_t j = c + 1; j <= distinct; ++j) {
      next[j] = std::numeric_limits<double>::infinity();
      for (std::size_t i = c; i < j; ++i) {
        const double all = best[i] + spread(i, j);
        if (all < next[j]) std::tie(next[j], begin[j]) = std::pair(all, i);
      }
    }
    best = std::move(next);
    from.push_back(std::move(begin));
  }
  StratumLimits limits;
  limits.fill(values.back());
  std::size_t end = distinct;
  for (std::size_t c = from.size(); c > 0; --c) {
    end = from[c - 1][end];
    limits[c - 1] = values[end - 1];
  }
  return limits;
}

Assignment assign(std::span<const std::int32_t> lengths, const BalanceOptions& options) {
  base::check(options.ranks > 0 && options.ranks_per_node > 0 &&
                  options.ranks % options.ranks_per_node == 0,
              "whole nodes of ranks share a step");
  if (options.strategy == Balance::Stratified) return stratify(lengths, options);
  Assignment assignment(static_cast<std::size_t>(options.ranks));
  if (options.strategy == Balance::Packed) {
    const auto rows = packed_rows(lengths, options.row_length, options.ranks);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::vector<std::int32_t>& rank = assignment[i % assignment.size()];
      rank.insert(rank.end(), rows[i].begin(), rows[i].end());
    }
    return assignment;
  }
  std::vector<std::int32_t> places(lengths.size());
  std::iota(places.begin(), places.end(), 0);
  if (options.strategy == Balance::None) {
    deal_rounds(places, false, assignment);
  } else {
    deal(lengths, places, options.deal, assignment);
  }
  return assignment;
}

std::vector<std::int32_t> stratified_order(std::span<const std::int32_t> lengths, int batch,
                                           int ranks, const StratumLimits& strata) {
  base::check(batch > 0 && ranks > 0 && lengths.size() % static_cast<std::size_t>(batch) == 0,
              "a window is whole steps");
  const std::size_t steps = lengths.size() / static_cast<std::size_t>(batch);
  const int groups = batch / ranks;  // of `ranks` samples of one class, in each step
  const Classes classes = by_class(lengths, strata);
  // Whole groups of each class, and beside them groups of loose samples.
  std::int64_t whole[kStrata + 1], loose[kStrata];
  whole[kStrata] = static_cast<std::int64_t>(steps) * groups;
  for (std::size_t c = 0; c < kStrata; ++c) {
    const std::int64_t count = std::ssize(classes[c]);
    whole[c] = count * groups / batch;
    whole[kStrata] -= whole[c];
    loose[c] = count - whole[c] * ranks;
  }
  const std::vector<std::uint8_t> group_classes = spread(whole), loose_classes = spread(loose);
  auto group = group_classes.begin(), sample = loose_classes.begin();
  std::size_t next[kStrata] = {};
  std::vector<std::int32_t> order;
  order.reserve(lengths.size());
  const auto take = [&](std::size_t c, int count) {
    for (; count > 0; --count) order.push_back(classes[c][next[c]++]);
  };
  for (std::size_t step = 0; step < steps; ++step) {
    int mixed = batch % ranks;
    for (int g = 0; g < groups; ++g, ++group) {
      if (*group < kStrata) {
        take(*group, ranks);
      } else {
        mixed += ranks;
      }
    }
    for (; mixed > 0; --mixed) take(*sample++, 1);
    std::sort(order.end() - batch, order.end());
  }
  return order;
}

std::vector<std::vector<std::int32_t>> pack_rows(std::span<const std::int32_t> lengths,
                                                 std::int32_t row_length, int most) {
  std::vector<std::int32_t> places(lengths.size());
  std::iota(places.begin(), places.end(), 0);
  std::vector<std::vector<std::int32_t>> rows;
  std::set<std::pair<std::int32_t, std::size_t>> open;  // room left, row
  for (const std::int32_t place : by_length(lengths, places)) {
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

std::vector<std::vector<std::int32_t>> packed_rows(std::span<const std::int32_t> lengths,
                                                   std::int32_t row_length, int ranks) {
  auto rows = pack_rows(lengths, row_length, kRowSamples);
  const std::size_t wanted = std::min(lengths.size(), static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; rows.size() < wanted; i = (i + 1) % rows.size()) {
    if (rows[i].size() == 1) continue;
    const std::int32_t place = rows[i].back();
    rows[i].pop_back();
    rows.push_back({place});
  }
  return rows;
}

}  // namespace regatta::trainer::contract
