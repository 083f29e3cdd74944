#include "topology/nccl/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace regatta::topology::nccl {
namespace {

constexpr int kMostChannelsSearched = 32;
constexpr int kMostChannels = 64;

double of(int value) { return static_cast<double>(value); }
int log2_of(int value) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(value))) - 1;
}
std::size_t index(Algorithm algorithm) { return static_cast<std::size_t>(algorithm); }
std::size_t index(Protocol protocol) { return static_cast<std::size_t>(protocol); }

bool is_nvls(Algorithm a) { return a == Algorithm::Nvls || a == Algorithm::NvlsTree; }
bool is_collnet(Algorithm a) {
  return a == Algorithm::CollNetDirect || a == Algorithm::CollNetChain;
}
bool is_gather_or_scatter(Collective c) {
  return c == Collective::AllGather || c == Collective::ReduceScatter;
}

// Of a ring: sends of one rank, in units of the call's bytes divided by the ranks.
int steps_of(Collective collective, int ranks) {
  if (collective == Collective::AllReduce) return 2 * (ranks - 1);
  return is_gather_or_scatter(collective) ? ranks - 1 : ranks;
}

// How often `speed` goes into `gb_per_s`, with room for rounding.
int times(double gb_per_s, double speed) {
  return static_cast<int>(std::min(gb_per_s / speed + 1e-6, 1e6));
}

// The channels that the NICs and the GPUs' links carry at `speed`.
int channels_at(const Allocation& a, double speed) {
  int count = kMostChannelsSearched;
  if (a.nodes > 1) count = std::min(count, a.nics * times(a.gb_per_s_a_nic, speed));
  if (a.ranks_per_node > 1) count = std::min(count, times(a.gb_per_s_within, speed));
  return count;
}

const double* speeds_of(const Allocation& a) {
  return a.nodes > 1 ? channel_speeds_between_nodes(a.compute_capability)
                     : channel_speeds_within_node(a.compute_capability);
}

NcclChannels search_ring(const Allocation& a) {
  NcclChannels best;
  for (const double* speed = speeds_of(a); *speed > 0; ++speed) {
    const int count = channels_at(a, *speed);
    if (count * *speed > best.count * best.gb_per_s_within + 1e-6) best = {count, *speed, *speed};
  }
  const bool doubled =
      best.gb_per_s_within >= 25 &&
      (a.compute_capability <= 80 || best.gb_per_s_within >= 50 || best.count <= 4);
  if (doubled && best.count * 2 <= kMostChannelsSearched) {
    best = {best.count * 2, best.gb_per_s_within / 2, best.gb_per_s_between / 2};
  }
  return best;
}

// What only goes up and down between nodes leaves the links inside a node room for more speed, up
// to twice that of the network.
NcclChannels faster_within(const Allocation& a, NcclChannels channels) {
  if (a.nodes == 1 || a.ranks_per_node == 1) return channels;
  const double* speeds = channel_speeds_between_nodes(a.compute_capability);
  while (speeds[1] > 0 && *speeds > channels.gb_per_s_within + 1e-6) ++speeds;
  for (const double* first = channel_speeds_between_nodes(a.compute_capability); speeds > first;) {
    --speeds;
    if (channels.gb_per_s_within >= 2 * channels.gb_per_s_between) break;
    if (channels.count * *speeds > a.gb_per_s_within + 1e-6) break;
    channels.gb_per_s_within = *speeds;
  }
  return channels;
}

// A channel per GPU, so that all of them carry the same. Where the network has room for more, it
// may go up to twice the speed within (one node has all the room).
NcclChannels search_nvls(const Allocation& a) {
  const int count = std::min(kMostChannelsSearched, a.ranks_per_node);
  const double* const speeds = speeds_of(a);
  const double* speed = speeds;
  while (*speed > 0 && channels_at(a, *speed) < count) ++speed;
  if (*speed == 0) return {};
  NcclChannels found = {count, *speed, *speed};
  while (speed > speeds && found.gb_per_s_between < 2 * found.gb_per_s_within) {
    --speed;
    if (a.nodes > 1 && a.nics * times(a.gb_per_s_a_nic, *speed) < count) break;
    found.gb_per_s_between = *speed;
  }
  return faster_within(a, found);
}

