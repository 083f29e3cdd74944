// What `bench comm` measures, checks and writes; no time is judged.
#include "trainer/bench/bench_comm.h"

#include <gmock/gmock.h>

#include <fstream>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/process.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/samples/small_dataset.h"
#include "topology/nccl/nccl_tests_log.h"
#include "trainer/bench/bench_plan.h"
#include "trainer/cpu/cpu_device.h"
#include "trainer/ranks/borrowed_communicator.h"
#include "trainer/step/buckets.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using testing::ElementsAre;
using testing::HasSubstr;
using topology::nccl::Collective;

TEST(CommSizes, GrowFromTheLeastToTheMost) {
  struct Row {
    const char* name;
    Collective collective;
    bench::CommSizes sizes;
    int parts;
    std::vector<std::int64_t> expected;
  };
  const Row rows[] = {
      {"doubling", Collective::AllReduce, {1024, 8192, 2}, 2, {1024, 2048, 4096, 8192}},
      {"the most is none of the steps", Collective::AllReduce, {4, 50, 4}, 2, {4, 16, 52}},
      {"one size", Collective::AllReduce, {12, 12, 2}, 3, {12}},
      {"whole elements", Collective::AllReduce, {1, 9, 3}, 2, {4, 12}},
      {"whole parts of 256 bytes", Collective::AllGather, {1, 2000, 10}, 3, {768, 1536, 2304}},
      {"a step that hardly steps", Collective::ReduceScatter, {512, 1024, 1.4}, 2, {512, 1024}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(bench::comm_sizes(row.collective, row.sizes, row.parts), row.expected) << row.name;
  }
}

TEST(CommSizes, RefusesWhatIsNone) {
  const bench::CommSizes bad[] = {{0, 10, 2},
                                  {20, 10, 2},
                                  {1, 10, 1},
                                  {1, 10, std::numeric_limits<double>::quiet_NaN()},
                                  {1, 1 << 30, 1.0001}};
  for (const bench::CommSizes& sizes : bad) {
    EXPECT_THROW((void)bench::comm_sizes(Collective::AllReduce, sizes, 2), base::Error)
        << sizes.factor;
  }
}

TEST(MeasureCollective, EveryCollectiveOnEveryLayout) {
  struct Row {
    int ranks, node_ranks;
  };
  for (const Row& row : {Row{2, 0}, Row{3, 0}, Row{4, 2}}) {
    for (const Collective collective :
         {Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather}) {
      std::mutex mutex;
      std::vector<std::vector<bench::CommRow>> of_ranks;
      ThreadRanks world(row.ranks, row.node_ranks);
      world.run([&](ranks::Communicator& communicator) {
        const auto device = cpu::make_cpu_device(1);
        const auto sizes = bench::comm_sizes(collective, {4, 5000, 8}, communicator.parts());
        auto rows = bench::measure_collective(*device, communicator, base::system_clock(),
                                              collective, sizes, 3);
        ASSERT_EQ(rows.size(), sizes.size());
        for (std::size_t i = 0; i < rows.size(); ++i) {
          EXPECT_EQ(rows[i].bytes, sizes[i]);
          EXPECT_EQ(rows[i].seconds.size(), 3U) << "a time for each round";
          for (const double seconds : rows[i].seconds) EXPECT_GT(seconds, 0);
        }
        const std::scoped_lock lock(mutex);
        of_ranks.push_back(std::move(rows));
      });
      ASSERT_EQ(std::ssize(of_ranks), row.ranks);
      for (const auto& rows : of_ranks) {
        for (std::size_t i = 0; i < rows.size(); ++i) {
          EXPECT_EQ(rows[i].seconds, of_ranks[0][i].seconds) << "ranks agree on the slowest";
        }
      }
    }
  }
}

// One element of one rank is off by one after each collective of more than 100 bytes.
class Wrong final : public ranks::BorrowedCommunicator {
 public:
  using ranks::BorrowedCommunicator::BorrowedCommunicator;
  [[nodiscard]] ranks::Pending all_reduce_sum(device::Stream stream, device::View x) override {
    last_ = x;
    return ranks::BorrowedCommunicator::all_reduce_sum(stream, x);
  }
  void finish(device::Stream stream, ranks::Pending pending) override {
    ranks::BorrowedCommunicator::finish(stream, pending);
    if (rank() == 1 && last_.bytes() > 100) last_.floats()[last_.size - 1] += 1;
  }

 private:
  device::View last_;
};

TEST(MeasureCollective, AWrongElementOfOneRankEndsItOnAll) {
  std::mutex mutex;
  std::vector<std::string> messages;
  ThreadRanks world(2);
  world.run([&](ranks::Communicator& communicator) {
    const auto device = cpu::make_cpu_device(1);
    Wrong wrong(communicator);
    try {
      (void)bench::measure_collective(*device, wrong, base::system_clock(), Collective::AllReduce,
                                      {64, 128}, 1);
    } catch (const base::Error& error) {
      const std::scoped_lock lock(mutex);
      EXPECT_EQ(error.code(), base::Code::Operator);
      messages.emplace_back(error.what());
    }
  });
  const auto says = HasSubstr("AllReduce of 128 bytes gave 1 wrong elements on a rank");
  EXPECT_THAT(messages, ElementsAre(says, says));
}

bench::CommReport report_of(Collective collective, int ranks) {
  bench::CommReport report;
  report.collective = collective;
  for (int rank = 0; rank < ranks; ++rank) report.hosts.push_back(rank < 2 ? "node01" : "node02");
  report.device = "CPU, 1 threads";
  report.shared_object = "libmpi.so.40.30.4";
  report.link = ranks::LinkModel{25e-6, 1.5e9};
  // 1 MB in 50 µs are 20 GB/s; medians of rounds.
  report.rows = {{768, {3e-6, 1e-6, 2e-6}}, {1'000'192, {50e-6, 500e-6, 40e-6}}};
  return report;
}

void expect_read_back(const std::string& text, Collective collective, int ranks, int nodes) {
  const topology::nccl::NcclTestLog log = topology::nccl::parse_nccl_tests_log(text, "comm");
  EXPECT_EQ(log.collective, collective);
  EXPECT_EQ(log.program, bench::comm_program(collective));
  EXPECT_EQ(log.ranks, ranks);
  EXPECT_EQ(log.nodes, nodes);
  EXPECT_EQ(log.gpu_model, "CPU, 1 threads");
  EXPECT_TRUE(log.checked);
  EXPECT_THAT(log.notes, ElementsAre());
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_EQ(log.rows[0].bytes, 768U);
  EXPECT_NEAR(log.rows[0].us(), 2, 1e-9);
  EXPECT_EQ(log.rows[1].bytes, 1'000'192U);
  EXPECT_NEAR(log.rows[1].us(), 50, 1e-9);
}

TEST(CommReport, IsReadAsALogOfNcclTests) {
  for (const Collective collective :
       {Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather}) {
    for (const int ranks : {2, 3, 4}) {
      SCOPED_TRACE(std::string(bench::comm_program(collective)) + " of " + std::to_string(ranks));
      const bench::CommReport report = report_of(collective, ranks);
      expect_read_back(bench::comm_json(report), collective, ranks, ranks > 2 ? 2 : 1);
      expect_read_back(bench::comm_table(report), collective, ranks, ranks > 2 ? 2 : 1);
    }
  }
}

TEST(CommReport, TellsWhatNcclTestsTells) {
  const auto json = nlohmann::json::parse(bench::comm_json(report_of(Collective::AllReduce, 4)));
  const auto& row = json["results"][1];
  EXPECT_EQ(row["count"], 250'048);
  EXPECT_NEAR(row["in_place"]["alg_bw"].get<double>(), 20.00384, 1e-9);
  EXPECT_NEAR(row["in_place"]["bus_bw"].get<double>(), 1.5 * 20.00384, 1e-9);
  EXPECT_EQ(json["nccl_version"], 0);
  EXPECT_EQ(json["regatta"]["host"], "node01");
  EXPECT_EQ(json["regatta"]["library"], "libmpi.so.40.30.4");
  EXPECT_NEAR(json["regatta"]["link"]["gb_per_s"].get<double>(), 1.5, 1e-9);
  EXPECT_NEAR(json["regatta"]["link"]["latency_us"].get<double>(), 25, 1e-9);
  EXPECT_EQ(json["regatta"]["round_seconds"][0].size(), 3U);
  bench::CommReport gather = report_of(Collective::AllGather, 4);
  gather.shared_object = "libnccl.so.2.28.9";
  gather.link.reset();
  const auto other = nlohmann::json::parse(bench::comm_json(gather));
  EXPECT_EQ(other["nccl_version"], 22809);
  EXPECT_EQ(other["results"][1]["count"], 62'512) << "of a rank";
  EXPECT_NEAR(other["results"][1]["in_place"]["bus_bw"].get<double>(), 0.75 * 20.00384, 1e-9);
  EXPECT_TRUE(other["regatta"]["link"].is_null());
}

TEST(MeasuredInputs, TakeMarksAsTheyCome) {
  contract::ModelShape shape = contract::preset_shape("tiny");
  shape.vocabulary = 100;
  const contract::TensorTable table = contract::make_tensor_table(shape);
  const auto groups = step::buckets_as_announced(table);
  bench::StepMarks marks{1, 3, 3.5, 4, std::vector<double>(groups.size(), 2.0)};
  marks.ready[1] = 1.5;                  // before the group that comes before it
  marks.ready[groups.size() - 2] = 2.5;  //
  marks.ready.back() = 3.2;              // after backward
  const topology::plan::StepInputs inputs = bench::measured_inputs(table, marks);
  ASSERT_EQ(inputs.tensors.size(), table.tensors.size());
  EXPECT_EQ(inputs.forward_seconds, 1);
  EXPECT_EQ(inputs.compute_seconds, 3);
  EXPECT_EQ(inputs.tail_seconds, 0.5);
  const auto ready = [&](std::size_t group) {
    return inputs.tensors[static_cast<std::size_t>(groups[group].end_tensor) - 1].ready_seconds;
  };
  EXPECT_EQ(ready(0), 2);
  EXPECT_EQ(ready(1), 2);
  EXPECT_EQ(ready(groups.size() - 2), 2.5);
  EXPECT_EQ(ready(groups.size() - 1), 3);
  EXPECT_EQ(inputs.tensors[1].begin_byte, 4 * table.tensors[1].offset);
  // What run_step() demands of its inputs holds, and nothing is lost.
  const auto timeline =
      topology::plan::run_step(inputs, groups, topology::nccl::CommunicationCurve::of_line(0, 1e6));
  EXPECT_NEAR(timeline.step_seconds, 3.5, 1e-3);
}

TEST(NoiseOfMedian, IsThatOfTheRoundsOverTheirRoot) {
  EXPECT_EQ(bench::noise_of_median({5, 5, 5, 5}), 0);
  EXPECT_NEAR(bench::noise_of_median({1, 2, 3, 4}), 2 * 1.2533 * 1.4826 * 1 / 2, 1e-9);
  EXPECT_NEAR(bench::noise_of_median({1, 2, 3, 4, 1000}), 2 * 1.2533 * 1.4826 * 1 / 2.23606798,
              1e-6);
}

#ifdef REGATTA_TEST_MPI
std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

base::Output bench_comm_command(std::vector<std::string> more, const std::filesystem::path& in) {
  constexpr double kDeadline = 200;  // seconds, on any machine
  base::Command command;
  command.arguments = {REGATTA_BINARY_DIR "/trainer/regatta-train", "bench", "comm"};
  command.arguments.insert(command.arguments.end(), more.begin(), more.end());
  command.directory = in;
  return base::run(command, kDeadline);
}

TEST(BenchCommCommand, MeasuresMpiAndWritesAFileForEachCollective) {
  const TemporaryDirectory directory;
  const base::Output output =
      bench_comm_command({"--ranks", "2", "--min-bytes", "1000", "--max-bytes", "100000",
                          "--factor", "10", "--rounds", "2", "--json", "comm.json"},
                         directory.path());
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  for (const Collective collective :
       {Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather}) {
    std::string name = bench::comm_program(collective);
    EXPECT_THAT(output.text, HasSubstr(name));
    name = "comm-" + name.substr(0, name.find("_perf")) + ".json";
    const std::string text = text_of(directory.path() / name);
    const topology::nccl::NcclTestLog log = topology::nccl::parse_nccl_tests_log(text, name);
    EXPECT_EQ(log.collective, collective);
    EXPECT_EQ(log.ranks, 2);
    EXPECT_EQ(log.nodes, 1);
    EXPECT_EQ(log.rows.size(), 3U);
    EXPECT_THAT(nlohmann::json::parse(text)["regatta"]["library"].get<std::string>(),
                HasSubstr("libmpi"));
  }
}

TEST(BenchCommCommand, ALinkIsWaitedFor) {
  const TemporaryDirectory directory;
  const base::Output output = bench_comm_command(
      {"--ranks", "2", "--collectives", "all-reduce", "--min-bytes", "4", "--max-bytes", "1000000",
       "--factor", "1000000", "--rounds", "1", "--json", "c.json", "--link-gb-per-s", "0.1",
       "--link-latency-us", "20000"},
      directory.path());
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  const auto log =
      topology::nccl::parse_nccl_tests_log(text_of(directory.path() / "c.json"), "its own file");
  ASSERT_EQ(log.rows.size(), 2U);
  EXPECT_GE(log.rows[0].us(), 20'000);
  EXPECT_GE(log.rows[1].us(), 30'000) << "1 MB at 0.1 GB/s are 10 ms";
  EXPECT_EQ(topology::nccl::parse_nccl_tests_log(output.text, "the table").rows.size(), 2U);
}

TEST(BenchCommCommand, BadInputIsOneLine) {
  const TemporaryDirectory directory;
  const struct {
    std::vector<std::string> arguments;
    const char* message;
  } cases[] = {
      {{"--ranks", "1"}, "--ranks"},
      {{"--collectives", "all-to-all"}, "all-to-all"},
      {{"--min-bytes", "10", "--max-bytes", "4"}, "from 10 to 4 bytes"},
      {{"--factor", "1"}, "by steps of 1"},
      {{"--link-latency-us", "5"}, "--link-gb-per-s"},
  };
  for (const auto& c : cases) {
    const base::Output output = bench_comm_command(c.arguments, directory.path());
    EXPECT_NE(output.exit.code.value_or(0), 0) << c.message;
    EXPECT_THAT(output.errors, HasSubstr(c.message));
    EXPECT_EQ(output.text, "");
  }
}
#endif

}  // namespace
}  // namespace regatta::tests
