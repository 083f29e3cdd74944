#include "trainer/numerics/replay_check.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "trainer/contract/random_site.h"
#include "trainer/numerics/batch_parcel.h"
#include "trainer/ranks/rank_agreement.h"

namespace regatta::trainer::numerics {
namespace {

// More shares than these, and the matter is no rank's.
constexpr std::size_t kMostShares = 4;

base::PhiloxStream draws(std::uint64_t seed, std::int64_t number, std::uint32_t purpose) {
  return {seed, purpose, static_cast<std::uint32_t>(number),
          static_cast<std::uint32_t>(contract::RandomSite::Replays)};
}

// What has to be alike for equal bits.
std::string kind_of(const device::DeviceProfile& profile) {
  std::string text = profile.kind + "|" + profile.model + "|" + profile.instruction_set + "|" +
                     std::to_string(profile.threads) + "|" + profile.products + "|" +
                     profile.weight_gradient_products + "|" + profile.attention;
  for (const auto& [name, version] : profile.libraries) text += "|" + name + " " + version;
  return text;
}

bool all_alike(const device::Device& device, ranks::HostCollectives& host) {
  const auto kinds = ranks::texts_of_ranks(host, kind_of(device.profile()));
  const auto on_host = ranks::texts_of_ranks(host, device.is_on_host() ? "host" : "");
  return std::all_of(kinds.begin(), kinds.end(), [&](const auto& k) { return k == kinds[0]; }) &&
         std::all_of(on_host.begin(), on_host.end(), [](const auto& k) { return k == "host"; });
}

void add_once(std::vector<Finding> found, std::vector<Finding>* all) {
  for (Finding& each : found) {
    const bool known = std::any_of(all->begin(), all->end(), [&](const Finding& other) {
      return other.rank == each.rank && other.suspects == each.suspects;
    });
    if (!known) all->push_back(std::move(each));
  }
}

}  // namespace

bool is_replayed(std::uint64_t seed, std::int64_t every, std::int64_t step) {
  const std::int64_t window = (step - 1) / every;
  const std::int64_t place = draws(seed, window, 0).below(static_cast<std::uint32_t>(every));
  return step == window * every + 1 + place;
}

int replay_distance(std::uint64_t seed, std::int64_t step, int ranks) {
  if (ranks == 1) return 0;
  return 1 + static_cast<int>(draws(seed, step, 1).below(static_cast<std::uint32_t>(ranks - 1)));
}

// One rank's samples, and what each rank made of them.
struct ReplayCheck::Share {
  int owner = 0, checker = 0;
  const TensorDigests &by_owner, &by_checker;
  const OfRanks& again;
};

ReplayCheck::ReplayCheck(device::Device& device, ranks::HostCollectives& host,
                         const model::Bert& model, std::uint64_t seed, std::int64_t every)
    : device_(device),
      host_(host),
      model_(model),
      seed_(seed),
      every_(every),
      crosses_(host.ranks() > 1 && all_alike(device, host)) {
  base::check(every >= 1, "some steps are replayed");
}

TensorDigests ReplayCheck::gradients() {
  return tensor_digests(device_, model_.gradients(), model_.table());
}

ReplayCheck::OfRanks ReplayCheck::gathered(const TensorDigests& mine) {
  const std::size_t size = mine.size();
  std::vector<std::uint64_t> all(size * static_cast<std::size_t>(host_.ranks()));
  host_.all_gather(mine.data(), static_cast<std::int64_t>(size * sizeof mine[0]), all.data());
  OfRanks ranks;
  for (auto at = all.begin(); at != all.end(); at += static_cast<std::ptrdiff_t>(size)) {
    ranks.emplace_back(at, at + static_cast<std::ptrdiff_t>(size));
  }
  return ranks;
}

void ReplayCheck::replay(std::int64_t step, const std::vector<samples::PackedBatch>& mine,
                         const Compute& compute) {
  const int ranks = host_.ranks();
  if (!crosses_) {
    compute(mine);
  } else {
    const int distance = replay_distance(seed_, step, ranks);
    ranks::Parcels parcels(static_cast<std::size_t>(ranks));
    parcels[static_cast<std::size_t>((host_.rank() + distance) % ranks)] = pack_batches(mine);
    const ranks::Parcels got = host_.all_to_all(parcels);
    const int owner = (host_.rank() + ranks - distance) % ranks;
    compute(unpack_batches(got[static_cast<std::size_t>(owner)]));
  }
  replayed_ = gradients();
}

std::vector<samples::PackedBatch> ReplayCheck::batches_of(
    int rank, const std::vector<samples::PackedBatch>& mine) {
  std::vector<std::byte> parcel;
  if (rank == host_.rank()) parcel = pack_batches(mine);
  auto size = static_cast<std::int64_t>(parcel.size());
  host_.broadcast(&size, sizeof size, rank);
  parcel.resize(static_cast<std::size_t>(size));
  host_.broadcast(parcel.data(), size, rank);
  return unpack_batches(parcel);
}

Finding ReplayCheck::finding(int rank, const char* quantity, const TensorDigests& is,
                             const TensorDigests& should_be) const {
  Finding found{rank, {rank}, quantity, "", 0};
  for (std::size_t i = 0; i < is.size(); ++i) {
    if (is[i] == should_be[i]) continue;
    if (found.tensors++ == 0) found.tensor = model_.table().tensors[i].name;
  }
  return found;
}

std::vector<Finding> ReplayCheck::self_findings(const OfRanks& own, const OfRanks& again) const {
  std::vector<Finding> found;
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    if (own[rank] == again[rank]) continue;
    found.push_back(finding(static_cast<int>(rank), "gradient", own[rank], again[rank]));
  }
  return found;
}

