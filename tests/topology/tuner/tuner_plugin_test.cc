// The tuner plug-in, called as NCCL calls it, by all versions of the interface.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <array>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <thread>

#include "base/process.h"
#include "base/text.h"
#include "tests/base/faulty_file_system.h"
#include "tests/sanitizers.h"
#include "topology/plan/tuner_table.h"
#include "topology/tuner/nccl_tuner.h"
#include "topology/tuner/plan_file.h"

namespace regatta::topology {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kKib = 1024, kMib = 1024 * kKib;
constexpr int kAllReduce = static_cast<int>(nccl::Collective::AllReduce);
constexpr int kAllGather = static_cast<int>(nccl::Collective::AllGather);

// What the plug-in logged; NCCL's logger is a plain function, too.
std::vector<std::string>& logged() {
  static std::vector<std::string> lines;
  return lines;
}

void keep_log(int level, unsigned long, const char*, int, const char* format, ...) {
  char line[2048];
  va_list values;
  va_start(values, format);
  std::vsnprintf(line, sizeof line, format, values);
  va_end(values);
  logged().push_back(std::to_string(level) + " " + line);
}

// 16 ranks on 2 nodes: all-reduce by ring LL with 8 channels from 1 to 64 KiB, by tree Simple from
// there to 1 MiB, by NVLSTree from 4 MiB on; all-gather by PAT from 256 B on.
plan::TunerTable a_table() {
  plan::TunerTable table;
  table.ranks = 16;
  table.nodes = 2;
  table.nccl_version = 22809;
  const auto add = [&](nccl::Collective collective, std::uint64_t from, std::uint64_t to,
                       nccl::Way way) {
    table.ranges.push_back({collective, from, to, way, 20, 30, true});
  };
  add(nccl::Collective::AllGather, 256, plan::TunedRange::kNoEnd,
      {nccl::Algorithm::Pat, nccl::Protocol::Simple});
  add(nccl::Collective::AllReduce, kKib, 64 * kKib, {nccl::Algorithm::Ring, nccl::Protocol::Ll, 8});
  add(nccl::Collective::AllReduce, 64 * kKib, kMib,
      {nccl::Algorithm::Tree, nccl::Protocol::Simple});
  add(nccl::Collective::AllReduce, 4 * kMib, plan::TunedRange::kNoEnd,
      {nccl::Algorithm::NvlsTree, nccl::Protocol::Simple});
  return table;
}

// What NCCL would take after the plug-in was asked, and with which channels.
struct Taken {
  int algorithm = -1, protocol = -1, channels = 0;
  bool operator==(const Taken&) const = default;
};

using Costs = std::array<std::array<float, nccl::kProtocols>, nccl::kAlgorithms>;

// Ring with LL128 is the fastest; everything is there.
Costs all_costs() {
  Costs costs;
  for (auto& row : costs) row.fill(20);
  costs[1][1] = 10;
  return costs;
}
const Taken kOwn = {1, 1, 0};

Taken least(const Costs& costs, int channels) {
  Taken taken = {-1, -1, channels};
  float best = 1e30F;
  for (int a = 0; a < nccl::kAlgorithms; ++a) {
    for (int p = 0; p < nccl::kProtocols; ++p) {
      const float cost = costs[static_cast<std::size_t>(a)][static_cast<std::size_t>(p)];
      if (cost >= 0 && cost < best) {
        best = cost;
        taken.algorithm = a;
        taken.protocol = p;
      }
    }
  }
  return taken;
}

class TunerPlugin : public testing::Test {
 protected:
  void SetUp() override {
    logged().clear();
    for (const char* name : {"NCCL_ALGO", "NCCL_PROTO"}) unsetenv(name);
    setenv("REGATTA_TUNER", "on", 1);
    write(plan::to_tuner_file(a_table()));
    library_ = dlopen(TUNER_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  void TearDown() override {
    if (library_ != nullptr) dlclose(library_);
    for (const char* name : {"REGATTA_TUNER", "REGATTA_TUNER_FILE"}) unsetenv(name);
  }

  void write(const std::string& bytes) {
    const auto path = directory_.path() / "plan.tuner";
    std::ofstream(path, std::ios::binary) << bytes;
    setenv("REGATTA_TUNER_FILE", path.c_str(), 1);
  }

  template <typename Symbol>
  Symbol* symbol(const std::string& name) {
    return static_cast<Symbol*>(dlsym(library_, name.c_str()));
  }

  void* open(int version, std::size_t ranks = 16, std::size_t nodes = 2) {
    void* context = &logged();  // must be replaced
    int result = -1;
    if (version == 5) {
      result = symbol<const NcclTunerV5>("ncclTunerPlugin_v5")
                   ->init(&context, 1, ranks, nodes, keep_log, nullptr, nullptr);
    } else {
      // The first two members are the same in all of these.
      result = symbol<const NcclTunerV2>("ncclTunerPlugin_v" + std::to_string(version))
                   ->init(ranks, nodes, keep_log, &context);
    }
    EXPECT_EQ(result, 0);
    return context;
  }
  void close(void* context) {
    EXPECT_EQ(symbol<const NcclTunerV5>("ncclTunerPlugin_v5")->finalize(context), 0);
  }

  Taken ask(int version, void* context, int function, std::size_t bytes,
            Costs costs = all_costs()) {
    int channels = 0, result = -1;
    auto* table = reinterpret_cast<float**>(costs.data());
    if (version == 2) {
      int algorithm = -1, protocol = -1;
      const bool nvls = costs[4][2] >= 0 || costs[5][2] >= 0, collnet = costs[3][2] >= 0;
      result = symbol<const NcclTunerV2>("ncclTunerPlugin_v2")
                   ->get_coll_info(context, function, bytes, collnet, nvls, 1, &algorithm,
                                   &protocol, &channels);
      EXPECT_EQ(algorithm < 0, protocol < 0) << "both or none";
      if (algorithm >= 0) {  // as NCCL 2.28 does it for plug-ins that know nothing else
        costs.at(static_cast<std::size_t>(algorithm)).at(static_cast<std::size_t>(protocol)) = 0;
      }
    } else if (version == 3) {
      result = symbol<const NcclTunerV3>("ncclTunerPlugin_v3")
                   ->get_coll_info(context, function, bytes, 1, table, 7, 3, &channels);
    } else if (version == 4) {
      result = symbol<const NcclTunerV4>("ncclTunerPlugin_v4")
                   ->get_coll_info(context, function, bytes, 1, table, 7, 3, 0, &channels);
    } else {
      result = symbol<const NcclTunerV5>("ncclTunerPlugin_v5")
                   ->get_coll_info(context, function, bytes, 1, table, 7, 3, 0, &channels);
    }
    EXPECT_EQ(result, 0) << "always success";
    return least(costs, channels);
  }

  // How a communicator of 16 ranks on 2 nodes comes out.
  bool acts() {
    void* context = open(5);
    const Taken taken = ask(5, context, kAllReduce, 2 * kKib);
    close(context);
    EXPECT_EQ(taken == kOwn, context == nullptr);
    return context != nullptr;
  }

  const char* complaint(const std::string& bytes) {
    int ranks = 0, version = 0;
    const auto judge = reinterpret_cast<decltype(&regatta_tuner_complaint)>(
        symbol<void>("regatta_tuner_complaint"));
    return judge(bytes.data(), bytes.size(), &ranks, &version);
  }

  tests::TemporaryDirectory directory_;
  void* library_ = nullptr;
};

TEST_F(TunerPlugin, AnswersByTheTableAtItsEdges) {
  struct Row {
    int function;
    std::size_t bytes;
    Taken taken;
  };
  const Taken ring = {1, 0, 8}, tree = {0, 2, 0}, nvls_tree = {5, 2, 0}, pat = {6, 2, 0};
  const Row rows[] = {
      {kAllReduce, 0, kOwn},
      {kAllReduce, kKib - 1, kOwn},
      {kAllReduce, kKib, ring},
      {kAllReduce, 64 * kKib - 1, ring},
      {kAllReduce, 64 * kKib, tree},
      {kAllReduce, kMib - 1, tree},
      {kAllReduce, kMib, kOwn},
      {kAllReduce, 4 * kMib - 1, kOwn},
      {kAllReduce, 4 * kMib, nvls_tree},
      {kAllReduce, std::size_t{1} << 40, nvls_tree},
      {kAllReduce, ~std::size_t{0}, nvls_tree},
      {kAllGather, 255, kOwn},
      {kAllGather, 256, pat},
      {static_cast<int>(nccl::Collective::ReduceScatter), 2 * kKib, kOwn},
      {static_cast<int>(nccl::Collective::Broadcast), 2 * kKib, kOwn},
      {-1, 2 * kKib, kOwn},
      {std::numeric_limits<int>::min(), 2 * kKib, kOwn},
      {5, 2 * kKib, kOwn},  // send and receive
      {1000000, 2 * kKib, kOwn},
  };
  for (const int version : {2, 3, 4, 5}) {
    void* const context = open(version);
    ASSERT_NE(context, nullptr);
    for (const Row& row : rows) {
      SCOPED_TRACE(std::to_string(version) + ": " + std::to_string(row.bytes));
      // What version 2 cannot be sure of it leaves to NCCL.
      const bool unsure = version == 2 && row.taken == pat;
      EXPECT_EQ(ask(version, context, row.function, row.bytes), unsure ? kOwn : row.taken);
    }
    close(context);
  }
}

// NCCL's example forgets these: what a communicator does not have stays as it is, and a table of
// other dimensions is not written outside.
TEST_F(TunerPlugin, TakesNothingThatIsNotThere) {
  Costs costs = all_costs();
  costs[1][0] = -1;  // ring LL
  costs[5][2] = -1;  // NVLS tree
  costs[4][2] = -1;
  costs[0][2] = std::numeric_limits<float>::quiet_NaN();
  for (const int version : {3, 4, 5}) {
    void* const context = open(version);
    EXPECT_EQ(ask(version, context, kAllReduce, 2 * kKib, costs), kOwn) << "and its own channels";
    EXPECT_EQ(ask(version, context, kAllReduce, 100 * kKib, costs), kOwn);
    EXPECT_EQ(ask(version, context, kAllReduce, 8 * kMib, costs), kOwn);
    close(context);
  }
  void* const context = open(2);
  EXPECT_EQ(ask(2, context, kAllReduce, 8 * kMib, costs), kOwn) << "no NVLS, it was told";
  close(context);

  const auto* tuner = symbol<const NcclTunerV5>("ncclTunerPlugin_v5");
  void* const other = open(5);
  for (const auto& [algorithms, protocols] : {std::pair{1, 3}, std::pair{7, 0}, std::pair{0, 0}}) {
    float few[3] = {7, 7, 7};
    int channels = 0;
    EXPECT_EQ(tuner->get_coll_info(other, kAllReduce, 2 * kKib, 1, reinterpret_cast<float**>(few),
                                   algorithms, protocols, 0, &channels),
              0);
    EXPECT_THAT(few, testing::Each(7.0F));
    EXPECT_EQ(channels, 0);
  }
  close(other);
}

TEST_F(TunerPlugin, Version2NamesOnlyWhatIsThereForCertain) {
  struct Row {
    const char* name;
    int nodes;
    nccl::Collective collective;
    nccl::Way way;
    bool collnet, nvls, named;
  };
  const nccl::Way nvls = {nccl::Algorithm::Nvls, nccl::Protocol::Simple};
  const nccl::Way nvls_tree = {nccl::Algorithm::NvlsTree, nccl::Protocol::Simple};
  const nccl::Way direct = {nccl::Algorithm::CollNetDirect, nccl::Protocol::Simple};
  const Row rows[] = {
      {"ring",
       2,
       nccl::Collective::Broadcast,
       {nccl::Algorithm::Ring, nccl::Protocol::Simple},
       false,
       false,
       true},
      {"LL128",
       2,
       nccl::Collective::AllReduce,
       {nccl::Algorithm::Ring, nccl::Protocol::Ll128},
       true,
       true,
       false},
      {"tree",
       2,
       nccl::Collective::AllReduce,
       {nccl::Algorithm::Tree, nccl::Protocol::Ll},
       false,
       false,
       true},
      {"tree of a gather",
       2,
       nccl::Collective::AllGather,
       {nccl::Algorithm::Tree, nccl::Protocol::Ll},
       true,
       true,
       false},
      {"NVLS", 1, nccl::Collective::AllReduce, nvls, false, true, true},
      {"NVLS that is not there", 1, nccl::Collective::AllReduce, nvls, true, false, false},
      {"NVLS between nodes", 2, nccl::Collective::AllReduce, nvls, false, true, false},
      {"NVLS between nodes with SHARP", 2, nccl::Collective::AllReduce, nvls, true, true, true},
      {"NVLS tree", 2, nccl::Collective::AllReduce, nvls_tree, false, true, true},
      {"NVLS tree on one node", 1, nccl::Collective::AllReduce, nvls_tree, false, true, false},
      {"NVLS with LL",
       1,
       nccl::Collective::AllReduce,
       {nccl::Algorithm::Nvls, nccl::Protocol::Ll},
       true,
       true,
       false},
      {"direct", 2, nccl::Collective::AllReduce, direct, true, false, true},
      {"direct without SHARP", 2, nccl::Collective::AllReduce, direct, false, false, false},
  };
  const auto* tuner = symbol<const NcclTunerV2>("ncclTunerPlugin_v2");
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    plan::TunerTable table;
    table.ranks = 16;
    table.nodes = row.nodes;
    table.ranges = {{row.collective, 256, plan::TunedRange::kNoEnd, row.way}};
    write(plan::to_tuner_file(table));
    void* const context = open(2, 16, static_cast<std::size_t>(row.nodes));
    int algorithm = -1, protocol = -1, channels = 0;
    EXPECT_EQ(tuner->get_coll_info(context, static_cast<int>(row.collective), kKib, row.collnet,
                                   row.nvls, 1, &algorithm, &protocol, &channels),
              0);
    EXPECT_EQ(algorithm, row.named ? static_cast<int>(row.way.algorithm) : -1);
    EXPECT_EQ(protocol, row.named ? static_cast<int>(row.way.protocol) : -1);
    close(context);
  }
}

TEST_F(TunerPlugin, CommunicatorsOfOtherSizesAreLeftAlone) {
  void* const one = open(5);
  void* const half = open(5, 8, 2);
  void* const spread = open(5, 16, 4);
  void* const again = open(5);
  EXPECT_EQ(half, nullptr);
  EXPECT_EQ(spread, nullptr);
  EXPECT_THAT(logged().at(1), HasSubstr("is for 16 ranks on 2 nodes, not 8 on 2"));
  EXPECT_EQ(ask(5, half, kAllReduce, 2 * kKib), kOwn);
  EXPECT_EQ(ask(5, one, kAllReduce, 2 * kKib), (Taken{1, 0, 8}));
  close(one);
  close(half);
  EXPECT_EQ(ask(5, again, kAllReduce, 2 * kKib), (Taken{1, 0, 8}));
  close(again);
}

// A file that is gone or changed while communicators live does not matter to them.
TEST_F(TunerPlugin, ReadsOnlyWhenACommunicatorIsMade) {
  void* const context = open(5);
  write("");
  EXPECT_EQ(ask(5, context, kAllReduce, 2 * kKib), (Taken{1, 0, 8}));
  close(context);
}

TEST_F(TunerPlugin, ThreadsAskAtOnce) {
  void* const context = open(5);
  const auto* tuner = symbol<const NcclTunerV5>("ncclTunerPlugin_v5");
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        Costs costs = all_costs();
        int channels = 0;
        tuner->get_coll_info(context, kAllReduce, 2 * kKib, 1,
                             reinterpret_cast<float**>(costs.data()), 7, 3, 0, &channels);
        EXPECT_EQ(channels, 8);
      }
    });
  }
  threads.clear();
  close(context);
}

