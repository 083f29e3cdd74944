#include "topology/nccl/nccl_tests_log.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "tests/shared_data.h"

namespace regatta::topology {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::string error_of(const std::string& text) {
  try {
    (void)nccl::parse_nccl_tests_log(text, "t.log");
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::User);
    return error.what();
  }
  return "it was read";
}

struct SharedLog {
  const char* file;
  const char* refused;  // or "" and:
  nccl::Collective collective;
  int ranks, nodes;
  const char* model;
  std::size_t rows, disturbed;
  std::uint64_t bytes;            // of the last row
  double out_of_place, in_place;  // µs
};

const SharedLog kShared[] = {
    {"a100x32-4node-deepops-dgxa100.log", "", nccl::Collective::AllReduce, 32, 0, "", 13, 0,
     4294967296, 43557, 43440},
    {"a100x4-1node-sheffield-stanage.log", "", nccl::Collective::AllReduce, 4, 1,
     "NVIDIA A100-SXM4-80GB", 25, 0, 134217728, 974.9, 962.4},
    {"a100x8-1node-superbench-allgather.log", "", nccl::Collective::AllGather, 8, 1,
     "A100-SXM4-40GB", 29, 0, 8589934592, 33646, 32669},
    {"a100x8-1node-superbench-allreduce.log", "", nccl::Collective::AllReduce, 8, 1,
     "A100-SXM4-40GB", 32, 0, 8589934592, 63896, 63959},
    {"a100x8-1node-superbench-reducescatter.log", "", nccl::Collective::ReduceScatter, 8, 1,
     "A100-SXM4-40GB", 29, 0, 8589934592, 32464, 32502},
    {"b200x16-2node-dstack-gcp-a4-roce.log", "", nccl::Collective::AllReduce, 16, 0, "", 11, 0,
     8589934592, 23563, 23702},
    {"b200x16-2node-dstack-lambda.log", "", nccl::Collective::AllReduce, 16, 0, "", 29, 0,
     2147483648, 5784.75, 5728.4},
    {"gb200x1440-20rack-coreweave.log", "", nccl::Collective::AllReduce, 1440, 0, "NVIDIA GB200", 6,
     0, 17179869184, 84625, 84828},
    {"gb200x72-1rack-coreweave.log", "", nccl::Collective::AllReduce, 72, 0,
     "NVIDIA Graphics Device", 5, 0, 8589934592, 20299, 20006},
    {"gh200x8-2node-cscs-slingshot-BAD-no-ofi-plugin.log", "", nccl::Collective::AllReduce, 8, 2,
     "NVIDIA GH200 120GB", 25, 2, 134217728, 43293, 43396},
    {"gh200x8-2node-cscs-slingshot-good.log", "", nccl::Collective::AllReduce, 8, 2,
     "NVIDIA GH200 120GB", 25, 1, 134217728, 1916.4, 1907.8},
    // Its table is of 96 GPUs, whatever the name says: busbw ÷ algbw is 1.9792 = 2·95/96 in all
    // rows.
    {"h100x64-8node-coreweave-sharp.log", "", nccl::Collective::AllReduce, 96, 0, "", 5, 0,
     8589934592, 43980, 44094},
    {"h100x8-1node-mlperf-v4.0-oracle-51.2M.log", "", nccl::Collective::AllReduce, 8, 1,
     "NVIDIA H100 80GB HBM3", 1, 0, 53687090, 287.0, 287.6},
    {"h100x8-1node-mlperf-v4.0-oracle-FAILED.log",
     "it has no table of nccl-tests; its first line that tells of an error: srun: error: Unable to "
     "create step for job "
     "551: More processors requested than permitted",
     nccl::Collective::AllReduce, 0, 0, "", 0, 0, 0, 0, 0},
    {"h100x8-1node-mlperf-v4.0-smc-bert-a.log", "", nccl::Collective::AllReduce, 8, 1,
     "NVIDIA H100 80GB HBM3", 6, 0, 704643072, 2693.8, 2688.5},
    {"h100x8-1node-mlperf-v4.0-smc-bert-b.log", "", nccl::Collective::AllReduce, 8, 1,
     "NVIDIA H100 80GB HBM3", 6, 0, 704643072, 2689.5, 2688.7},
    {"v100pciex4-1node-sheffield-bessemer.log", "", nccl::Collective::AllReduce, 4, 1,
     "Tesla V100-PCIE-32GB", 25, 0, 134217728, 21410, 21407},
};

