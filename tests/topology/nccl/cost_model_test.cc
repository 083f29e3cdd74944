#include "topology/nccl/cost_model.h"

#include <gmock/gmock.h>

#include <limits>

#include "base/error.h"
#include "tests/topology/nccl/allocations.h"

namespace regatta::topology {
namespace {

constexpr std::uint64_t kKib = 1024, kMib = 1024 * kKib, kGib = 1024 * kMib;

constexpr nccl::Way kRingLl = {nccl::Algorithm::Ring, nccl::Protocol::Ll};
constexpr nccl::Way kRingLl128 = {nccl::Algorithm::Ring, nccl::Protocol::Ll128};
constexpr nccl::Way kRing = {nccl::Algorithm::Ring, nccl::Protocol::Simple};
constexpr nccl::Way kTreeLl = {nccl::Algorithm::Tree, nccl::Protocol::Ll};
constexpr nccl::Way kTree = {nccl::Algorithm::Tree, nccl::Protocol::Simple};
constexpr nccl::Way kNvls = {nccl::Algorithm::Nvls, nccl::Protocol::Simple};
constexpr nccl::Way kNvlsTree = {nccl::Algorithm::NvlsTree, nccl::Protocol::Simple};
constexpr nccl::Way kPat = {nccl::Algorithm::Pat, nccl::Protocol::Simple};
constexpr nccl::Way kDirect = {nccl::Algorithm::CollNetDirect, nccl::Protocol::Simple};
constexpr nccl::Way kChain = {nccl::Algorithm::CollNetChain, nccl::Protocol::Simple};

struct Figure {
  const char* name;
  nccl::Allocation allocation;
  nccl::Collective collective;
  std::uint64_t bytes;
  nccl::Way way;
  double latency_us, gb_per_s, us;
};

// All by hand. 8 A100: the GPU's 240 GB/s carry 6 channels of 40, doubled: 12 of 20. 8 H100: 6 of
// 60, doubled: 12 of 30; NVLS has a channel per GPU: 8 of 40. 4 nodes of 8 A100: 8 NICs of 25 carry
// 8 channels of 24.
const Figure kFigures[] = {
    // 6.6 + 14·0.6; min(87.7, 240/2)·8/14; 15 + 1048576/50114
    {"A100 ring LL", a100_nodes(1, 8), nccl::Collective::AllReduce, kMib, kRingLl, 15, 50.114,
     35.92},
    // 14 + 14·1.9; min(240·0.92, 12·20)·8/14; 40.6 + 8388608/126171
    {"A100 ring LL128", a100_nodes(1, 8), nccl::Collective::AllReduce, 8 * kMib, kRingLl128, 40.6,
     126.171, 107.09},
    // 8.4 + 14·3.4; 240·8/14; 56 + 7829.4
    {"A100 ring Simple", a100_nodes(1, 8), nccl::Collective::AllReduce, kGib, kRing, 56, 137.143,
     7885.4},
    // 6 of 12 blocks a direction: half of the bandwidth; 56 + 15658.7
    {"A100 ring, 12 blocks",
     a100_nodes(1, 8),
     nccl::Collective::AllReduce,
     kGib,
     {nccl::Algorithm::Ring, nccl::Protocol::Simple, 12},
     56,
     68.571,
     15714.7},
    // 6.8 + 2·7·0.6; min(240·0.92, 12·24)/3.8/2 · 0.4 (2^12 times 64 B); 15.2 + 262144/11621
    {"A100 tree LL", a100_nodes(1, 8), nccl::Collective::AllReduce, 256 * kKib, kTreeLl, 15.2,
     11.621, 37.76},
    // 8.4 + 7·3.4; 240·8/7; 32.2 + 67108864/274286
    {"A100 gather", a100_nodes(1, 8), nccl::Collective::AllGather, 64 * kMib, kRing, 32.2, 274.286,
     276.87},
    // one hop: 8.4 + 3.4; each GPU passes all of it on: 240; 11.8 + 67108864/240000
    {"A100 broadcast", a100_nodes(1, 8), nccl::Collective::Broadcast, 64 * kMib, kRing, 11.8, 240,
     291.42},
    // 25; 8·(40·0.85·7/8·2)·8/14 = 8·59.5·8/14; 25 + 22020096/272000
    {"H100 NVLS", h100_nodes(1), nccl::Collective::AllReduce, 21 * kMib, kNvls, 25, 272, 105.96},
    // 25; 8·(40·0.85·7/8·7/8); 25 + 67108864/208250
    {"H100 NVLS gather", h100_nodes(1), nccl::Collective::AllGather, 64 * kMib, kNvls, 25, 208.25,
     347.25},
    // (8.4 + 56·max(3.4, 3·2) + 6·14)·1.4; 8·24·32/62; 599.76 + 1073741824/99097
    {"4 nodes of A100, ring", a100_nodes(4, 8), nccl::Collective::AllReduce, kGib, kRing, 599.76,
     99.097, 11435.0},
    // 8.4 + 2·(7·4 + 2·14); 8·min(24·0.92, 17.8)/2·0.9 (2^22 times 64 B: the last of the table)
    {"4 nodes of A100, tree", a100_nodes(4, 8), nccl::Collective::AllReduce, 256 * kMib, kTree,
     120.4, 64.08, 4309.47},
    // 6.6 + 56·max(0.6, 2: an AMD host) + 6·2.7; min(19, 8·24/2)·32/62; 134.8 + 65536/9806.5
    {"4 nodes of A100, ring LL", a100_nodes(4, 8), nccl::Collective::AllReduce, 64 * kKib, kRingLl,
     134.8, 9.80645, 141.483},
    // 6.6 + 56·max(0.6, 1: Intel's) + 6·2.7; min(20.4, 8·45/2)·32/62; 78.8 + 65536/10529
    {"4 nodes of H100, ring LL", h100_nodes(4), nccl::Collective::AllReduce, 64 * kKib, kRingLl,
     78.8, 10.529, 85.024},
    // 25; 8·min(90·0.74·7/8·2, 90: the fastest that the search tries)·8/14; 25 + 2609.8
    {"B200 NVLS", b200_nodes(1), nccl::Collective::AllReduce, kGib, kNvls, 25, 411.429, 2634.8},
    // 25 + 2·1·20.9; 8·min(45·0.85·7/8·2, 45·2, 57.7)·16/30; 66.8 + 1073741824/246187
    {"2 nodes of H100, NVLS tree", h100_nodes(2), nccl::Collective::AllReduce, kGib, kNvlsTree,
     66.8, 246.187, 4428.3},
    // 25 + 18; 8·min(66.9, 48, which the NICs carry)·64/126; 43 + 5505.0
    {"8 nodes of H100, SHARP", with_sharp(h100_nodes(8)), nccl::Collective::AllReduce, kGib, kNvls,
     43, 195.048, 5548.0},
    // 2·(3.7 + 7·0.4) + 31; 8·45·0.85/2; 44 + 7017.9
    {"8 nodes of H100, direct", with_sharp(h100_nodes(8)), nccl::Collective::AllReduce, kGib,
     kDirect, 44, 153, 7061.9},
    // 2·7·2.8 + 30; 8·45/2; 69.2 + 5965.2
    {"8 nodes of H100, chain", with_sharp(h100_nodes(8)), nccl::Collective::AllReduce, kGib, kChain,
     69.2, 180, 6034.4},
    // 8 + 2·14/3.5 + 2.8·4; the one GPU's 8 NICs carry 8·24, ·0.75; 27.2 + 1048576/144000
    {"4 nodes of one A100, PAT", a100_nodes(4, 1), nccl::Collective::AllGather, kMib, kPat, 27.2,
     144, 34.48},
    // (8.4 + 6·14)·1.4, each of the 6 steps over the network; 8·24·4/6; 129.36 + 8192
    {"4 nodes of one A100, ring", a100_nodes(4, 1), nccl::Collective::AllReduce, 1000 * kMib, kRing,
     129.36, 128, 8321.36},
    // 6.6 + 6·1 over PCIe; min(39, 10/2)·4/6; 12.6 + 19.66
    {"V100 PCIe ring LL", v100_pcie(), nccl::Collective::AllReduce, 64 * kKib, kRingLl, 12.6,
     3.3333, 32.26},
};

TEST(CostModel, FiguresByHand) {
  for (const Figure& row : kFigures) {
    SCOPED_TRACE(row.name);
    const nccl::CostModel model(row.allocation);
    const nccl::Call call = {row.collective, row.bytes};
    EXPECT_NEAR(model.latency_us(call, row.way), row.latency_us, 1e-6 * row.latency_us);
    EXPECT_NEAR(model.gb_per_s(call, row.way), row.gb_per_s, 1e-4 * row.gb_per_s);
    const auto us = model.time_us(call, row.way);
    ASSERT_TRUE(us);
    EXPECT_NEAR(*us, row.us, 5e-4 * row.us);
  }
}

struct Offer {
  const char* name;
  nccl::Allocation allocation;
  nccl::Call call;
  nccl::Way way;
  bool offered;
};

nccl::Allocation changed(nccl::Allocation allocation, void (*change)(nccl::Allocation*)) {
  change(&allocation);
  return allocation;
}

TEST(CostModel, OffersWhatNcclOffers) {
  const nccl::Call reduce = {nccl::Collective::AllReduce, kMib};
  const nccl::Call average = {nccl::Collective::AllReduce, kMib, nccl::ReduceOp::PreMulSum};
  const nccl::Call gather = {nccl::Collective::AllGather, kMib};
  const nccl::Call scatter_average = {nccl::Collective::ReduceScatter, kMib,
                                      nccl::ReduceOp::PreMulSum};
  const nccl::Call broadcast = {nccl::Collective::Broadcast, kMib};
  const Offer rows[] = {
      {"NVLS of a sum", h100_nodes(1), reduce, kNvls, true},
      {"not of an average", h100_nodes(1), average, kNvls, false},
      {"but of a gather", h100_nodes(1), gather, kNvls, true},
      {"not of a broadcast", h100_nodes(1), broadcast, kNvls, false},
      {"not before Hopper", a100_nodes(1, 8), reduce, kNvls, false},
      {"not without a switch", gh200_nodes(1), reduce, kNvls, false},
      {"not with LL", h100_nodes(1), reduce, {nccl::Algorithm::Nvls, nccl::Protocol::Ll}, false},
      {"not between nodes", h100_nodes(2), reduce, kNvls, false},
      {"unless SHARP is there", with_sharp(h100_nodes(2)), reduce, kNvls, true},
      {"its tree between nodes", h100_nodes(2), reduce, kNvlsTree, true},
      {"not on one", h100_nodes(1), reduce, kNvlsTree, false},
      {"not of a gather", h100_nodes(2), gather, kNvlsTree, false},
      {"tree of all-reduce", h100_nodes(1), reduce, kTree, true},
      {"tree of nothing else", h100_nodes(1), gather, kTree, false},
      {"PAT alone on nodes", a100_nodes(4, 1), gather, kPat, true},
      {"PAT among others", a100_nodes(4, 8), gather, kPat, false},
      {"PAT of an average", a100_nodes(4, 1), scatter_average, kPat, false},
      {"gather over SHARP, a NIC per GPU", with_sharp(h100_nodes(2)), gather, kNvls, true},
      {"gather over SHARP, half of them",
       changed(with_sharp(h100_nodes(2)), [](nccl::Allocation* a) { a->nics = 4; }), gather, kNvls,
       false},
      {"direct without SHARP", h100_nodes(2), reduce, kDirect, false},
      {"direct with it", with_sharp(h100_nodes(2)), reduce, kDirect, true},
      {"direct without a switch", with_sharp(gh200_nodes(2)), reduce, kDirect, false},
      {"chain without a switch", with_sharp(gh200_nodes(2)), reduce, kChain, true},
      {"chain of a gather", with_sharp(gh200_nodes(2)), gather, kChain, false},
      {"LL128 on NVLink", a100_nodes(1, 8), reduce, kRingLl128, true},
      {"not over PCIe", v100_pcie(), reduce, kRingLl128, false},
      {"not of mixed GPUs",
       changed(h100_nodes(1), [](nccl::Allocation* a) { a->one_capability = false; }), reduce,
       kRingLl128, false},
      {"not through a CPU to the NIC",
       changed(h100_nodes(2), [](nccl::Allocation* a) { a->to_nic = graph::PathType::Phb; }),
       reduce, kRingLl128, false},
      {"over a GPU to the NIC, Hopper",
       changed(h100_nodes(2), [](nccl::Allocation* a) { a->to_nic = graph::PathType::Pxn; }),
       reduce, kRingLl128, true},
      {"over a GPU to the NIC, Ampere",
       changed(a100_nodes(2, 8), [](nccl::Allocation* a) { a->to_nic = graph::PathType::Pxn; }),
       reduce, kRingLl128, false},
      {"nothing of one rank", a100_nodes(1, 1), reduce, kRing, false},
  };
  for (const Offer& row : rows) {
    const nccl::CostModel model(row.allocation);
    EXPECT_EQ(model.is_offered(row.call, row.way), row.offered) << row.name;
    EXPECT_EQ(model.time_us(row.call, row.way).has_value(), row.offered) << row.name;
  }
}

TEST(CostModel, ChoosesAsNccl) {
  struct Row {
    const char* name;
    nccl::Allocation allocation;
    nccl::Call call;
    nccl::Way way;  // and channels
    int threads;
  };
  const Row rows[] = {
      // 15.0 against the tree's 15.2; one block: 64 B per thread · 64 threads are more than 8 B
      {"A100 tiny",
       a100_nodes(1, 8),
       {nccl::Collective::AllReduce, 8},
       {nccl::Algorithm::Ring, nccl::Protocol::Ll, 1},
       64},
      {"A100 1 MiB",
       a100_nodes(1, 8),
       {nccl::Collective::AllReduce, kMib},
       {nccl::Algorithm::Ring, nccl::Protocol::Ll, 24},
       512},
      {"A100 8 MiB",
       a100_nodes(1, 8),
       {nccl::Collective::AllReduce, 8 * kMib},
       {nccl::Algorithm::Ring, nccl::Protocol::Ll128, 24},
       640},
      {"A100 1 GiB",
       a100_nodes(1, 8),
       {nccl::Collective::AllReduce, kGib},
       {nccl::Algorithm::Ring, nccl::Protocol::Simple, 24},
       512},
      {"H100 1 GiB",
       h100_nodes(1),
       {nccl::Collective::AllReduce, kGib},
       {nccl::Algorithm::Nvls, nccl::Protocol::Simple, 16},
       640},
      {"H100 1 GiB, average",
       h100_nodes(1),
       {nccl::Collective::AllReduce, kGib, nccl::ReduceOp::PreMulSum},
       {nccl::Algorithm::Ring, nccl::Protocol::Simple, 24},
       512},
      {"2 nodes of H100",
       h100_nodes(2),
       {nccl::Collective::AllReduce, kGib},
       {nccl::Algorithm::NvlsTree, nccl::Protocol::Simple, 16},
       640},
      {"V100 PCIe, few threads",
       v100_pcie(),
       {nccl::Collective::AllReduce, kGib},
       {nccl::Algorithm::Ring, nccl::Protocol::Simple, 2},
       256},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const nccl::Choice choice = nccl::CostModel(row.allocation).choice(row.call);
    EXPECT_STREQ(nccl::name_of(choice.way.algorithm), nccl::name_of(row.way.algorithm));
    EXPECT_STREQ(nccl::name_of(choice.way.protocol), nccl::name_of(row.way.protocol));
    EXPECT_EQ(choice.way.channels, row.way.channels);
    EXPECT_EQ(choice.threads, row.threads);
  }
  EXPECT_EQ(nccl::CostModel(a100_nodes(1, 1)).choice({nccl::Collective::AllReduce, kMib}).us, 0)
      << "one rank";
}

// A ring takes the calls of a group one after another, the others ten at a time.
TEST(CostModel, AGroupHasTheLatencyOfItsCalls) {
  const nccl::CostModel model(a100_nodes(1, 8));
  const nccl::Call one = {nccl::Collective::AllReduce, kMib};
  const nccl::Call many = {nccl::Collective::AllReduce, kMib, nccl::ReduceOp::Sum, 16};
  EXPECT_NEAR(*model.time_us(many, kRing) - *model.time_us(one, kRing), 15 * 56, 1e-9);
  EXPECT_NEAR(*model.time_us(many, kTreeLl) - *model.time_us(one, kTreeLl), 15.2, 1e-9);
}

TEST(CostModel, APlainTreeIsSlower) {
  nccl::Allocation allocation = a100_nodes(4, 8);
  const nccl::Call call = {nccl::Collective::AllReduce, kGib};
  const double usual = nccl::CostModel(allocation).gb_per_s(call, kTree);
  allocation.plain_tree = true;
  EXPECT_NEAR(nccl::CostModel(allocation).gb_per_s(call, kTree), 0.85 * usual, 1e-9);
}

// A ring of 4 nodes sends 6 times between nodes, a tree goes 2 levels up and down; Simple waits
// for data and flag.
TEST(CostModel, ANicsLatencyIsWaitedForInEverySendBetweenNodes) {
  const nccl::Call call = {nccl::Collective::AllReduce, kMib};
  const auto more = [&](const nccl::Way& way, int nodes) {
    nccl::Allocation allocation = a100_nodes(nodes, 8);
    const double before = nccl::CostModel(allocation).latency_us(call, way);
    allocation.nic_latency_us = 1.5;
    return nccl::CostModel(allocation).latency_us(call, way) - before;
  };
  EXPECT_NEAR(more(kRingLl, 4), 6 * 1.5, 1e-9);
  EXPECT_NEAR(more(kTree, 4), 2 * 2 * 2 * 1.5, 1e-9);
  EXPECT_NEAR(more(kTreeLl, 4), 2 * 2 * 1.5, 1e-9);
  EXPECT_NEAR(more(kRingLl, 1), 0, 1e-9);
}

// NCCL has two blocks for each channel of its search, and from Hopper on twice as many where that
// makes fewer than 16 between nodes (ncclTopoPostset).
TEST(CostModel, ChannelsAreDoubledWhereTheyAreFew) {
  const auto blocks = [](nccl::Allocation allocation, int channels, double speed, int nodes) {
    allocation.nodes = nodes;
    allocation.ring = nccl::NcclChannels{channels, speed, speed};
    return nccl::CostModel(allocation).channels_of(nccl::Algorithm::Ring);
  };
  EXPECT_EQ(blocks(h100_nodes(2), 4, 48, 2), 16);
  EXPECT_EQ(blocks(h100_nodes(2), 7, 48, 2), 28);
  EXPECT_EQ(blocks(h100_nodes(2), 8, 48, 2), 16) << "16 are enough";
  EXPECT_EQ(blocks(h100_nodes(2), 4, 45, 2), 8) << "slow ones";
  EXPECT_EQ(blocks(h100_nodes(2), 4, 48, 1), 8) << "one node";
  EXPECT_EQ(blocks(a100_nodes(2, 8), 4, 48, 2), 8) << "Ampere";
}

TEST(CostModel, TakesTheChannelsOfADump) {
  nccl::Allocation allocation = a100_nodes(1, 8);
  allocation.ring = nccl::NcclChannels{6, 15, 15};
  const nccl::CostModel model(allocation);
  EXPECT_EQ(model.channels_of(nccl::Algorithm::Ring), 12);
  EXPECT_NEAR(model.gb_per_s({nccl::Collective::AllReduce, kGib}, kRing), 90.0 * 8 / 14, 1e-9);
}

// Whatever is asked: a time is positive and finite, NCCL's choice is the best that it offers, and
// more bytes never take less by one way, but for the steps of the tree's table.
TEST(CostModel, HoldsForEveryCall) {
  const nccl::Allocation machines[] = {
      a100_nodes(1, 8),          a100_nodes(4, 8),   h100_nodes(2), b200_nodes(2),
      gb200_racks(20),           gh200_nodes(2),     v100_pcie(),   a100_nodes(4, 1),
      with_sharp(h100_nodes(8)), a100_nodes(1024, 8)};
  for (const nccl::Allocation& machine : machines) {
    const nccl::CostModel model(machine);
    for (int collective = 0; collective < nccl::kCollectives; ++collective) {
      for (std::uint64_t bytes = 1; bytes <= 64 * kGib; bytes *= 2) {
        const nccl::Call call = {static_cast<nccl::Collective>(collective), bytes};
        const nccl::Choice choice = model.choice(call);
        EXPECT_GT(choice.us, 0);
        EXPECT_GE(choice.way.channels, 1);
        for (int i = 0; i < nccl::kAlgorithms * nccl::kProtocols; ++i) {
          const nccl::Way way = {static_cast<nccl::Algorithm>(i / nccl::kProtocols),
                                 static_cast<nccl::Protocol>(i % nccl::kProtocols)};
          const auto us = model.time_us(call, way);
          if (!us) continue;
          EXPECT_TRUE(std::isfinite(*us) && *us > 0);
          EXPECT_LE(choice.us, *us);
          const auto more = model.time_us({call.collective, 4 * bytes}, way);
          EXPECT_GE(*more, *us * 0.7);
        }
      }
    }
  }
}

TEST(CostModel, RefusesWhatCannotBe) {
  struct Row {
    const char* what;
    void (*change)(nccl::Allocation*);
  };
  const Row rows[] = {
      {"no ranks", [](nccl::Allocation* a) { a->nodes = 0; }},
      {"no ranks", [](nccl::Allocation* a) { a->ranks_per_node = -1; }},
      {"more than 1048576 ranks", [](nccl::Allocation* a) { a->nodes = 1 << 30; }},
      {"no bandwidth between the GPUs", [](nccl::Allocation* a) { a->gb_per_s_within = 0; }},
      {"not a number",
       [](nccl::Allocation* a) { a->gb_per_s_within = std::numeric_limits<double>::infinity(); }},
      {"no NICs", [](nccl::Allocation* a) { a->nics = 0; }},
      {"no NICs", [](nccl::Allocation* a) { a->gb_per_s_a_nic = -5; }},
      {"not a number", [](nccl::Allocation* a) { a->nic_latency_us = -1; }},
      {"channels that no search finds",
       [](nccl::Allocation* a) {
         a->tree = nccl::NcclChannels{0, 20, 20};
       }},
      {"channels that no search finds",
       [](nccl::Allocation* a) {
         a->ring = nccl::NcclChannels{65, 20, 20};
       }},
      {"channels that no search finds",
       [](nccl::Allocation* a) {
         a->nvls = nccl::NcclChannels{8, 20, 0};
       }},
  };
  for (const Row& row : rows) {
    nccl::Allocation allocation = h100_nodes(2);
    row.change(&allocation);
    try {
      (void)nccl::CostModel(allocation);
      ADD_FAILURE() << row.what;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), testing::HasSubstr(row.what));
    }
  }
}

TEST(NcclTables, AreOfAVersion) {
  ASSERT_NE(nccl::nccl_tables("2.28"), nullptr);
  EXPECT_STREQ(nccl::nccl_tables("2.28.9")->version, "2.28");
  EXPECT_EQ(nccl::nccl_tables("2.2"), nullptr);
  EXPECT_EQ(nccl::nccl_tables("2.280"), nullptr);
  EXPECT_EQ(nccl::nccl_tables("2.27.1"), nullptr);
  EXPECT_EQ(nccl::nccl_tables(""), nullptr);
  EXPECT_EQ(nccl::nccl_tables("2.28.9"), &nccl::newest_nccl_tables());
}

}  // namespace
}  // namespace regatta::topology
