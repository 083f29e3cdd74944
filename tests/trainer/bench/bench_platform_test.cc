// What `bench platform` says of a machine. With a clock that adds the same to every look, each
// repeat takes as long, so every figure is the work, by its formula, over that time.
#include "trainer/bench/bench_platform.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/process.h"
#include "tests/trainer/samples/small_dataset.h"
#include "trainer/bench/platform_command.h"
#include "trainer/bench/platform_parts.h"
#include "trainer/cpu/cpu_device.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using testing::HasSubstr, testing::StartsWith, testing::Not;

constexpr double kTick = 0.25;  // seconds between two looks

class TickingClock : public base::Clock {
 public:
  [[nodiscard]] double monotonic_seconds() const override { return now_ += kTick; }
  [[nodiscard]] double utc_seconds() const override { return 1796000000; }
  void sleep(std::chrono::duration<double> /*duration*/) override {}

 private:
  mutable double now_ = 0;
};

bench::PlatformWorkload small_workload() {
  bench::PlatformWorkload work;
  work.product_shape = contract::preset_shape("tiny");
  work.product_shape.hidden = 32;
  work.product_shape.feed_forward = 64;
  work.product_tokens = 24;
  work.product_masked = 4;
  work.memory_bytes = 1 << 16;
  work.transfer_bytes = 1 << 14;
  work.file_bytes = 10'000;
  work.text_bytes = 5'000;
  work.collated_samples = 3;
  work.step_shape = work.product_shape;
  work.step_shape.heads = 2;
  work.step_shape.layers = 1;
  work.step_shape.max_positions = 30;
  work.step_samples = 2;
  work.vocabulary = 100;
  return work;
}

// A machine with a disk, without a GPU; what a test changes of it.
struct Machine {
  TickingClock clock;
  TemporaryDirectory directory;
  int threads = 2;
  std::function<std::vector<bench::CommRow>()> all_reduce = [] {
    return std::vector<bench::CommRow>{{1024, {0.5, 1, 2}}};
  };
  std::function<bool()> stop = [] { return false; };
  // Where /proc is; empty: the real one.
  base::Path root = "/";

  contract::PlatformBench run() {
    const bench::PlatformTools tools{clock,
                                     base::posix_file_system(),
                                     plugins::MachineFiles(base::posix_file_system(), root),
                                     [](contract::DeviceKind kind, contract::Precision, int of) {
                                       if (kind != contract::DeviceKind::Cpu) {
                                         throw base::Error(base::Code::Operator,
                                                           "the driver is not there");
                                       }
                                       return cpu::make_cpu_device(of);
                                     },
                                     all_reduce,
                                     stop};
    return bench::bench_platform(
        tools, {1.0, threads, directory.path(), contract::LengthTable::parse("8,39,1\n", "t"),
                "0123", small_workload()});
  }
};

std::map<std::string, contract::BenchFigure> by_name(const contract::PlatformBench& bench) {
  std::map<std::string, contract::BenchFigure> figures;
  for (const contract::BenchFigure& figure : bench.figures) figures[figure.name] = figure;
  EXPECT_EQ(figures.size(), bench.figures.size()) << "no name twice";
  return figures;
}

std::map<std::string, std::string> gaps(const contract::PlatformBench& bench) {
  std::map<std::string, std::string> gaps;
  for (const contract::MissingFigure& missing : bench.absent) gaps[missing.name] = missing.why;
  return gaps;
}