TEST(NcclTestsLog, ReadsEveryPublicLog) {
  REGATTA_NEED_SHARED("topologies/nccl-tests");
  const auto folder = tests::shared_path("topologies/nccl-tests");
  std::vector<std::string> known;
  for (const SharedLog& row : kShared) known.emplace_back(row.file);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++files;
    EXPECT_THAT(known, Contains(entry.path().filename().string()));
  }
  EXPECT_EQ(files, known.size());
  for (const SharedLog& row : kShared) {
    SCOPED_TRACE(row.file);
    const std::string text = tests::file_text(folder / row.file);
    if (*row.refused != 0) {
      EXPECT_EQ(error_of(text), std::string("t.log: ") + row.refused);
      continue;
    }
    const nccl::NcclTestLog log = nccl::parse_nccl_tests_log(text, row.file);
    EXPECT_EQ(log.collective, row.collective);
    EXPECT_EQ(log.ranks, row.ranks);
    EXPECT_EQ(log.nodes, row.nodes);
    EXPECT_EQ(log.gpu_model, row.model);
    ASSERT_THAT(log.rows, SizeIs(row.rows));
    std::size_t disturbed = 0;
    for (const nccl::NcclTestRow& measured : log.rows) disturbed += measured.disturbed ? 1 : 0;
    EXPECT_EQ(disturbed, row.disturbed);
    EXPECT_EQ(log.rows.back().bytes, row.bytes);
    EXPECT_EQ(log.rows.back().out_of_place_us, row.out_of_place);
    EXPECT_EQ(log.rows.back().in_place_us, row.in_place);
  }
}

TEST(NcclTestsLog, KeepsWhatPublicLogsSayBeside) {
  REGATTA_NEED_SHARED("topologies/nccl-tests");
  const auto folder = tests::shared_path("topologies/nccl-tests");
  const auto read = [&](const char* file) {
    return nccl::parse_nccl_tests_log(tests::file_text(folder / file), file);
  };
  const nccl::NcclTestLog lambda = read("b200x16-2node-dstack-lambda.log");
  EXPECT_EQ(lambda.nccl_version, 22602);
  EXPECT_EQ(lambda.program, "all_reduce_perf");
  const nccl::NcclTestLog mlperf = read("h100x8-1node-mlperf-v4.0-smc-bert-a.log");
  EXPECT_TRUE(mlperf.cuda_graph);
  EXPECT_TRUE(mlperf.checked);
  EXPECT_THAT(mlperf.notes, IsEmpty());
  const nccl::NcclTestLog superbench = read("a100x8-1node-superbench-allgather.log");
  EXPECT_FALSE(superbench.cuda_graph);
  EXPECT_THAT(superbench.notes, Contains("The test did not check its results."));
  EXPECT_THAT(superbench.notes, Contains(HasSubstr("by its bandwidths it is AllGather")));
  EXPECT_THAT(read("gh200x8-2node-cscs-slingshot-BAD-no-ofi-plugin.log").notes,
              Contains(HasSubstr("2 of the calls took much longer than a larger one")));
  EXPECT_THAT(read("a100x32-4node-deepops-dgxa100.log").notes, Contains(HasSubstr("of 32 ranks")));
}

