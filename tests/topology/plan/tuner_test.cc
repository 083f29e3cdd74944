// Which ways NCCL is told to take, and the forms in which it is told.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "tests/shared_data.h"
#include "tests/topology/nccl/allocations.h"
#include "topology/plan/tuning.h"

namespace regatta::topology::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr std::uint64_t kKib = 1024, kMib = 1024 * kKib, kGib = 1024 * kMib;
constexpr nccl::Way kRing = {nccl::Algorithm::Ring, nccl::Protocol::Simple};
constexpr nccl::Way kRingLl = {nccl::Algorithm::Ring, nccl::Protocol::Ll};
constexpr nccl::Way kRingLl128 = {nccl::Algorithm::Ring, nccl::Protocol::Ll128};
constexpr nccl::Way kTree = {nccl::Algorithm::Tree, nccl::Protocol::Simple};
constexpr nccl::Way kNvls = {nccl::Algorithm::Nvls, nccl::Protocol::Simple};

std::string words(const nccl::Way& way) {
  return std::string(nccl::name_of(way.algorithm)) + " " + nccl::name_of(way.protocol) + " " +
         std::to_string(way.channels);
}

std::string shown(const TunedRange& range) {
  return std::string(nccl::name_of(range.collective)) + " " + std::to_string(range.from_bytes) +
         "-" + (range.to_bytes == TunedRange::kNoEnd ? "" : std::to_string(range.to_bytes)) + " " +
         words(range.way) + (range.measured ? " measured" : " modelled");
}

std::vector<std::string> shown(const TunerTable& table) {
  std::vector<std::string> lines;
  for (const TunedRange& range : table.ranges) lines.push_back(shown(range));
  return lines;
}