TEST(BenchPlatform, EveryRateIsItsWorkOverTheTime) {
  const auto figures = by_name(Machine().run());
  struct Row {
    const char* name;
    const char* unit;
    double work;  // of what takes a tick
  };
  const Row rows[] = {
      {"product.cpu.float32.qkv", "FLOP/s", 2.0 * 24 * 96 * 32},
      {"product.cpu.float32.attention_output", "FLOP/s", 2.0 * 24 * 32 * 32},
      {"product.cpu.float32.fc1", "FLOP/s", 2.0 * 24 * 64 * 32},
      {"product.cpu.float32.fc2", "FLOP/s", 2.0 * 24 * 32 * 64},
      {"product.cpu.float32.decoder", "FLOP/s", 2.0 * 4 * 128 * 32},  // pieces in rows of 64
      {"product.cpu.float32.fc1_weight_gradient", "FLOP/s", 2.0 * 24 * 64 * 32},
      {"threads.cpu.1", "FLOP/s", 2.0 * 24 * 64 * 32},
      {"threads.cpu.2", "FLOP/s", 2.0 * 24 * 64 * 32},
      {"memory.cpu.copy", "B/s", 2 * 65536},
      {"memory.cpu.fill", "B/s", 65536},
      {"memory.cpu.read", "B/s", 65536},
      {"transfer.host.copy", "B/s", 2 * 16384},
      {"input.tokenizer", "B/s", 5000},
      {"input.collator", "samples/s", 10 * 3},
      {"storage.write", "B/s", 10000},
      {"storage.read", "B/s", 10000},
  };
  for (const Row& row : rows) {
    const auto found = figures.find(row.name);
    ASSERT_NE(found, figures.end()) << row.name;
    EXPECT_EQ(found->second.unit, row.unit) << row.name;
    EXPECT_NEAR(found->second.value, row.work / kTick, 1e-9 * row.work) << row.name;
    EXPECT_EQ(found->second.spread, 0) << row.name;
    EXPECT_GE(found->second.repeats, 3) << row.name;
    EXPECT_TRUE(found->second.higher_is_better) << row.name;
    EXPECT_NE(found->second.work, "") << row.name;
  }
  EXPECT_DOUBLE_EQ(figures.at("threads.cpu.efficiency").value, 0.5)
      << "two threads that take as long as one";
}

TEST(BenchPlatform, TimesAreOfOneCall) {
  const auto figures = by_name(Machine().run());
  EXPECT_DOUBLE_EQ(figures.at("launch.cpu.operation").value, kTick);
  EXPECT_DOUBLE_EQ(figures.at("launch.cpu.round_trip").value, kTick / 1000);
  EXPECT_DOUBLE_EQ(figures.at("storage.fsync").value, kTick / 10);
  for (const char* const name : {"launch.cpu.operation", "storage.fsync"}) {
    EXPECT_FALSE(figures.at(name).higher_is_better);
    EXPECT_EQ(figures.at(name).unit, "s");
  }
}

// One layer: a product's forward, weight and input gradient, of 4 matrices of the layer and 4 of
// the heads; each takes a tick here.
TEST(BenchPlatform, AStepIsTheSumOfItsOperations) {
  const auto figures = by_name(Machine().run());
  EXPECT_DOUBLE_EQ(figures.at("step.cpu.float32.product").value, kTick * 3 * 8);
  EXPECT_DOUBLE_EQ(figures.at("step.cpu.float32.attention").value, kTick * 2);
  EXPECT_DOUBLE_EQ(figures.at("step.cpu.float32.optimizer").value, kTick * 2);  // norm, AdamW
  EXPECT_DOUBLE_EQ(figures.at("step.cpu.float32.whole").value, 2 / kTick) << "2 samples a step";
  for (const char* const group : {"embedding", "norm", "loss", "rows", "elementwise", "memory"}) {
    EXPECT_EQ(figures.count("step.cpu.float32." + std::string(group)), 1U) << group;
  }
}

TEST(BenchPlatform, AllReduceIsBytesOverTheMedianRound) {
  const auto figures = by_name(Machine().run());
  const contract::BenchFigure& figure = figures.at("all_reduce.2_ranks.1024");
  EXPECT_DOUBLE_EQ(figure.value, 1024);           // of 2048, 1024, 512
  EXPECT_DOUBLE_EQ(figure.spread, 1.4826 * 512);  // distances 1024, 0, 512
  EXPECT_EQ(figure.repeats, 3);
}