TEST(NcclTestsLog, ANumberOfWrongValuesShowsThatItWasChecked) {
  REGATTA_NEED_SHARED("topologies/nccl-tests");
  const auto folder = tests::shared_path("topologies/nccl-tests");
  struct Row {
    const char* file;
    bool checked;
  };
  // Four of these do not print the test's options ("validation: 1").
  for (const Row& row :
       {Row{"b200x16-2node-dstack-lambda.log", true},
        Row{"b200x16-2node-dstack-gcp-a4-roce.log", true},
        Row{"gb200x72-1rack-coreweave.log", true}, Row{"gb200x1440-20rack-coreweave.log", true},
        Row{"h100x64-8node-coreweave-sharp.log", true},
        Row{"a100x32-4node-deepops-dgxa100.log", true},
        Row{"v100pciex4-1node-sheffield-bessemer.log", true},
        Row{"a100x8-1node-superbench-allreduce.log", false},
        Row{"a100x8-1node-superbench-allgather.log", false}}) {
    const nccl::NcclTestLog log =
        nccl::parse_nccl_tests_log(tests::file_text(folder / row.file), row.file);
    EXPECT_EQ(log.checked, row.checked) << row.file;
    const auto notes =
        std::count(log.notes.begin(), log.notes.end(), "The test did not check its results.");
    EXPECT_EQ(notes, row.checked ? 0 : 1) << row.file;
  }
}

// Four ranks of one node, as the newest version prints them. 1 MiB in 50 µs: 20.97 GB/s, ·1.5.
const std::string kHead =
    "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 1 iters: "
    "20 agg iters: 1 validation: 1 graph: 0\n"
    "#\n# Using devices\n"
    "#  Rank  0 Group  0 Pid  11 on  node01 device  0 [0000:01:00] NVIDIA A100-SXM4-40GB\n"
    "#  Rank  1 Group  0 Pid  12 on  node01 device  1 [0000:02:00] NVIDIA A100-SXM4-40GB\n"
    "#  Rank  2 Group  0 Pid  13 on  node02 device  0 [0000:01:00] NVIDIA A100-SXM4-40GB\n"
    "#  Rank  3 Group  0 Pid  14 on  node02 device  1 [0000:02:00] NVIDIA A100-SXM4-40GB\n"
    "#\n"
    "#                                        out-of-place                       in-place\n";
const std::string kColumns =
    "#  size   count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
    "#   (B) (elements)             (us) (GB/s) (GB/s)         (us) (GB/s) (GB/s)\n";
const std::string kRows =
    "  1048576  262144  float  sum  -1  50.00  20.97  31.46  0  49.00  21.40  32.10  0\n"
    "  2097152  524288  float  sum  -1  80.00  26.21  39.32  0  81.00  25.89  38.84  0\n";
const std::string kFoot = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 35.43\n#\n";
const std::string kLog = kHead + kColumns + kRows + kFoot;