template <typename Body>
std::string thrown(const Body& body) {
  try {
    body();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TunerTable a_table() {
  TunerTable table;
  table.ranks = 16;
  table.nodes = 2;
  table.nccl_version = 22800;
  table.ranges = {{nccl::Collective::AllReduce,
                   64 * kKib,
                   kMib,
                   {nccl::Algorithm::Ring, nccl::Protocol::Ll, 8},
                   20,
                   30,
                   true},
                  {nccl::Collective::AllReduce, kMib, TunedRange::kNoEnd, kTree, 100, 120.5, false},
                  {nccl::Collective::AllGather, 0, 4096, kRing, 0, 0, false}};
  return table;
}

TEST(TunerFile, ReadsBackWhatWasWritten) {
  const TunerTable back = parse_tuner_file(to_tuner_file(a_table()), "plan.tuner");
  EXPECT_EQ(back.ranks, 16);
  EXPECT_EQ(back.nodes, 2);
  EXPECT_EQ(back.nccl_version, 22800);
  EXPECT_THAT(shown(back), ElementsAre("AllGather 0-4096 Ring Simple 0 modelled",
                                       "AllReduce 65536-1048576 Ring LL 8 measured",
                                       "AllReduce 1048576- Tree Simple 0 modelled"));
  EXPECT_EQ(back.ranges[1].us, 20);
  EXPECT_EQ(back.ranges[2].default_us, 120.5);
  EXPECT_EQ(to_tuner_file(back), to_tuner_file(a_table()));
  TunerTable none = a_table();
  none.ranges.clear();
  EXPECT_THAT(parse_tuner_file(to_tuner_file(none), "x").ranges, IsEmpty());
}

// What is written stays readable: the layout is that of plan_file.h, byte by byte.
TEST(TunerFile, HasThisLayout) {
  const std::string file = to_tuner_file(a_table());
  ASSERT_EQ(file.size(), 40U + 3 * 40U);
  EXPECT_EQ(file.substr(0, 16), std::string("RGTTUNER\1\0\0\0\3\0\0\0", 16));
  EXPECT_EQ(file.substr(24, 16), std::string("\x10\0\0\0\2\0\0\0\x10\x59\0\0\0\0\0\0", 16));
  const std::string ring = file.substr(80, 40);
  EXPECT_EQ(ring.substr(0, 16), std::string("\0\0\1\0\0\0\0\0\0\0\x10\0\0\0\0\0", 16));
  EXPECT_EQ(ring.substr(32, 8), std::string("\4\1\0\1\x8\0\0\0", 8));
}

// tests/gpu/stages.py writes it by itself; tests/gpu/check.py compares the two.
TEST(TunerFile, ThePlanOfTheGpuTestsIsOne) {
  std::ifstream stream(REGATTA_SOURCE_DIR "/tests/fuzz/corpus/tuner_file/one_rank.tuner",
                       std::ios::binary);
  std::stringstream bytes;
  bytes << stream.rdbuf();
  const TunerTable table = parse_tuner_file(bytes.str(), "one_rank.tuner");
  EXPECT_EQ(table.ranks, 1);
  EXPECT_THAT(shown(table), ElementsAre("AllReduce 256- Ring Simple 0 modelled"));
}

TEST(TunerFile, NamesItsSourceWhereItIsDamaged) {
  const std::string file = to_tuner_file(a_table());
  const auto parse = [](const std::string& bytes) {
    return thrown([&] { (void)parse_tuner_file(bytes, "run/plan.tuner"); });
  };
  EXPECT_EQ(parse(file.substr(0, 30)), "run/plan.tuner: plan.tuner is cut off; plan again");
  std::string bad = file;
  bad[100] = 1;
  EXPECT_THAT(parse(bad), HasSubstr("is damaged"));
}

TEST(TunerFile, RefusesTablesThatItCannotHold) {
  struct Row {
    const char* words;
    void (*change)(TunerTable*);
  };
  const Row rows[] = {
      {"no communicator", [](TunerTable* t) { t->ranks = 0; }},
      {"no communicator", [](TunerTable* t) { t->nodes = -3; }},
      {"out of order", [](TunerTable* t) { t->ranges[0].to_bytes += 1; }},
      {"cannot be", [](TunerTable* t) { t->ranges[0].to_bytes = 0; }},
      {"cannot be", [](TunerTable* t) { t->ranges[0].us = std::nan(""); }},
      {"cannot be", [](TunerTable* t) { t->ranges[0].way.channels = 65; }},
      {"cannot be", [](TunerTable* t) { t->ranges[0].way.channels = 65536 + 8; }},
      {"cannot be", [](TunerTable* t) { t->ranges[0].way.channels = -1; }},
      {"cannot be",
       [](TunerTable* t) {
         t->ranges[0].way = {nccl::Algorithm::Nvls, nccl::Protocol::Simple, 8};
       }},
      {"too many", [](TunerTable* t) { t->ranges.resize(4097); }},
  };
  for (const Row& row : rows) {
    TunerTable table = a_table();
    row.change(&table);
    EXPECT_THAT(thrown([&] { (void)to_tuner_file(table); }), HasSubstr(row.words));
  }
}

TEST(ExampleCsv, IsWhatNvidiasPluginReads) {
  const std::string text = to_example_csv(a_table());
  EXPECT_THAT(text, HasSubstr("\nallreduce,65536,1048575,ring,ll,8,2,16\n"));
  EXPECT_THAT(text, HasSubstr("\nallreduce,1048576,18446744073709551615,tree,simple,0,2,16\n"))
      << "64 bits, where its documentation has 32";
  const TunerTable back = parse_example_csv(text, "x.csv");
  EXPECT_EQ(back.ranks, 16);
  EXPECT_EQ(back.nodes, 2);
  ASSERT_EQ(back.ranges.size(), 3U);
  EXPECT_EQ(shown(back.ranges[1]), "AllReduce 65536-1048576 Ring LL 8 modelled");
  EXPECT_EQ(back.ranges[2].to_bytes, TunedRange::kNoEnd);
}

TEST(ExampleCsv, ReadsTheWritingOfOthers) {
  const TunerTable table = parse_example_csv(
      "# comment\n\nallreduce, 0,32768 ,tree,simple,-1,-1,-1,-1,-1\r\n"
      "broadcast,0,4294967295,ring,ll128,16,-1,-1,-1\n",
      "x.csv");
  EXPECT_EQ(table.ranks, 0);
  EXPECT_THAT(shown(table), ElementsAre("Broadcast 0-4294967296 Ring LL128 16 modelled",
                                        "AllReduce 0-32769 Tree Simple 0 modelled"));
}

TEST(ExampleCsv, RefusesWhatThePluginWouldMisread) {
  struct Row {
    const char* text;
    const char* words;
  };
  const Row rows[] = {
      {"allreduce,0,1,ring,simple,-1,2", "x.csv:1: 7 columns"},
      {"allreduce,0,1,ring,simple,-1,2,16,-1,-1,-1", "x.csv:1: 11 columns"},
      {"\nAllReduce,0,1,ring,simple,-1,2,16",
       "x.csv:2: 'AllReduce' is not a name; use one of broad"},
      {"allreduce,0,1,nvlstree,simple,-1,2,16", "'nvlstree' is not a name"},
      {"allreduce,0,1,ring,LL,-1,2,16", "'LL' is not a name"},
      {"allreduce,-1,1,ring,ll,-1,2,16", "'-1' is not a number of bytes"},
      {"allreduce,0,18446744073709551616,ring,ll,-1,2,16", "is not a number of bytes"},
      {"allreduce,0x10,99,ring,ll,-1,2,16", "is not a number of bytes"},
      {"allreduce,5,4,ring,ll,-1,2,16", "most bytes are less"},
      {"allreduce,0,1,ring,ll,65,2,16", "'65' where -1 to 64"},
      {"allreduce,0,1,ring,ll,-2,2,16", "'-2' where"},
      {"allreduce,0,1,ring,ll,,2,16", "'' where"},
      {"allreduce,0,1,ring,ll,0,2,16,4", "operations"},
      {"allreduce,0,1,ring,ll,0,2,16,-1,1", "registered"},
      {"allreduce,0,1,ring,ll,0,2,16\nallreduce,2,3,ring,ll,0,2,8", "x.csv:2: another number"},
      {"allreduce,0,9,ring,ll,0,2,16\nallreduce,9,12,tree,ll,0,2,16",
       "two lines for allreduce of 9"},
  };
  for (const Row& row : rows) {
    EXPECT_THAT(thrown([&] { (void)parse_example_csv(row.text, "x.csv"); }), HasSubstr(row.words));
  }
  EXPECT_THAT(thrown([&] { (void)parse_example_csv(std::string(300, 'a'), "x"); }),
              HasSubstr("255"));
}

TEST(NcclVariables, SayOnlyWhatHoldsForEveryCall) {
  struct Row {
    const char* name;
    std::vector<TunedRange> ranges;
    int nccl_version;
    std::string algorithms, protocols;  // "": no variables
  };
  const auto of = [](nccl::Collective collective, std::uint64_t from, std::uint64_t to,
                     nccl::Way way) {
    return TunedRange{collective, from, to, way};
  };
  const auto reduce = [&](std::uint64_t from, std::uint64_t to, nccl::Way way) {
    return of(nccl::Collective::AllReduce, from, to, way);
  };
  const Row rows[] = {
      {"one range", {reduce(0, kGib, kTree)}, 0, "ring,tree;allreduce:tree", "allreduce:simple"},
      {"no end",
       {reduce(kMib, TunedRange::kNoEnd, kRing)},
       22400,
       "ring,tree;allreduce:ring",
       "allreduce:simple"},
      {"two that meet",
       {reduce(16 * kMib, kGib, kRingLl), reduce(kMib, 16 * kMib, kRingLl)},
       0,
       "ring,tree;allreduce:ring",
       "allreduce:ll"},
      {"two collectives",
       {reduce(0, kGib, kTree), of(nccl::Collective::AllGather, 0, kGib, kRing)},
       0,
       "ring,tree;allgather:ring;allreduce:tree",
       "allgather:simple;allreduce:simple"},
      {"ends too early", {reduce(0, 64 * kMib, kTree)}, 0, "", ""},
      {"begins too late", {reduce(kMib + 1, kGib, kTree)}, 0, "", ""},
      {"a gap", {reduce(kMib, 2 * kMib, kTree), reduce(3 * kMib, kGib, kTree)}, 0, "", ""},
      {"two ways", {reduce(kMib, 2 * kMib, kTree), reduce(2 * kMib, kGib, kRing)}, 0, "", ""},
      {"never LL128", {reduce(0, kGib, kRingLl128)}, 0, "", ""},
      {"not for every type", {reduce(0, kGib, kNvls)}, 0, "", ""},
      {"no tree of it", {of(nccl::Collective::ReduceScatter, 0, kGib, kTree)}, 0, "", ""},
      {"channels",
       {reduce(0, kGib, {nccl::Algorithm::Ring, nccl::Protocol::Simple, 4})},
       0,
       "",
       ""},
      {"too old for names", {reduce(0, kGib, kTree)}, 22304, "", ""},
      {"nothing", {}, 0, "", ""},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    TunerTable table;
    table.nccl_version = row.nccl_version;
    table.ranges = row.ranges;
    const auto variables = nccl_variables(table, kMib, 64 * kMib);
    if (row.algorithms.empty()) {
      EXPECT_THAT(variables, IsEmpty());
    } else {
      EXPECT_THAT(variables, ElementsAre(Pair("NCCL_ALGO", row.algorithms),
                                         Pair("NCCL_PROTO", row.protocols)));
    }
  }
}

TEST(NcclVariables, HoldToTheLargestCallThatThereCanBe) {
  TunerTable table;
  table.ranges = {{nccl::Collective::AllReduce, kMib, TunedRange::kNoEnd, kTree}};
  EXPECT_EQ(nccl_variables(table, kMib, ~std::uint64_t{0}).size(), 2U);
  table.ranges[0].to_bytes -= 1;
  EXPECT_THAT(nccl_variables(table, kMib, ~std::uint64_t{0}), IsEmpty());
}

// The collectives that a value allows: those it names, and all once it begins with a list.
std::vector<std::string> ways_of(const std::string& value, const std::string& collective) {
  std::vector<std::string> ways;
  for (const std::string& item : base::split(value, ';')) {
    const std::size_t colon = item.find(':');
    if (colon == std::string::npos) ways = base::split(item, ',');
    if (item.substr(0, colon) == collective) ways = base::split(item.substr(colon + 1), ',');
  }
  return ways;
}

// NCCL from 2.31 on takes all algorithms away and gives back what the value names.
TEST(NcclVariables, LeaveNoCollectiveWithoutAnAlgorithm) {
  TunerTable table;
  table.ranges = {{nccl::Collective::AllReduce, 0, TunedRange::kNoEnd, kTree}};
  for (const int version : {0, 22400, 22809, 23102, 23206}) {
    table.nccl_version = version;
    const auto variables = nccl_variables(table, kMib, 64 * kMib);
    ASSERT_EQ(variables.count("NCCL_ALGO"), 1U) << version;
    EXPECT_THAT(ways_of(variables.at("NCCL_ALGO"), "allreduce"), ElementsAre("tree"));
    for (const char* other : {"broadcast", "reduce", "allgather", "reducescatter"}) {
      EXPECT_THAT(ways_of(variables.at("NCCL_ALGO"), other), testing::Contains("ring"))
          << other << ", NCCL " << version;
      EXPECT_THAT(ways_of(variables.at("NCCL_PROTO"), other), IsEmpty()) << "NCCL's own choice";
    }
  }
}

const nccl::Allocation kMachines[] = {
    a100_nodes(1, 8),         a100_nodes(4, 8), h100_nodes(1), h100_nodes(2),    b200_nodes(2),
    gb200_racks(20),          gh200_nodes(2),   v100_pcie(),   a100_nodes(4, 1), a100_nodes(1, 1),
    with_sharp(h100_nodes(8))};

TEST(Tune, AModelAloneReplacesNothing) {
  for (const nccl::Allocation& machine : kMachines) {
    TuneOptions options;
    options.collectives = {nccl::Collective::Broadcast, nccl::Collective::Reduce,
                           nccl::Collective::AllGather, nccl::Collective::ReduceScatter,
                           nccl::Collective::AllReduce};
    const nccl::CalibratedModel model{nccl::CostModel(machine)};
    const TunerTable table = tune(model, options);
    EXPECT_THAT(shown(table), IsEmpty());
    EXPECT_EQ(table.ranks, model.model().ranks());
    EXPECT_EQ(table.nodes, machine.nodes);
  }
}

// Measurements at each doubling from 64 KiB to 256 MiB: `factor` times what the model says of `way`
// (of NCCL's choice, without one).
nccl::MeasuredCurve curve_of(const nccl::CostModel& model, const std::optional<nccl::Way>& way,
                             const std::function<double(std::uint64_t)>& factor,
                             nccl::Collective collective = nccl::Collective::AllReduce) {
  std::vector<nccl::Sample> samples;
  for (std::uint64_t bytes = 64 * kKib; bytes <= 256 * kMib; bytes *= 2) {
    const nccl::Call call = {collective, bytes};
    const double us = way ? *model.time_us(call, *way) : model.choice(call).us;
    samples.push_back({bytes, us * factor(bytes)});
  }
  return nccl::MeasuredCurve::fit(model, {collective, way}, samples);
}

// Measured times of a way as a share of those of NCCL's choice, which takes 1.4 times the model.
nccl::MeasuredCurve share_of_choice(const nccl::CostModel& model, const nccl::Way& way,
                                    const std::function<double(std::uint64_t)>& share) {
  return curve_of(model, way, [&](std::uint64_t bytes) {
    const nccl::Call call = {nccl::Collective::AllReduce, bytes};
    return 1.4 * share(bytes) * model.choice(call).us / *model.time_us(call, way);
  });
}

TuneOptions all_reduce_to(std::uint64_t most_bytes) {
  TuneOptions options;
  options.collectives = {nccl::Collective::AllReduce};
  options.most_bytes = most_bytes;
  return options;
}

const TunedRange* range_of(const TunerTable& table, std::uint64_t bytes) {
  for (const TunedRange& range : table.ranges) {
    if (bytes >= range.from_bytes && bytes < range.to_bytes) return &range;
  }
  return nullptr;
}

TEST(Tune, AMeasuredGainReplacesWhatWasMeasured) {
  const nccl::CostModel model(h100_nodes(2));
  nccl::CalibratedModel calibrated(model);
  calibrated.add(curve_of(model, std::nullopt, [](std::uint64_t) { return 1.4; }));
  calibrated.add(share_of_choice(model, kTree, [](std::uint64_t bytes) {
    return bytes >= kMib && bytes <= 32 * kMib ? 0.7 : 1.3;
  }));
  const TunerTable table = tune(calibrated, all_reduce_to(256 * kMib));
  // Beside a step of the curve nobody knows where it is.
  for (std::uint64_t bytes = 2 * kMib; bytes < 16 * kMib; bytes *= 2) {
    const TunedRange* const range = range_of(table, bytes);
    ASSERT_NE(range, nullptr) << bytes;
    EXPECT_EQ(words(range->way), "Tree Simple 0");
    EXPECT_TRUE(range->measured);
    EXPECT_LT(range->us, range->default_us);
  }
  EXPECT_EQ(range_of(table, 256 * kKib), nullptr);
  EXPECT_EQ(range_of(table, 64 * kMib), nullptr);
}

TEST(Tune, NeighboursOfOneWayAreOneRangeToTheLastByte) {
  const nccl::CostModel model(h100_nodes(2));
  nccl::CalibratedModel calibrated(model);
  calibrated.add(curve_of(model, std::nullopt, [](std::uint64_t) { return 1.4; }));
  calibrated.add(share_of_choice(model, kRing, [](std::uint64_t) { return 0.5; }));
  const std::uint64_t most = 100 * kMib + 12;
  const TunerTable table = tune(calibrated, all_reduce_to(most));
  ASSERT_FALSE(table.ranges.empty());
  EXPECT_EQ(table.ranges.size(), 1U) << testing::PrintToString(shown(table));
  EXPECT_EQ(table.ranges.back().to_bytes, most + 1);
  EXPECT_LE(table.ranges.front().from_bytes, 64 * kKib);
}

struct Gain {
  const char* name;
  std::optional<double> choice;  // measured, by the model; nothing: not measured
  std::optional<double> ring;    // ring with Simple: measured, by the model's time of NCCL's choice
  std::string way;               // at 8 MiB; "": NCCL's
  bool measured;
};

// 2 nodes of H100, of which the model says that NCCL takes NVLSTree for 8 MiB.
TEST(Tune, BelievesAsMuchAsTheIntervalsSay) {
  const Gain rows[] = {
      {"4 % are noise", 1.4, 1.4 * 0.96, "", false},
      {"12 % are not", 1.4, 1.4 * 0.88, "Ring Simple 0", true},
      {"slower", 1.4, 1.4 * 1.2, "", false},
      {"twice the model is usual", 2.0, std::nullopt, "", false},
      {"a model against ten times the model", 10.0, std::nullopt, "another", false},
      {"measured, at 0.8 of the model of NCCL's choice", std::nullopt, 0.8, "", false},
      {"measured, at 0.6 of it", std::nullopt, 0.6, "Ring Simple 0", false},
      {"nothing measured", std::nullopt, std::nullopt, "", false},
  };
  const nccl::CostModel model(h100_nodes(2));
  const nccl::Call call = {nccl::Collective::AllReduce, 8 * kMib};
  ASSERT_EQ(model.choice(call).way.algorithm, nccl::Algorithm::NvlsTree);
  for (const Gain& row : rows) {
    SCOPED_TRACE(row.name);
    nccl::CalibratedModel calibrated(model);
    if (row.choice) {
      calibrated.add(curve_of(model, std::nullopt, [&](std::uint64_t) { return *row.choice; }));
    }
    if (row.ring) {
      calibrated.add(curve_of(model, kRing, [&](std::uint64_t bytes) {
        const nccl::Call one = {nccl::Collective::AllReduce, bytes};
        return *row.ring * model.choice(one).us / *model.time_us(one, kRing);
      }));
    }
    const TunerTable table = tune(calibrated, all_reduce_to(64 * kMib));
    const TunedRange* const range = range_of(table, 8 * kMib);
    ASSERT_EQ(range != nullptr, !row.way.empty()) << testing::PrintToString(shown(table));
    if (range == nullptr) continue;
    EXPECT_EQ(range->measured, row.measured);
    if (row.way == "another") {
      EXPECT_NE(range->way.algorithm, nccl::Algorithm::NvlsTree) << "NCCL takes that by itself";
    } else {
      EXPECT_EQ(words(range->way), row.way);
    }
  }
}

// NCCL's choice was measured by the way that the model says it takes.
TEST(Tune, KnowsTheChoiceByItsWay) {
  const nccl::CostModel model(h100_nodes(2));
  nccl::CalibratedModel calibrated(model);
  calibrated.add(curve_of(model, nccl::Way{nccl::Algorithm::NvlsTree, nccl::Protocol::Simple},
                          [](std::uint64_t) { return 1.4; }));
  calibrated.add(share_of_choice(model, kRing, [](std::uint64_t) { return 0.8; }));
  const TunerTable table = tune(calibrated, all_reduce_to(64 * kMib));
  const TunedRange* const range = range_of(table, 32 * kMib);
  ASSERT_NE(range, nullptr);
  EXPECT_TRUE(range->measured);
  EXPECT_EQ(words(range->way), "Ring Simple 0");
}

TEST(Tune, TakesChannelsThatWereMeasured) {
  const nccl::CostModel model(h100_nodes(1));
  nccl::CalibratedModel calibrated(model);
  const nccl::Way few = {nccl::Algorithm::Ring, nccl::Protocol::Simple, 12};
  calibrated.add(curve_of(model, std::nullopt, [](std::uint64_t) { return 1.4; }));
  calibrated.add(share_of_choice(model, kRing, [](std::uint64_t) { return 0.9; }));
  calibrated.add(share_of_choice(model, few, [](std::uint64_t) { return 0.7; }));
  const TunerTable table = tune(calibrated, all_reduce_to(64 * kMib));
  const TunedRange* const range = range_of(table, 8 * kMib);
  ASSERT_NE(range, nullptr);
  EXPECT_EQ(words(range->way), "Ring Simple 12");
  calibrated.add(share_of_choice(model, few, [](std::uint64_t) { return 0.91; }));
  const TunerTable other = tune(calibrated, all_reduce_to(64 * kMib));
  ASSERT_NE(range_of(other, 8 * kMib), nullptr);
  EXPECT_EQ(words(range_of(other, 8 * kMib)->way), "Ring Simple 0") << "the fastest of both";
}

// Of NCCL's measured choice at every half doubling from begin to end.
void expect_better(const nccl::CalibratedModel& model, const TunedRange& range) {
  for (int i = 0; i < 128; ++i) {
    const auto bytes = static_cast<std::uint64_t>(std::llround(256 * std::exp2(i / 2.0)));
    if (bytes > range.to_bytes) break;
    if (bytes < range.from_bytes) continue;
    EXPECT_LT(model.predict({range.collective, range.way}, bytes).high_us,
              model.predict({range.collective}, bytes).low_us)
        << shown(range) << " at " << bytes;
  }
}

// Whatever was measured: only ways that are offered, so LL128 only where NCCL has it, and always a
// table that can be written.
TEST(Tune, HoldsForAnyMeasurements) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> factor(0.2, 12);
  int ranges = 0;
  for (int round = 0; round < 200; ++round) {
    const nccl::Allocation& machine =
        kMachines[static_cast<std::size_t>(round) % std::size(kMachines)];
    const nccl::CostModel model(machine);
    nccl::CalibratedModel calibrated(model);
    const auto any = [&](std::uint64_t) { return factor(random); };
    for (const nccl::Collective collective : TuneOptions{}.collectives) {
      if (model.ranks() < 2) break;
      calibrated.add(curve_of(model, std::nullopt, any, collective));
      for (const nccl::Way& way : {kRing, kRingLl128, kTree, kNvls}) {
        if (!model.is_offered({collective, kMib}, way) || random() % 2 == 0) continue;
        calibrated.add(curve_of(model, way, any, collective));
      }
    }
    TuneOptions options;
    options.most_bytes = random() % kGib;
    const TunerTable table = tune(calibrated, options);
    for (const TunedRange& range : table.ranges) {
      const nccl::Call call = {range.collective, range.from_bytes};
      EXPECT_TRUE(model.is_offered(call, range.way)) << shown(range);
      EXPECT_LT(range.us, range.default_us);
      EXPECT_LE(range.to_bytes, options.most_bytes + 1);
      expect_better(calibrated, range);
    }
    ranges += static_cast<int>(table.ranges.size());
    if (model.ranks() > 1) {
      EXPECT_EQ(shown(parse_tuner_file(to_tuner_file(table), "x")), shown(table));
    }
  }
  EXPECT_GT(ranges, 100) << "or nothing was tried";
}

TEST(Tune, OwnChoicesFillEveryGap) {
  const nccl::CostModel model(h100_nodes(2));
  TunerTable table;
  table.ranks = 16;
  table.nodes = 2;
  table.ranges = {{nccl::Collective::AllReduce, kMib, 2 * kMib, kTree}};
  const TunerTable full = with_own_choices(table, model);
  for (int i = 0; i < nccl::kCollectives; ++i) {
    const auto collective = static_cast<nccl::Collective>(i);
    std::uint64_t covered = 0;
    for (const TunedRange& range : full.ranges) {
      if (range.collective != collective) continue;
      EXPECT_EQ(range.from_bytes, covered);
      covered = range.to_bytes;
      if (range.from_bytes < 256 ||
          (collective == nccl::Collective::AllReduce && range.from_bytes == kMib)) {
        continue;
      }
      const nccl::Choice choice = model.choice({collective, range.from_bytes});
      EXPECT_EQ(range.way.algorithm, choice.way.algorithm) << shown(range);
      EXPECT_EQ(range.way.protocol, choice.way.protocol) << shown(range);
      EXPECT_EQ(range.way.channels, 0);
    }
    EXPECT_EQ(covered, TunedRange::kNoEnd);
  }
  ASSERT_EQ(words(range_of({16, 2, 0, {full.ranges.end() - 3, full.ranges.end()}}, kGib)->way),
            words({nccl::Algorithm::NvlsTree, nccl::Protocol::Simple}));
  EXPECT_THAT(with_own_choices(TunerTable{}, nccl::CostModel(a100_nodes(1, 1))).ranges, IsEmpty());
  // What was measured stays apart from what follows by the same way.
  const nccl::Way own = {nccl::Algorithm::NvlsTree, nccl::Protocol::Simple};
  ASSERT_EQ(model.choice({nccl::Collective::AllReduce, 64 * kMib}).way.algorithm, own.algorithm);
  table.ranges = {{nccl::Collective::AllReduce, 64 * kMib, kGib, own, 1, 2, true}};
  const TunerTable apart = with_own_choices(table, model);
  ASSERT_EQ(apart.ranges.back().from_bytes, kGib);
  EXPECT_FALSE(apart.ranges.back().measured);
  (void)to_tuner_file(full);
}

// What the public logs alone would change: they measured NCCL's choices only, so nothing but steps
// of three times the model.
TEST(Tune, PublicLogs) {
  REGATTA_NEED_SHARED("topologies/nccl-tests");
  struct Log {
    const char* name;
    nccl::Allocation allocation;
  };
  const Log logs[] = {
      {"a100x8-1node-superbench-allreduce", a100_nodes(1, 8)},
      {"a100x32-4node-deepops-dgxa100", a100_nodes(4, 8)},
      {"v100pciex4-1node-sheffield-bessemer", v100_pcie()},
      {"h100x8-1node-mlperf-v4.0-smc-bert-a", h100_nodes(1)},
      {"h100x64-8node-coreweave-sharp", with_sharp(h100_nodes(12))},
      {"gh200x8-2node-cscs-slingshot-good", gh200_nodes(2)},
      {"b200x16-2node-dstack-lambda", b200_nodes(2)},
      {"gb200x1440-20rack-coreweave", gb200_racks(20)},
  };
  for (const Log& row : logs) {
    const std::string file = std::string(row.name) + ".log";
    std::ifstream stream(tests::shared_path("topologies/nccl-tests") / file, std::ios::binary);
    std::stringstream text;
    text << stream.rdbuf();
    const nccl::NcclTestLog log = nccl::parse_nccl_tests_log(text.str(), file);
    const nccl::CostModel model(row.allocation);
    nccl::CalibratedModel calibrated(model);
    calibrated.add(nccl::MeasuredCurve::fit(model, {*log.collective, {}}, nccl::samples_of(log)));
    const TunerTable table = tune(calibrated, all_reduce_to(kGib));
    std::printf("%-44s %zu ranges\n", row.name, table.ranges.size());
    for (const TunedRange& range : table.ranges) {
      std::printf("    %s: %.1f us, not %.1f\n", shown(range).c_str(), range.us, range.default_us);
      EXPECT_FALSE(range.measured);
      EXPECT_GT(range.default_us, 3 * range.us);
    }
  }
}

}  // namespace
}  // namespace regatta::topology::plan