TEST(BenchPlatform, WhatTheMachineLacksIsAbsentWithTheReason) {
  Machine machine;
  machine.threads = 1;
  machine.all_reduce = []() -> std::vector<bench::CommRow> {
    throw base::Error(base::Code::Operator, "install Open MPI \x01" + std::string(400, 'x'));
  };
  const contract::PlatformBench bench = machine.run();
  const auto figures = by_name(bench);
  const auto missing = gaps(bench);
  for (const char* const name :
       {"product.cuda", "memory.cuda", "launch.cuda", "step.cuda", "transfer.cuda"}) {
    EXPECT_EQ(missing.at(name), "no GPU: the driver is not there");
  }
  EXPECT_EQ(missing.at("product.cpu.bfloat16"), "the CPU computes in float32");
  EXPECT_THAT(missing.at("all_reduce"), StartsWith("install Open MPI \\x01xxx"));
  EXPECT_EQ(missing.at("all_reduce").size(), 300U);
  EXPECT_THAT(missing.at("threads.cpu.efficiency"), HasSubstr("one thread"));
  for (const auto& [name, figure] : figures) {
    EXPECT_GT(figure.value, 0) << name;
    EXPECT_THAT(name, Not(HasSubstr("cuda")));
    EXPECT_THAT(name, Not(HasSubstr("all_reduce")));
  }
  EXPECT_EQ(bench.gpu, "");
  EXPECT_EQ(contract::parse_platform_bench(contract::to_json(bench), "it"), bench);
}

TEST(BenchPlatform, SaysWhatTheMachineIs) {
  const contract::PlatformBench bench = Machine().run();
  EXPECT_EQ(bench.threads, 2);
  EXPECT_EQ(bench.commit, "0123");
  EXPECT_EQ(bench.utc, 1796000000);
  EXPECT_GT(bench.seconds, 0);
  EXPECT_GT(bench.memory_bytes, 0);
  EXPECT_NE(bench.products, "");
  const std::string table = bench::platform_table(bench);
  for (const contract::BenchFigure& figure : bench.figures) {
    EXPECT_THAT(table, HasSubstr(figure.name + " "));
  }
  std::map<std::string, int> reasons;
  for (const contract::MissingFigure& missing : bench.absent) {
    EXPECT_THAT(table, HasSubstr(missing.name));
    ++reasons[missing.why];
  }
  EXPECT_GT(bench.absent.size(), reasons.size());
  for (const auto& [why, count] : reasons) {  // each in one line
    const std::size_t at = table.find(why);
    ASSERT_NE(at, std::string::npos) << why;
    EXPECT_EQ(table.find(why, at + 1), std::string::npos) << why;
  }
  // Values end in one column.
  const std::size_t end = table.find("value") + 5 - table.find("figure");
  for (const contract::BenchFigure& figure : bench.figures) {
    const std::size_t line = table.find(figure.name + " ");
    EXPECT_NE(table[line + end - 1], ' ') << figure.name;
    EXPECT_EQ(table[line + end], ' ') << figure.name;
  }
}

TEST(BenchPlatform, StorageInMemoryIsNoStorage) {
  Machine machine;
  struct stat place {};
  ASSERT_EQ(stat(machine.directory.path().c_str(), &place), 0);
  const TemporaryDirectory root;
  machine.root = root.path();
  std::filesystem::create_directories(root.path() / "proc/self");
  const auto mounted_as = [&](const std::string& type) {
    std::ofstream(root.path() / "proc/self/mountinfo")
        << "36 35 " << major(place.st_dev) << ":" << minor(place.st_dev) << " / /mnt rw - " << type
        << " none rw\n";
  };
  mounted_as("tmpfs");
  contract::PlatformBench bench = machine.run();
  EXPECT_EQ(by_name(bench).count("storage.write"), 0U);
  EXPECT_THAT(gaps(bench).at("storage"), HasSubstr("is in memory (tmpfs)"));
  mounted_as("xfs");
  bench = machine.run();
  EXPECT_EQ(by_name(bench).count("storage.write"), 1U);
  EXPECT_EQ(bench.file_system, "xfs");
}

TEST(BenchPlatform, StopsWhenAskedAndLeavesNothing) {
  Machine machine;
  int looks = 0;
  for (const int after : {0, 3, 40, 75}) {
    looks = 0;
    machine.stop = [&] { return looks++ >= after; };
    EXPECT_THROW((void)machine.run(), base::Error) << after;
    EXPECT_TRUE(std::filesystem::is_empty(machine.directory.path())) << after;
  }
  machine.stop = [] { return false; };
  (void)machine.run();
  EXPECT_TRUE(std::filesystem::is_empty(machine.directory.path()));
}