TEST_F(TunerPlugin, StandsDownWhereSomebodyElseDecides) {
  EXPECT_TRUE(acts());
  for (const char* name : {"NCCL_ALGO", "NCCL_PROTO"}) {
    setenv(name, "allreduce:ring", 1);
    logged().clear();
    EXPECT_FALSE(acts()) << name;
    EXPECT_THAT(logged().at(0), HasSubstr(std::string(name) + " is set"));
    setenv(name, "", 1);
    EXPECT_TRUE(acts()) << "an empty one says nothing to NCCL either";
    unsetenv(name);
  }
  setenv("REGATTA_TUNER", "off", 1);
  EXPECT_FALSE(acts());
  unsetenv("REGATTA_TUNER");
  EXPECT_FALSE(acts()) << "this program is not regatta-train";
  setenv("REGATTA_TUNER", "on", 1);
  unsetenv("REGATTA_TUNER_FILE");
  EXPECT_FALSE(acts());
  EXPECT_THAT(logged().back(), HasSubstr("REGATTA_TUNER_FILE is not set"));
}

TEST_F(TunerPlugin, RefusesEveryDamage) {
  const std::string good = plan::to_tuner_file(a_table());
  ASSERT_EQ(complaint(good), nullptr);
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(complaint(good.substr(0, size)), nullptr) << size;
  }
  EXPECT_NE(complaint(good + '\0'), nullptr);
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(complaint(bad), nullptr) << bit;
  }
  // Through a file as well, for some of each.
  for (std::size_t size = 0; size < good.size(); size += 7) {
    write(good.substr(0, size));
    EXPECT_FALSE(acts()) << size;
  }
  for (std::size_t byte = 0; byte < good.size(); byte += 7) {
    std::string bad = good;
    bad[byte] = static_cast<char>(bad[byte] ^ 0x10);
    write(bad);
    EXPECT_FALSE(acts()) << byte;
  }
  write(good);
  EXPECT_TRUE(acts());
  int warnings = 0;
  for (const std::string& line : logged()) warnings += line.front() == '2' ? 1 : 0;
  EXPECT_EQ(warnings, 1) << "it is said once";
}