// Every line with `prefix` before it.
std::string prefixed(const std::string& text, const std::string& prefix) {
  std::string changed;
  for (const std::string& line : base::split(text, '\n')) changed += prefix + line + "\n";
  return changed;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

TEST(NcclTestsLog, IsCheckedByItsColumnsWhereNoLineSaysSo) {
  const auto checked = [](const std::string& text) {
    return nccl::parse_nccl_tests_log(text, "x").checked;
  };
  const std::string silent = replaced(kLog, "validation: 1 ", "");
  EXPECT_TRUE(checked(silent)) << "numbers of wrong values";
  const std::string unchecked = replaced(silent, "  0", "  N/A");
  EXPECT_FALSE(checked(unchecked));
  EXPECT_TRUE(checked(replaced(kLog, "  0", "  N/A"))) << "validation: 1";
  EXPECT_TRUE(checked(replaced(replaced(silent, "#wrong", "error"), "  0", "  2e-07")));
}

// What carried the data, where the run was made with NCCL_DEBUG=INFO.
TEST(NcclTestsLog, KnowsTheNetworkThatNcclNames) {
  const auto with = [](const std::string& lines) {
    return nccl::parse_nccl_tests_log(prefixed(lines, "node01:26:26 [0] NCCL INFO ") + kLog, "x");
  };
  EXPECT_EQ(nccl::parse_nccl_tests_log(kLog, "x").network, "");
  const nccl::NcclTestLog efa = with(
      "NET/OFI Selected Provider is efa\nUsing network AWS Libfabric\n"
      "Channel 04 : 8[101c0] -> 0[101c0] [send] via NET/AWS Libfabric/0/GDRDMA");
  EXPECT_EQ(efa.network, "AWS Libfabric");
  EXPECT_TRUE(efa.gpu_direct);
  const nccl::NcclTestLog tcp =
      with("Using network Socket\nChannel 00 : 1[0] -> 0[0] [receive] via NET/Socket/0");
  EXPECT_EQ(tcp.network, "Socket");
  EXPECT_FALSE(tcp.gpu_direct);
  EXPECT_EQ(with("Channel 00/16 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA").network, "IB");
}

TEST(NcclTestsLog, ReadsWhatLaunchersMakeOfIt) {
  struct Row {
    const char* name;
    std::string text;
  };
  const Row rows[] = {
      {"as printed", kLog},
      {"mpirun --tag-output", prefixed(kLog, "[1,0]<stdout>:")},
      {"srun -l", prefixed(kLog, "0: ")},
      {"srun -l of many", prefixed(kLog, " 12: ")},
      {"carriage returns", replaced(kLog, "\n", "\r\n")},
      {"without the #", replaced(kLog, "#", "")},
      {"indented", prefixed(kLog, "      ")},
      {"log lines in the table", replaced(kLog, "  2097152 ",
                                          "node01:77:77 [0] NCCL INFO Launch mode Parallel\n"
                                          "3 lines of a prolog\n  2097152 ")},
      {"-T", replaced(replaced(kLog, "38.84  0", "38.84  0 2026-01-01 10:00:00"), "32.10  0",
                      "32.10  0 2026-01-01 10:00:00")},
      {"unchecked", replaced(replaced(kLog, "31.46  0", "31.46  N/A"), "32.10  0", "32.10  N/A")},
      {"0 bytes before",
       replaced(kLog, "  1048576 ",
                "  0 0 float sum -1 9.1 0.00 0.00 0 9.0 0.00 0.00 0\n  1048576 ")},
      {"measured again", replaced(kLog, "  1048576 ",
                                  "  1048576 262144 float sum -1 60.00 17.48 26.21 0 60.00 17.48 "
                                  "26.21 0\n  1048576 ")},
      {"the old error column",
       replaced(replaced(replaced(kLog, "#wrong", "error"), "31.46  0", "31.46 2e-07"), "32.10  0",
                "32.10 1e-07")},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const std::string text = std::string(row.name) == "-T"
                                 ? replaced(row.text, "busbw #wrong\n", "busbw #wrong timestamp\n")
                                 : row.text;
    const nccl::NcclTestLog log = nccl::parse_nccl_tests_log(text, "t.log");
    EXPECT_EQ(log.collective, nccl::Collective::AllReduce);
    EXPECT_EQ(log.ranks, 4);
    EXPECT_EQ(log.nodes, 2);
    EXPECT_EQ(log.nccl_version, 22809);
    EXPECT_EQ(log.gpu_model, "NVIDIA A100-SXM4-40GB");
    ASSERT_THAT(log.rows, SizeIs(2));
    EXPECT_EQ(log.rows[0].bytes, 1048576u);
    EXPECT_EQ(log.rows[0].us(), 49.0);
    EXPECT_EQ(log.rows[1].out_of_place_us, 80.0);
    EXPECT_FALSE(log.rows[1].disturbed);
  }
}

// The table alone, where nothing else tells what it is: 2·3/4 of all-reduce, 3/4 of the others.
TEST(NcclTestsLog, TellsTheCollectiveByTheTable) {
  const std::string gather =
      "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
      "1048576 65536 float none -1 50.00 20.97 15.73 0 49.00 21.40 16.05 0\n"
      "1073741824 67108864 float none -1 10000 107.37 80.53 0 10000 107.37 80.53 0\n";
  const nccl::NcclTestLog log = nccl::parse_nccl_tests_log(gather, "t.log");
  EXPECT_EQ(log.collective, nccl::Collective::AllGather);
  EXPECT_EQ(log.ranks, 4);
  EXPECT_THAT(log.notes, Contains("The log ends before the test's summary."));
  EXPECT_EQ(nccl::parse_nccl_tests_log(replaced(gather, "none", "sum"), "t.log").collective,
            nccl::Collective::ReduceScatter);
  // In the oldest form a gather has neither column.
  const std::string old =
      "# size count type time algbw busbw error time algbw busbw error\n"
      "1073741824 67108864 float 10000 107.37 80.53 N/A 10000 107.37 80.53 N/A\n";
  EXPECT_EQ(nccl::parse_nccl_tests_log(old, "t.log").collective, nccl::Collective::AllGather);
  EXPECT_EQ(nccl::parse_nccl_tests_log("/opt/alltoall_perf -b 1G\n" + old, "t.log").collective,
            std::nullopt);
  EXPECT_EQ(nccl::parse_nccl_tests_log(replaced(kLog, "all_reduce_perf", "sendrecv_perf"), "t.log")
                .collective,
            std::nullopt);
}

TEST(NcclTestsLog, MarksWhatWasDisturbed) {
  const nccl::NcclTestLog log = nccl::parse_nccl_tests_log(
      replaced(replaced(kLog, "50.00  20.97  31.46", "150.0  6.99  10.49"), "49.00  21.40  32.10",
               "149.0  7.04  10.56"),
      "t.log");
  EXPECT_TRUE(log.rows[0].disturbed);
  EXPECT_FALSE(log.rows[1].disturbed);
}

TEST(NcclTestsLog, Refuses) {
  struct Row {
    const char* name;
    std::string text;
    const char* says;
  };
  const std::string row = base::split(kRows, '\n')[0];
  const Row rows[] = {
      {"nothing", "", "no table"},
      {"other text", "hello\n", "give the output of all_reduce_perf"},
      {"a launcher's error", "slurmstepd: error: execve(): all_reduce_perf: No such file\n",
       "its first line that tells of an error: slurmstepd: error: execve()"},
      {"a crash before the rows", kHead + kColumns + "node01: Test NCCL failure common.cu:958\n",
       "its table has no rows; its first line that tells of an error: node01: Test NCCL failure"},
      {"a row cut off", kHead + kColumns + row.substr(0, 60), "10 of 13 columns"},
      {"two tables", kLog + kLog, "second table"},
      {"CPU times", replaced(kLog, "  time ", " cputime "), "(-C)"},
      {"wrong results", replaced(kLog, "38.84  0", "38.84  17"), "wrong results"},
      {"wrong results in the end", replaced(kLog, "values : 0 OK", "values : 3 FAILED"),
       "wrong results"},
      {"the root taken for the time", replaced(kLog, "redop  root  time", "redop time root"),
       "no algbw and busbw behind 'time'"},
      {"a column too few in the header", replaced(kLog, " root ", " "), "13 of 12 columns"},
      {"times that do not fit", replaced(kLog, " 80.00 ", " 8.000 "), "do not fit together"},
      {"not a number", replaced(kLog, " 80.00 ", " nan "), "no measurement"},
      {"infinite", replaced(kLog, " 80.00 ", " inf "), "no measurement"},
      {"below zero", replaced(kLog, " 80.00 ", " -80.0 "), "no measurement"},
      {"no time", replaced(kLog, " 80.00  26.21", " 0.00  0.00"), "none that a call can take"},
      {"each alone",
       replaced(replaced(replaced(kLog, "Rank  1", "Rank  0"), "Rank  2", "Rank  0"), "Rank  3",
                "Rank  0"),
       "built without MPI"},
      {"of one rank",
       replaced(
           replaced(replaced(replaced(kLog, "31.46", "0.00"), "32.10", "0.00"), "39.32", "0.00"),
           "38.84", "0.00"),
       "with one rank"},
      {"other ranks than it lists", replaced(kLog, "Rank  3", "Rank  7"),
       "not those of AllReduce over the 8 ranks"},
      {"only empty calls", kHead + kColumns + "0 0 float sum -1 9 0 0 0 9 0 0 0\n", "0 bytes"},
      {"too much", std::string(nccl::kMostLogBytes + 1, ' '), "too much"},
      {"too many rows", kHead + kColumns + prefixed(std::string(nccl::kMostLogRows, '\n'), row),
       "more than 4096 rows"},
  };
  for (const Row& bad : rows) EXPECT_THAT(error_of(bad.text), HasSubstr(bad.says)) << bad.name;
}

const std::string kJson = R"({"version":1,"start_time":"2026-01-01 10:00:00",
 "args":["/opt/nccl-tests/build/all_reduce_perf","-J","f.json"],"env":["A=all_gather_perf"],
 "nccl_version":22809,
 "config":{"nthreads":1,"ngpus":1,"validation":1,"graph":1,"devices":[
  {"rank":0,"group":0,"pid":1,"hostname":"node01","device":0,"device_info":"NVIDIA H100"},
  {"rank":1,"group":0,"pid":2,"hostname":"node02","device":0,"device_info":"NVIDIA H100"}]},
 "results":[
  {"size":1048576,"count":262144,"type":"float","redop":"sum","root":"    -1",
   "out_of_place":{"time":50.0,"alg_bw":20.97152,"bus_bw":20.97152,"nwrong":0.0},
   "in_place":{"time":49.0,"alg_bw":21.39951,"bus_bw":21.39951,"nwrong":null}},
  {"size":2097152,"count":524288,"type":"float","redop":"sum","root":"    -1",
   "out_of_place":null,
   "in_place":{"time":81.0,"alg_bw":25.89077,"bus_bw":25.89077,"nwrong":0.0}}],
 "out_of_bounds":{"count":0,"okay":"true"},"end_time":"2026-01-01 10:00:01"})";