TEST(RowsOfCommJson, RefusesWhatHasNone) {
  const auto rows = bench::rows_of_comm_json(
      R"({"results": [{"size": 4}, {"size": 8}],
          "regatta": {"round_seconds": [[0.5], [0.25, 0.75]]}})");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].bytes, 8);
  EXPECT_EQ(rows[1].seconds, (std::vector<double>{0.25, 0.75}));
  for (const char* const text :
       {"", "[]", "{}", R"({"results": [], "regatta": {"round_seconds": []}})",
        R"({"results": [{"size": 4}], "regatta": {"round_seconds": []}})",
        R"({"results": [{"size": 4}], "regatta": {"round_seconds": [[]]}})",
        R"({"results": [{"size": "4"}], "regatta": {"round_seconds": [[1]]}})"}) {
    EXPECT_THROW((void)bench::rows_of_comm_json(text), base::Error) << text;
  }
}

base::Output bench_platform_command(std::vector<std::string> more,
                                    const std::filesystem::path& in) {
  constexpr double kDeadline = 400;  // seconds, on any machine
  base::Command command;
  command.arguments = {REGATTA_BINARY_DIR "/trainer/regatta-train", "bench", "platform"};
  command.arguments.insert(command.arguments.end(), more.begin(), more.end());
  command.directory = in;
  return base::run(command, kDeadline);
}

// As in a step of a Slurm job of one task: its two ranks are none of Slurm's.
TEST(BenchPlatformCommand, WritesAFileOfTheFormat) {
  const TemporaryDirectory directory;
  base::Command command;
  command.arguments = {REGATTA_BINARY_DIR "/trainer/regatta-train",
                       "bench",
                       "platform",
                       "--seconds",
                       "2",
                       "--out",
                       "bench.json"};
  command.directory = directory.path();
  command.environment = {{"SLURM_STEP_ID", "0"},
                         {"SLURM_PROCID", "0"},
                         {"SLURM_NTASKS", "1"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_JOB_ID", "7"}};
  const base::Output output = base::run(command, 400);
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  EXPECT_EQ(output.text, "");
  const std::string text =
      base::posix_file_system().read(directory.path() / "bench.json", contract::kMostBenchBytes);
  const auto bench = contract::parse_platform_bench(std::string_view(text), "bench.json");
  const auto figures = by_name(bench);
  EXPECT_EQ(bench.workload, contract::kPlatformWorkload);
  for (const char* const name : {"product.cpu.float32.fc1", "memory.cpu.copy", "input.tokenizer",
                                 "step.cpu.float32.whole"}) {
    EXPECT_EQ(figures.count(name), 1U) << name;
  }
  EXPECT_EQ(figures.count("storage.fsync") + gaps(bench).count("storage"), 1U);
#ifdef REGATTA_TEST_MPI
  for (const char* const bytes : {"65536", "1048576", "16777216"}) {
    EXPECT_EQ(figures.count("all_reduce.2_ranks." + std::string(bytes)), 1U) << bytes;
  }
#else
  EXPECT_EQ(gaps(bench).count("all_reduce"), 1U);
#endif
  EXPECT_THAT(output.errors, HasSubstr("product.cpu.float32.fc1"));
  std::size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    left += entry.path().filename() == "bench.json" ? 0 : 1;
  }
  EXPECT_EQ(left, 0U) << "nothing but the result stays";
}

TEST(BenchPlatformCommand, BadInputIsOneLine) {
  const TemporaryDirectory directory;
  const struct {
    std::vector<std::string> arguments;
    const char* message;
  } cases[] = {
      {{"--seconds", "0"}, "--seconds"},
      {{"--seconds", "soon"}, "--seconds"},
      {{"--directory", "nowhere"}, "--directory"},
  };
  for (const auto& c : cases) {
    const base::Output output = bench_platform_command(c.arguments, directory.path());
    EXPECT_NE(output.exit.code.value_or(0), 0) << c.message;
    EXPECT_THAT(output.errors, HasSubstr(c.message));
    EXPECT_EQ(output.text, "");
  }
}

}  // namespace
}  // namespace regatta::tests