void check_allocation(const Allocation& a) {
  const auto fail = [](const std::string& what) {
    throw base::Error(base::Code::User, "the allocation has " + what);
  };
  if (a.nodes < 1 || a.ranks_per_node < 1) fail("no ranks; give nodes and ranks of each");
  if (a.nodes > CostModel::kMostRanks / a.ranks_per_node) {
    fail("more than " + std::to_string(CostModel::kMostRanks) + " ranks; give fewer");
  }
  const bool rate = std::isfinite(a.gb_per_s_within) && std::isfinite(a.gb_per_s_a_nic) &&
                    std::isfinite(a.nic_latency_us) && a.nic_latency_us >= 0;
  if (!rate) fail("a rate or latency that is not a number");
  // The slowest channel that NCCL knows.
  if (a.ranks_per_node > 1 && a.gb_per_s_within < 0.12) {
    fail("no bandwidth between the GPUs of a node; give GB/s of one direction");
  }
  for (const auto& told : {a.ring, a.tree, a.nvls}) {
    if (!told) continue;
    const bool speeds = told->gb_per_s_within > 0 && std::isfinite(told->gb_per_s_within) &&
                        told->gb_per_s_between > 0 && std::isfinite(told->gb_per_s_between);
    if (told->count < 1 || told->count > kMostChannels || !speeds) {
      fail("channels that no search finds; give 1 to 64 and their speed");
    }
  }
  if (a.nodes > 1 && (a.nics < 1 || a.gb_per_s_a_nic < 0.12)) {
    fail("several nodes and no NICs; give their number and GB/s");
  }
}

}  // namespace

CostModel::CostModel(const Allocation& allocation, const NcclTables& tables)
    : allocation_(allocation), tables_(&tables) {
  check_allocation(allocation_);
  const int capability = allocation_.compute_capability;
  row_ = capability >= 100 ? 3 : capability >= 90 ? 2 : capability >= 80 ? 1 : 0;
  column_ = std::min(allocation_.nodes, 3) - 1;
  ring_ = allocation_.ring ? *allocation_.ring : search_ring(allocation_);
  tree_ = allocation_.tree ? *allocation_.tree : faster_within(allocation_, ring_);
  nvls_ = allocation_.nvls ? *allocation_.nvls : search_nvls(allocation_);
}

const NcclChannels& CostModel::found(Algorithm algorithm) const {
  if (is_nvls(algorithm)) return nvls_;
  return algorithm == Algorithm::Ring || algorithm == Algorithm::Pat ? ring_ : tree_;
}

int CostModel::channels_of(Algorithm algorithm) const {
  if (is_nvls(algorithm)) {
    if (allocation_.compute_capability < 100) return 16;
    return allocation_.nodes == 1 ? 24 : 32;
  }
  // The search counts channels that are used in one direction; a kernel has one block for each way.
  int count = 2 * found(algorithm).count;
  if (algorithm == Algorithm::Ring && allocation_.compute_capability >= 90 &&
      allocation_.nodes > 1 && ring_.gb_per_s_within > 45 && count < 16) {
    count *= 2;
  }
  return std::clamp(count, 1, kMostChannels);
}

bool CostModel::is_offered(const Call& call, const Way& way) const {
  const Allocation& a = allocation_;
  const bool all_reduce = call.collective == Collective::AllReduce;
  const bool gather_or_scatter = is_gather_or_scatter(call.collective);
  if (ranks() < 2) return false;
  if (way.protocol == Protocol::Ll128) {
    const graph::PathType worst_to_nic =
        a.compute_capability >= 90 ? graph::PathType::Pxn : graph::PathType::Pxb;
    const bool safe = a.one_capability && a.compute_capability >= 70 &&
                      (a.ranks_per_node == 1 || a.within <= graph::PathType::Nvb) &&
                      (a.nodes == 1 || a.to_nic <= worst_to_nic);
    if (!safe) return false;
  }
  if (way.algorithm == Algorithm::Ring) return true;
  if (way.algorithm == Algorithm::Tree) return all_reduce;
  if (way.protocol != Protocol::Simple) return false;
  if (is_nvls(way.algorithm)) {
    const bool machine = a.compute_capability >= 90 && a.nvswitch && a.ranks_per_node >= 2;
    const bool op = call.collective == Collective::AllGather || call.op == ReduceOp::Sum;
    if (!machine || !op || nvls_.count < 2) return false;
    if (way.algorithm == Algorithm::NvlsTree) return all_reduce && a.nodes >= 2;
    return (all_reduce || (gather_or_scatter && a.ranks_per_node <= 32)) &&
           (a.nodes == 1 || (a.sharp && (all_reduce || a.nics >= a.ranks_per_node)));
  }
  if (is_collnet(way.algorithm)) {
    if (!a.sharp || a.nodes < 2 || a.ranks_per_node > 8) return false;
    if (way.algorithm == Algorithm::CollNetChain) return all_reduce;
    return a.nvswitch && (all_reduce || (gather_or_scatter && a.nics >= a.ranks_per_node));
  }
  const bool scaled = call.collective == Collective::ReduceScatter && call.op != ReduceOp::Sum;
  return gather_or_scatter && a.ranks_per_node == 1 && !scaled;
}