std::vector<Finding> ReplayCheck::findings_of(const Share& share, const OfRanks& weights) const {
  std::vector<std::pair<int, const TensorDigests*>> made{{share.owner, &share.by_owner},
                                                         {share.checker, &share.by_checker}};
  for (std::size_t rank = 0; rank < share.again.size(); ++rank) {
    made.emplace_back(static_cast<int>(rank), &share.again[rank]);
  }
  std::vector<Computation> computations;
  for (const auto& [rank, digests] : made) computations.push_back({rank, digest_of(*digests)});
  const Verdict verdict = judge(computations);
  if (verdict.wrong.empty()) {
    Finding found = finding(-1, "gradient", share.by_owner, share.by_checker);
    found.suspects = {std::min(share.owner, share.checker), std::max(share.owner, share.checker)};
    return {found};
  }
  std::vector<Finding> all;
  for (const int wrong : verdict.wrong) {
    // What it made, and what it should have made: a right rank's, or else its own other one.
    const TensorDigests *is = nullptr, *should_be = nullptr;
    const TensorDigests* right_weights = nullptr;
    for (std::size_t i = 0; i < made.size(); ++i) {
      const bool is_true = verdict.truth && computations[i].digest == *verdict.truth;
      if (made[i].first == wrong && !is_true && is == nullptr) {
        is = made[i].second;
      } else if (is_true || (!verdict.truth && made[i].first == wrong && *made[i].second != *is)) {
        should_be = made[i].second;
      }
      const auto rank = static_cast<std::size_t>(made[i].first);
      if (is_true && made[i].first != wrong) right_weights = &weights[rank];
    }
    base::check(is != nullptr && should_be != nullptr, "a wrong rank differs from something");
    const TensorDigests& its_weights = weights[static_cast<std::size_t>(wrong)];
    const bool of_weights = right_weights != nullptr && its_weights != *right_weights;
    all.push_back(of_weights ? finding(wrong, "weight", its_weights, *right_weights)
                             : finding(wrong, "gradient", *is, *should_be));
  }
  return all;
}

std::vector<Finding> ReplayCheck::compare(std::int64_t step,
                                          const std::vector<samples::PackedBatch>& mine,
                                          const Compute& compute) {
  const TensorDigests own = gradients();
  const int ranks = host_.ranks();
  const int distance = crosses_ ? replay_distance(seed_, step, ranks) : 0;
  const std::uint64_t two[] = {digest_of(own), digest_of(replayed_)};
  std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(ranks));
  host_.all_gather(two, sizeof two, all.data());
  const auto checker_of = [&](int owner) { return (owner + distance) % ranks; };
  std::vector<int> differ;  // owners
  for (int owner = 0; owner < ranks; ++owner) {
    const auto place = 2 * static_cast<std::size_t>(owner);
    if (all[place] != all[2 * static_cast<std::size_t>(checker_of(owner)) + 1]) {
      differ.push_back(owner);
    }
  }
  if (differ.empty()) {
    checked_step_ = step;
    return {};
  }
  const OfRanks firsts = gathered(own), replays = gathered(replayed_);
  if (!crosses_) return self_findings(firsts, replays);
  const OfRanks weights = gathered(tensor_digests(device_, model_.parameters(), model_.table()));
  std::vector<Finding> found;
  for (std::size_t i = 0; i < std::min(differ.size(), kMostShares); ++i) {
    const int owner = differ[i], checker = checker_of(owner);
    compute(batches_of(owner, mine));
    const OfRanks again = gathered(gradients());
    add_once(findings_of({owner, checker, firsts[static_cast<std::size_t>(owner)],
                          replays[static_cast<std::size_t>(checker)], again},
                         weights),
             &found);
  }
  return found;
}

}  // namespace regatta::trainer::numerics