TEST(NcclTestsLog, ReadsJson) {
  const nccl::NcclTestLog log = nccl::parse_nccl_tests_log(kJson, "t.json");
  EXPECT_EQ(log.collective, nccl::Collective::AllReduce)
      << "by the program, not by the environment";
  EXPECT_EQ(log.ranks, 2);
  EXPECT_EQ(log.nodes, 2);
  EXPECT_EQ(log.gpu_model, "NVIDIA H100");
  EXPECT_EQ(log.nccl_version, 22809);
  EXPECT_TRUE(log.cuda_graph);
  EXPECT_THAT(log.notes, IsEmpty());
  ASSERT_THAT(log.rows, SizeIs(2));
  EXPECT_EQ(log.rows[0].out_of_place_us, 50.0);
  EXPECT_EQ(log.rows[1].out_of_place_us, std::nullopt);
  EXPECT_EQ(log.rows[1].us(), 81.0);
}

TEST(NcclTestsLog, RefusesJson) {
  struct Row {
    const char* name;
    std::string text;
    const char* says;
  };
  const Row rows[] = {
      {"cut off", kJson.substr(0, 900), "no JSON object"},
      {"another version", replaced(kJson, "\"version\":1", "\"version\":2"), "version 1"},
      {"no results", R"({"version":1,"results":[]})", "no results"},
      {"a result without size", replaced(kJson, "\"size\":1048576", "\"bytes\":1"),
       "result 1 has no size"},
      {"a size below zero", replaced(kJson, "\"size\":1048576", "\"size\":-1"), "has no size"},
      {"a time that is none", replaced(kJson, "\"time\":81.0", "\"time\":\"nan\""),
       "result 2: in_place: time is not a measurement"},
      {"CPU times", replaced(kJson, "\"time\":81.0", "\"cpu_time\":81.0"), "(-C)"},
      {"no times at all", replaced(kJson, "\"in_place\"", "\"other\""), "a row has no time"},
      {"wrong results", replaced(kJson, "\"nwrong\":0.0}}]", "\"nwrong\":5.0}}]"), "wrong results"},
      {"wrong in the end", replaced(kJson, "{\"count\":0,\"okay\"", "{\"count\":5,\"okay\""),
       "wrong results"},
      {"a rank twice", replaced(kJson, "\"rank\":1", "\"rank\":0"), "built without MPI"},
      {"deep", "{\"version\":" + std::string(100, '[') + std::string(100, ']') + "}",
       "no JSON object"},
  };
  for (const Row& bad : rows) EXPECT_THAT(error_of(bad.text), HasSubstr(bad.says)) << bad.name;
}

}  // namespace
}  // namespace regatta::topology
