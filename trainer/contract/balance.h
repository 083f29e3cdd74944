// Which rank gets which samples of a step. Without padding a rank's step lasts as long as its
// tokens, so the slowest rank decides: these pure functions from lengths to an assignment keep the
// largest share near the mean. They never change which samples a step trains on.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace regatta::trainer::contract {

enum class Balance {
  None,           // in turn
  Stratified,     // every rank gets its part of every length class; nodes deal theirs again
  GlobalPresort,  // all samples are dealt by length
  Exchange,       // the same, where each rank knows only the lengths of its own data at first
  Packed          // rows of up to three samples are dealt, for comparison
};
enum class Deal {
  Stride,       // by falling length, rank r takes every R-th (Baidu, arXiv 2208.08124)
  Snake,        // by falling length, every second round backwards (Samsung, arXiv 2402.02447)
  LongestFirst  // the longest that is left to the rank with least so far (Graham 1969)
};

// Length classes of `stratified`: the class of a length is the number of limits below it.
constexpr int kStrata = 4;
using StratumLimits = std::array<std::int32_t, kStrata - 1>;
[[nodiscard]] int stratum_of(std::int32_t length, const StratumLimits& limits);
// The classes within which these lengths vary least (Σ of squared distances to the class's mean,
// exactly; of equals the shortest limits): what a draw of fixed shares of the classes leaves to
// chance (Dalenius 1950). Where there are fewer lengths than classes, the last limits are the
// longest length. Throws nothing; `lengths` is not empty. Time (longest length)².
[[nodiscard]] StratumLimits stratum_limits(std::span<const std::int32_t> lengths);
// Of a run: these many first samples decide the classes of all, so that they depend on nothing but
// run file and dataset.
constexpr int kStratumSamples = 16384;

struct BalanceOptions {
  Balance strategy = Balance::None;
  Deal deal = Deal::LongestFirst;
  int ranks = 1;
  int ranks_per_node = 1;       // divides ranks; stratified deals again within a node
  std::int32_t row_length = 0;  // of packed: no length is above it
  StratumLimits strata = {};    // of stratified
};

// rank → places in the step's batch, in the order in which they were dealt.
using Assignment = std::vector<std::vector<std::int32_t>>;

// Every place of [0, lengths.size()) once; each rank gets ⌊B/R⌋ or ⌈B/R⌉ samples, of `packed` as
// many rows of packed_rows(). With B ≥ R no rank is without a sample. Time B·log B.
[[nodiscard]] Assignment assign(std::span<const std::int32_t> lengths,
                                const BalanceOptions& options);

// Which samples of a window of steps each of them trains on, so that all steps have nearly the same
// classes: places of the window, the first `batch` of them for its first step and so on, every
// place once, ascending within a step. lengths.size() is a multiple of `batch`. In a step the
// samples of a class are a multiple of `ranks`, so that every rank's share has the same classes,
// but for the batch's remainder by ranks and for the fewer than kStrata groups of the window that
// are left over from the classes; after every step a class has had its part of the window up
// to 1.75·ranks + 1 samples. A step's samples therefore depend on the number of ranks too; those of
// a window do not.
[[nodiscard]] std::vector<std::int32_t> stratified_order(std::span<const std::int32_t> lengths,
                                                         int batch, int ranks,
                                                         const StratumLimits& strata);
constexpr int kWindowSteps = 64;  // of training: steps 1 to 64, 65 to 128, …

// Rows of at most `most` samples whose lengths add up to at most `row_length`, longest sample first
// into the fullest row that takes it (best fit; Krell et al., "Efficient sequence packing without
// cross-contamination", arXiv 2107.02027, packs the histogram the same way). For comparison: the
// unpadded model needs no rows. Every place once; lengths are at most row_length.
[[nodiscard]] std::vector<std::vector<std::int32_t>> pack_rows(
    std::span<const std::int32_t> lengths, std::int32_t row_length, int most);

// The rows that `packed` deals to ranks in turn: pack_rows() of at most kRowSamples. Where that
// makes fewer rows than there are ranks, rows give up samples to rows of their own, as long as
// there are any, so that no rank is idle.
constexpr int kRowSamples = 3;
[[nodiscard]] std::vector<std::vector<std::int32_t>> packed_rows(
    std::span<const std::int32_t> lengths, std::int32_t row_length, int ranks);

}  // namespace regatta::trainer::contract