// Whole by its checksum, and yet no table.
TEST_F(TunerPlugin, RefusesWhatNobodyMeans) {
  using tuner::FileHead;
  using tuner::FileRange;
  struct Row {
    const char* words;
    std::function<void(FileHead*, FileRange*)> change;  // of the head, and of all-gather's range
  };
  const Row rows[] = {
      {"is not a plan", [](FileHead* h, FileRange*) { h->magic[0] = 'x'; }},
      {"another version", [](FileHead* h, FileRange*) { h->version = 2; }},
      {"too many", [](FileHead* h, FileRange*) { h->ranges = 1000000; }},
      {"too many", [](FileHead* h, FileRange*) { h->ranges = ~0U; }},
      {"cut off", [](FileHead* h, FileRange*) { h->ranges = 5; }},
      {"too long", [](FileHead* h, FileRange*) { h->ranges = 3; }},
      {"no communicator", [](FileHead* h, FileRange*) { h->ranks = 0; }},
      {"no communicator", [](FileHead* h, FileRange*) { h->nodes = 17; }},
      {"no communicator", [](FileHead* h, FileRange*) { h->zero = 1; }},
      {"no communicator", [](FileHead* h, FileRange*) { h->ranks = ~0U; }},
      {"no communicator", [](FileHead* h, FileRange*) { h->nccl_version = ~0U; }},
      {"cannot be", [](FileHead*, FileRange* r) { r->collective = 5; }},
      {"cannot be", [](FileHead*, FileRange* r) { r->algorithm = 7; }},
      {"cannot be", [](FileHead*, FileRange* r) { r->protocol = 3; }},
      {"cannot be", [](FileHead*, FileRange* r) { r->measured = 2; }},
      {"cannot be", [](FileHead*, FileRange* r) { r->zero = 1; }},
      {"cannot be", [](FileHead*, FileRange* r) { r->to_bytes = r->from_bytes; }},
      {"cannot be", [](FileHead*, FileRange* r) { r->us = -1; }},
      {"cannot be", [](FileHead*, FileRange* r) { r->default_us = 1e300; }},
      {"cannot be",
       [](FileHead*, FileRange* r) { r->us = std::numeric_limits<double>::quiet_NaN(); }},
      {"cannot be", [](FileHead*, FileRange* r) { r->channels = 8; }},  // of PAT
      {"cannot be",
       [](FileHead*, FileRange* r) {
         r->algorithm = 1;
         r->channels = 65;
       }},
      {"out of order", [](FileHead*, FileRange* r) { r->collective = 4; }},  // to no end, then more
  };
  const std::string good = plan::to_tuner_file(a_table());
  for (const Row& row : rows) {
    FileHead head;
    FileRange range = tuner::range_at(good.data(), 0);
    std::memcpy(&head, good.data(), sizeof head);
    row.change(&head, &range);
    std::string bad = good;
    std::memcpy(bad.data() + sizeof head, &range, sizeof range);
    std::memcpy(bad.data(), &head, sizeof head);
    head.checksum = tuner::checksum_of(bad.data(), bad.size());
    std::memcpy(bad.data(), &head, sizeof head);
    const char* const words = complaint(bad);
    ASSERT_NE(words, nullptr) << row.words;
    EXPECT_THAT(words, HasSubstr(row.words));
    write(bad);
    EXPECT_FALSE(acts()) << row.words;
  }
}

