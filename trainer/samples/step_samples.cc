#include "trainer/samples/step_samples.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "trainer/contract/balance.h"
#include "trainer/samples/sample_parcel.h"

namespace regatta::trainer::samples {
namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

// Places of a step belong to ranks in turn before balancing: place p is of rank p mod R.
struct StepSamples::State {
  SampleStream samples;
  ranks::HostCollectives& channel;
  std::int64_t batch;  // of `stratified`, all steps'
  std::int32_t max_length;
  contract::Balance strategy;
  contract::ExchangeWay exchange;
  contract::BalanceOptions options;
  int rank;

  // Of `stratified`: the places of one window in the order in which its steps take them.
  std::int64_t window = -1;
  std::vector<std::int32_t> window_lengths, window_order;

  [[nodiscard]] bool stratified() const { return strategy == contract::Balance::Stratified; }

  void find_strata() {
    std::vector<std::int32_t> lengths;
    for (std::int64_t i = 0; i < contract::kStratumSamples; ++i)
      lengths.push_back(samples.length(i));
    options.strata = contract::stratum_limits(lengths);
  }
  void find_window(std::int64_t step) {
    if (options.strata[0] == 0) find_strata();
    const std::int64_t wanted = (step - 1) / contract::kWindowSteps;
    if (wanted == window) return;
    window = -1;  // should a length not be had
    window_lengths.resize(index(contract::kWindowSteps * batch));
    for (std::int64_t i = 0; i < std::ssize(window_lengths); ++i) {
      window_lengths[index(i)] = samples.length(wanted * contract::kWindowSteps * batch + i);
    }
    window_order = contract::stratified_order(window_lengths, static_cast<int>(batch),
                                              options.ranks, options.strata);
    window = wanted;
  }
  void begin(const StepPlace& place) {
    base::check(place.step >= 1 && place.batch > 0 && place.first >= 0, "step 1 is the first");
    if (!stratified()) return;
    base::check(place.batch == batch && place.first == (place.step - 1) * place.batch,
                "windows are of steps of one batch");
    find_window(place.step);
  }
  // Of the window, what place of the step takes.
  [[nodiscard]] std::int32_t window_place(std::int64_t step, std::int64_t place) const {
    return window_order[index((step - 1) % contract::kWindowSteps * batch + place)];
  }
  // The run's number of the sample at a place of the step.
  [[nodiscard]] std::int64_t number(const StepPlace& at, std::int64_t place) const {
    if (!stratified()) return at.first + place;
    return window * contract::kWindowSteps * batch + window_place(at.step, place);
  }

  // Of all places, read here.
  [[nodiscard]] std::vector<std::int32_t> lengths(const StepPlace& at) const {
    std::vector<std::int32_t> lengths(index(at.batch));
    for (std::int64_t place = 0; place < at.batch; ++place) {
      lengths[index(place)] = stratified() ? window_lengths[index(window_place(at.step, place))]
                                           : samples.length(number(at, place));
    }
    return lengths;
  }
  // Of all places, each read by the rank that has it.
  [[nodiscard]] std::vector<std::int32_t> gathered_lengths(const StepPlace& at) const {
    const std::int64_t most = (at.batch + options.ranks - 1) / options.ranks;
    std::vector<std::int32_t> mine(index(most), 0), all(index(most * options.ranks));
    for (std::int64_t i = 0; rank + i * options.ranks < at.batch; ++i) {
      mine[index(i)] = samples.length(number(at, rank + i * options.ranks));
    }
    channel.all_gather(mine.data(), most * static_cast<std::int64_t>(sizeof mine[0]), all.data());
    std::vector<std::int32_t> lengths(index(at.batch));
    for (std::int64_t place = 0; place < at.batch; ++place) {
      const std::int64_t from = place % options.ranks;
      const std::int32_t length = all[index(from * most + place / options.ranks)];
      if (length < 1 || length > max_length) {
        throw base::Error(base::Code::Retry,
                          "rank " + std::to_string(from) + " says that a sample of step " +
                              std::to_string(at.step) + " has " + std::to_string(length) +
                              " tokens; the most is " + std::to_string(max_length));
      }
      lengths[index(place)] = length;
    }
    return lengths;
  }

  // A rank's places of the step, ascending.
  [[nodiscard]] contract::Assignment assignment(const StepPlace& at) const {
    std::vector<std::int32_t> known;
    if (options.ranks == 1 || strategy == contract::Balance::None) {
      known.assign(index(at.batch), 1);  // nobody looks
    } else {
      known = strategy == contract::Balance::Exchange ? gathered_lengths(at) : lengths(at);
    }
    contract::BalanceOptions how = options;
    if (options.ranks == 1) how.strategy = contract::Balance::None;
    contract::Assignment places = contract::assign(known, how);
    for (std::vector<std::int32_t>& rank_places : places) {
      std::sort(rank_places.begin(), rank_places.end());
    }
    return places;
  }

  [[nodiscard]] SharePlaces places(const StepPlace& at, std::vector<std::int32_t> of_step) const {
    SharePlaces share;
    share.ordinals = std::move(of_step);
    for (const std::int32_t place : share.ordinals) share.numbers.push_back(number(at, place));
    return share;
  }