double CostModel::nvls_gb_per_s(const Call& call, Algorithm algorithm) const {
  const double count = of(nvls_.count);
  const double local = of(allocation_.ranks_per_node);
  double within = nvls_.gb_per_s_within * tables_->nvls_efficiency[row_] * (count - 1) / count;
  within *= call.collective == Collective::AllReduce ? 2 : (local - 1) / local;
  double between = nvls_.gb_per_s_between;
  if (algorithm == Algorithm::NvlsTree) {
    if (allocation_.nodes <= 2) between *= 2;
    between = std::min(between, tables_->nvls_tree_gb_per_s[row_][column_]);
  }
  return count * std::min(within, between);
}

double CostModel::collnet_gb_per_s(const Call& call) const {
  const double local = of(allocation_.ranks_per_node);
  if (is_gather_or_scatter(call.collective)) {
    return local * std::min(tree_.gb_per_s_within, 0.9 * tree_.gb_per_s_between);
  }
  const double gpus_a_channel = local / of(tree_.count);
  const double bus = of(tree_.count) * tree_.gb_per_s_within;
  return bus / (gpus_a_channel - (gpus_a_channel - 1) / 2) *
         (allocation_.compute_capability >= 90 ? .85 : 1);
}

// Over the bus, as NCCL reckons it before it knows what passes how often.
double CostModel::bus_gb_per_s(const Call& call, const Way& way) const {
  const NcclChannels& channels = found(way.algorithm);
  const double count = of(channels.count);
  const bool within = allocation_.nodes <= 2 || is_collnet(way.algorithm);
  const double bus = count * (within ? channels.gb_per_s_within : channels.gb_per_s_between);
  // LL on one node depends on the GPU, on several on the host.
  const int host_row = allocation_.host == HostCpu::Amd ? 1 : 0;
  const double most_ll = tables_->ll_gb_per_s[allocation_.nodes == 1 ? row_ : host_row][column_];
  switch (way.algorithm) {
    case Algorithm::Ring:
      if (way.protocol == Protocol::Ll) return std::min(most_ll, bus / 2);
      if (way.protocol == Protocol::Simple) return bus;
      return std::min(bus * .92, count * tables_->ring_ll128_gb_per_s[row_][column_]);
    case Algorithm::Tree: {
      const double tree = std::min(bus * .92, count * tables_->tree_gb_per_s[row_][column_]);
      if (way.protocol == Protocol::Ll) return std::min(tree / 3.8, most_ll);
      if (way.protocol == Protocol::Simple) return tree;
      return std::min(tree * (allocation_.nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                      count * tables_->tree_ll128_gb_per_s[row_][column_]);
    }
    case Algorithm::Pat:
      return bus * .75;
    case Algorithm::CollNetDirect:
      return collnet_gb_per_s(call);
    case Algorithm::CollNetChain:
      return bus;
    default:
      return nvls_gb_per_s(call, way.algorithm);
  }
}

double CostModel::gb_per_s(const Call& call, const Way& way) const {
  if (!is_offered(call, way)) return 0;
  double gb_per_s = bus_gb_per_s(call, way);
  if (way.algorithm == Algorithm::Ring ||
      (is_nvls(way.algorithm) && !is_gather_or_scatter(call.collective))) {
    gb_per_s *= of(ranks()) / of(steps_of(call.collective, ranks()));
  } else if (!is_gather_or_scatter(call.collective)) {
    gb_per_s /= 2;
  }
  if (way.algorithm == Algorithm::Tree) {
    if (allocation_.plain_tree) gb_per_s *= .85;
    const int size = static_cast<int>(std::bit_width(call.bytes)) - 7;  // 64 B: 0
    if (size >= 0 && size < NcclTables::kTreeSizes)
      gb_per_s *= tables_->tree_share[index(way.protocol)][size];
  }
  const int channels = channels_of(way.algorithm);
  if (way.channels > 0 && way.channels < channels) gb_per_s *= of(way.channels) / of(channels);
  return gb_per_s;
}

double CostModel::latency_us(const Call& call, const Way& way) const {
  const Allocation& a = allocation_;
  const std::size_t p = index(way.protocol);
  const std::size_t row = index(way.algorithm);
  const bool simple = way.protocol == Protocol::Simple;
  const auto& hops = a.within == graph::PathType::Nvl ? tables_->nvlink_us : tables_->pcie_us;
  const double base = tables_->base_us[row][p];
  const double within = hops[row][p];
  // A GPU that is alone on its node waits for the network as a tree does.
  const std::size_t network_row = a.ranks_per_node == 1 ? index(Algorithm::Tree) : row;
  const double between = tables_->network_us[network_row][p] + a.nic_latency_us * (simple ? 2 : 1);
  const double local = of(a.ranks_per_node);
  const double levels = of(log2_of(a.nodes));
  switch (way.algorithm) {
    case Algorithm::Ring: {
      if (!is_gather_or_scatter(call.collective) && call.collective != Collective::AllReduce) {
        return base + (a.nodes == 1 ? within : tables_->network_us[row][p]);
      }
      double post = 0;  // of every send, where some go to the network
      if (a.nodes > 1) post = (a.host == HostCpu::Amd ? 2.0 : 1.0) * (simple ? 3 : 1);
      const int steps = steps_of(call.collective, ranks());
      const int network = a.nodes == 1 ? 0 : steps_of(call.collective, a.nodes);
      double us = base + of(steps - network) * std::max(within, post) + of(network) * between;
      const double bytes_a_slice =
          static_cast<double>(call.bytes) / (of(channels_of(way.algorithm)) * of(ranks()));
      if (simple && a.nodes > 1 && call.collective == Collective::AllReduce &&
          bytes_a_slice >= 64) {
        us *= a.compute_capability < 80 ? 1.9 : 1.4;
      }
      return us;
    }
    case Algorithm::Tree:
      return base + 2 * ((local - 1) * within + levels * between);
    case Algorithm::CollNetDirect:
      return 2 * (std::min(1.0, local - 1) * within + (local - 1) * 0.4) + between;
    case Algorithm::CollNetChain:
      return 2 * (local - 1) * within + between;
    case Algorithm::Nvls:
      return within + (a.nodes > 1 ? between : 0);
    case Algorithm::NvlsTree:
      return base + within + 2 * levels * between;
    case Algorithm::Pat:
      return base + levels * between / 3.5 + 2.8 * of(ranks());
  }
  return 0;
}

std::optional<double> CostModel::time_us(const Call& call, const Way& way) const {
  const double gb_per_s = this->gb_per_s(call, way);
  if (gb_per_s <= 0) return std::nullopt;
  // Calls of one group are launched in batches; a ring takes them one after another.
  constexpr int kCallsABatch = 10;
  const int calls = std::max(call.calls_in_group, 1);
  const int rounds =
      way.algorithm == Algorithm::Ring ? calls : (calls + kCallsABatch - 1) / kCallsABatch;
  return latency_us(call, way) * of(rounds) + static_cast<double>(call.bytes) / (1000 * gb_per_s);
}

namespace {

// Bytes that a thread must have, or NCCL takes fewer of them.
std::uint64_t bytes_a_thread(const Way& way, int ranks) {
  if (is_collnet(way.algorithm)) return 512;
  if (way.protocol == Protocol::Simple) return 64;
  const bool ring_ll = way.protocol == Protocol::Ll && way.algorithm == Algorithm::Ring;
  return ring_ll ? 8 * static_cast<std::uint64_t>(ranks) : 8;
}

int most_threads(const Way& way, double ring_gb_per_s) {
  if (way.protocol == Protocol::Ll128 || is_collnet(way.algorithm) || is_nvls(way.algorithm)) {
    return 640;
  }
  const bool slow_ring = way.algorithm == Algorithm::Ring && ring_gb_per_s <= 12;
  return way.protocol == Protocol::Simple && slow_ring ? 256 : 512;
}

}  // namespace

Choice CostModel::choice(const Call& call) const {
  Choice best;
  bool any = false;
  for (int a = 0; a < kAlgorithms; ++a) {
    for (int p = 0; p < kProtocols; ++p) {
      const Way way = {static_cast<Algorithm>(a), static_cast<Protocol>(p)};
      const auto us = time_us(call, way);
      if (!us || (any && *us >= best.us)) continue;
      best = {way, 0, *us};
      any = true;
    }
  }
  if (!any) return best;
  int channels = channels_of(best.way.algorithm);
  int threads = most_threads(best.way, of(ring_.count) * ring_.gb_per_s_within);
  const std::uint64_t share = bytes_a_thread(best.way, ranks());
  const auto too_many = [&] {
    return call.bytes <
           static_cast<std::uint64_t>(channels) * static_cast<std::uint64_t>(threads) * share;
  };
  if (!is_nvls(best.way.algorithm)) {
    while (channels > 1 && too_many()) --channels;
  }
  while (threads % 128 == 0 && too_many()) threads /= 2;
  best.way.channels = channels;
  best.threads = threads;
  return best;
}

}  // namespace regatta::topology::nccl