TEST_F(TunerPlugin, WhatIsNoFileDoesNotStopIt) {
  const auto refuse = [&](const base::Path& path, const char* words) {
    setenv("REGATTA_TUNER_FILE", path.c_str(), 1);
    dlclose(library_);  // so that it says it again
    library_ = dlopen(TUNER_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    logged().clear();
    EXPECT_FALSE(acts()) << path;
    EXPECT_THAT(logged().at(0), AllOf(HasSubstr("2 regatta: plan.tuner "), HasSubstr(words)));
  };
  refuse(directory_.path(), "is not a file");
  refuse(directory_.path() / "absent", "cannot be opened");
  refuse("/dev/zero", "is not a file");
  const base::Path fifo = directory_.path() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  refuse(fifo, "is not a file");
  const base::Path large = directory_.path() / "large";
  write(plan::to_tuner_file(a_table()));
  std::filesystem::copy_file(directory_.path() / "plan.tuner", large);
  std::filesystem::resize_file(large, 40 + 40 * std::uintmax_t{1000000});
  refuse(large, "is too long");
  std::filesystem::resize_file(large, 0);
  refuse(large, "is cut off");
}

// Of a program of its own: what a call costs, and that the plug-in knows regatta-train by its name.
class TunerHost : public testing::Test {
 protected:
  std::string run(const base::Path& program, std::map<std::string, std::string> environment,
                  const char* calls = "24") {
    const base::Path file = directory_.path() / "plan.tuner";
    std::ofstream(file, std::ios::binary) << plan::to_tuner_file(a_table());
    environment["REGATTA_TUNER_FILE"] = file.string();
    base::Command command;
    command.arguments = {program.string(), TUNER_PLUGIN, "16", "2", calls};
    command.environment = environment;
    const base::Output output = base::run(command, 200);
    EXPECT_EQ(output.exit.code, 0) << output.text << output.errors;
    return output.text;
  }
  tests::TemporaryDirectory directory_;
};

TEST_F(TunerHost, ACallAllocatesNothing) {
  const std::string text = run(TUNER_HOST, {{"REGATTA_TUNER", "on"}}, "1000000");
  std::printf("%s", text.c_str());
  EXPECT_THAT(text, AllOf(HasSubstr("log 3 regatta: 4 ranges"), HasSubstr("acts 1\n"),
                          // 10 of the 24 sizes from 256 B on: 1 KiB to 512 KiB.
                          HasSubstr("calls 1000000 changed 416670 allocations 0 ")));
#if !defined(REGATTA_ADDRESS_SANITIZER) && !defined(REGATTA_THREAD_SANITIZER)
  EXPECT_THAT(text, testing::Not(HasSubstr("allocations of init 0"))) << "they are counted";
#endif
}

TEST_F(TunerHost, OnlyRegattaTrainNeedNotAsk) {
  EXPECT_THAT(run(TUNER_HOST, {}), HasSubstr("acts 0\n"));
  const base::Path program = directory_.path() / "regatta-train";
  std::filesystem::copy_file(TUNER_HOST, program);
  EXPECT_THAT(run(program, {}), HasSubstr("acts 1\n"));
  EXPECT_THAT(run(program, {{"REGATTA_TUNER", "off"}}), HasSubstr("acts 0\n"));
  const base::Path other = directory_.path() / "regatta-trainer";
  std::filesystem::copy_file(TUNER_HOST, other);
  EXPECT_THAT(run(other, {}), HasSubstr("acts 0\n"));
}

TEST(TunerLibrary, NeedsNothingButLibc) {
#if defined(REGATTA_ADDRESS_SANITIZER) || defined(REGATTA_THREAD_SANITIZER)
  GTEST_SKIP() << "a sanitizer adds its library";
#endif
  base::Command command;
  command.arguments = {"readelf", "-d", TUNER_PLUGIN};
  base::Output output;
  try {
    output = base::run(command, 60);
  } catch (const base::Error& error) {
    GTEST_SKIP() << "needs readelf (binutils): " << error.what();
  }
  std::vector<std::string> needed;
  for (const std::string& line : base::split(output.text, '\n')) {
    if (line.find("(NEEDED)") != std::string::npos) needed.push_back(line);
  }
  EXPECT_THAT(needed, testing::ElementsAre(HasSubstr("[libc.so.6]")));
}

}  // namespace
}  // namespace regatta::topology