  // Every rank makes its own samples and sends them to the ranks that train on them.
  [[nodiscard]] StepShare move(const StepPlace& at) const {
    const contract::Assignment places = assignment(at);
    std::map<std::int32_t, Sample> here;
    ranks::Parcels to(index(options.ranks));
    StepShare share;
    for (int other = 0; other < options.ranks; ++other) {
      std::vector<PlacedSample> made;
      for (const std::int32_t place : places[index(other)]) {
        if (place % options.ranks != rank) continue;
        made.push_back({place, samples.at(number(at, place))});
      }
      if (other == rank) {
        for (PlacedSample& placed : made) here[placed.place] = std::move(placed.sample);
      } else if (!made.empty()) {
        to[index(other)] = make_parcel(at.step, made);
        share.moved_bytes += std::ssize(to[index(other)]);
      }
    }
    const ranks::Parcels from = channel.all_to_all(to);
    base::check(from.size() == to.size(), "every rank sends a parcel");
    share.ordinals = places[index(rank)];
    for (int other = 0; other < options.ranks; ++other) {
      if (other == rank) continue;
      std::vector<std::int32_t> expected;
      for (const std::int32_t place : share.ordinals) {
        if (place % options.ranks == other) expected.push_back(place);
      }
      if (expected.empty() && from[index(other)].empty()) continue;
      for (PlacedSample& placed : open(from[index(other)], at.step, other, expected)) {
        here[placed.place] = std::move(placed.sample);
      }
    }
    for (auto& [place, sample] : here) share.samples.push_back(std::move(sample));
    return share;
  }
  [[nodiscard]] std::vector<PlacedSample> open(const std::vector<std::byte>& parcel,
                                               std::int64_t step, int from,
                                               const std::vector<std::int32_t>& expected) const {
    try {
      return open_parcel(parcel, step, expected, max_length);
    } catch (const base::Error& error) {
      throw base::Error(error.code(), std::string(error.what()) + " (rank " + std::to_string(from) +
                                          ", step " + std::to_string(step) + ")");
    }
  }
};

StepSamples::StepSamples(const contract::RunConfig& config, SampleStream samples,
                         ranks::HostCollectives& channel) {
  const bool exchanges = config.balance.strategy == contract::Balance::Exchange;
  base::check(config.batch_size > 0 && config.ranks > 0 && config.ranks_per_node > 0 &&
                  (channel.ranks() == config.ranks || !exchanges),
              "a batch for all ranks");
  const bool node = config.balance.strategy == contract::Balance::Stratified;
  if (node && config.ranks % config.ranks_per_node != 0) {
    throw base::Error(base::Code::User, std::to_string(config.ranks) +
                                            " ranks are not whole nodes of " +
                                            std::to_string(config.ranks_per_node) +
                                            ", which balance.strategy stratified needs; use another"
                                            " strategy, or set ranks_per_node to a divisor");
  }
  const contract::BalanceOptions options{config.balance.strategy,
                                         config.balance.deal,
                                         config.ranks,
                                         node ? config.ranks_per_node : 1,
                                         static_cast<std::int32_t>(config.data.max_length),
                                         {}};
  state_.reset(new State{std::move(samples),
                         channel,
                         config.batch_size,
                         config.data.max_length,
                         config.balance.strategy,
                         config.balance.exchange,
                         options,
                         channel.rank(),
                         -1,
                         {},
                         {}});
}

StepSamples::~StepSamples() = default;

StepShare StepSamples::share(std::int64_t step) {
  return share(StepPlace{step, state_->batch, (step - 1) * state_->batch});
}

bool StepSamples::moves() const {
  return state_->strategy == contract::Balance::Exchange &&
         state_->exchange == contract::ExchangeWay::Move && state_->options.ranks > 1;
}

SharePlaces StepSamples::places(const StepPlace& place) {
  base::check(!moves(), "samples that move have no places");
  state_->begin(place);
  return state_->places(place, state_->assignment(place)[index(state_->rank)]);
}

std::vector<SharePlaces> StepSamples::places(const StepPlace& place, int first, int count) {
  state_->begin(place);
  base::check(state_->strategy != contract::Balance::Exchange && first >= 0 && count >= 0 &&
                  first + count <= state_->options.ranks,
              "the shares are of ranks");
  const contract::Assignment all = state_->assignment(place);
  std::vector<SharePlaces> shares;
  for (int rank = first; rank < first + count; ++rank) {
    shares.push_back(state_->places(place, all[index(rank)]));
  }
  return shares;
}

StepShare StepSamples::read(SharePlaces places) const {
  StepShare share;
  share.ordinals = std::move(places.ordinals);
  for (const std::int64_t number : places.numbers) {
    share.samples.push_back(state_->samples.at(number));
  }
  return share;
}

StepShare StepSamples::share(const StepPlace& place) {
  if (!moves()) return read(places(place));
  state_->begin(place);
  return state_->move(place);
}

}  // namespace regatta::trainer::samples
