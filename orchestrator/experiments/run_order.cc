#include "orchestrator/experiments/run_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/philox.h"

namespace regatta::orchestrator::experiments {
namespace {

using Row = std::vector<std::size_t>;  // layouts by their places

constexpr std::uint32_t kSite = 0x45585031;  // of random draws; no site of the trainer's

// Row r of Williams' square: 0, 1, n − 1, 2, n − 2, …, each plus r.
Row square_row(std::size_t layouts, std::size_t r) {
  Row row;
  for (std::size_t place = 0; place < layouts; ++place) {
    const std::size_t step = (place + 1) / 2;
    const std::size_t first = place % 2 == 1 ? step : (layouts - step) % layouts;
    row.push_back((first + r) % layouts);
  }
  return row;
}

Row reversed(Row row) {
  std::reverse(row.begin(), row.end());
  return row;
}

Row row_of_places(const Row& place_of) {
  Row row(place_of.size());
  for (std::size_t layout = 0; layout < place_of.size(); ++layout) row[place_of[layout]] = layout;
  return row;
}

// Three rows in which the places of each layout sum up to 3(n − 1)/2, rounded either way. In the
// second, layout k has place k + ⌊n / 2⌋ (mod n); the sums of these two are distinct, or in pairs
// where n is even, and the third has them from the largest to the smallest.
std::vector<Row> triple(std::size_t layouts) {
  Row first(layouts), second(layouts), third(layouts);
  std::iota(first.begin(), first.end(), 0);
  for (std::size_t k = 0; k < layouts; ++k) second[k] = (k + layouts / 2) % layouts;
  Row by_sum = first;
  std::stable_sort(by_sum.begin(), by_sum.end(), [&](std::size_t a, std::size_t b) {
    return first[a] + second[a] > first[b] + second[b];
  });
  for (std::size_t place = 0; place < layouts; ++place) third[by_sum[place]] = place;
  return {row_of_places(first), row_of_places(second), row_of_places(third)};
}

}  // namespace

std::vector<std::vector<std::size_t>> balanced_order(const OrderSize& size, std::uint64_t draw) {
  const std::size_t layouts = size.layouts;
  if (layouts == 0) return std::vector<Row>(size.seeds);
  std::size_t squares = size.seeds / layouts, rest = size.seeds % layouts;
  if (rest == 1 && squares > 0) {  // one row alone would be out of balance
    --squares;
    rest += layouts;
  }
  std::vector<Row> rows;
  for (std::size_t square = 0; square < squares; ++square) {
    for (std::size_t r = 0; r < layouts; ++r) {
      Row row = square_row(layouts, r);
      rows.push_back(square % 2 == 0 ? row : reversed(std::move(row)));
    }
  }
  if (rest == 1) {
    rows.push_back(square_row(layouts, 0));
    rest = 0;
  } else if (rest % 2 == 1) {
    for (Row& row : triple(layouts)) rows.push_back(std::move(row));
    rest -= 3;
  }
  for (std::size_t pair = 0; pair < rest / 2; ++pair) {
    rows.push_back(square_row(layouts, pair));
    rows.push_back(reversed(rows.back()));
  }
  Row drawn(layouts);
  std::iota(drawn.begin(), drawn.end(), 0);
  base::PhiloxStream stream(draw, 0, 0, kSite);
  for (std::size_t left = layouts; left > 1; --left) {
    std::swap(drawn[left - 1], drawn[stream.below(static_cast<std::uint32_t>(left))]);
  }
  for (Row& row : rows) {
    for (std::size_t& layout : row) layout = drawn[layout];
  }
  return rows;
}

}  // namespace regatta::orchestrator::experiments
