// `regatta plan` as a user sees it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/process.h"
#include "tests/base/faulty_file_system.h"
#include "tests/orchestrator/support.h"
#include "tests/shared_data.h"
#include "topology/plan/plan.h"
#include "trainer/contract/run_config.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int kUserError = 7;
constexpr int kUsage = 2;
const std::string kExamples = REGATTA_SOURCE_DIR "/topology/examples/";

class PlanCommand : public testing::Test {
 protected:
  base::Output plan(std::vector<std::string> arguments) {
    base::Command command;
    command.arguments = {REGATTA_BINARY_DIR "/orchestrator/regatta", "plan"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.bare_environment = true;
    return base::run(command, 60);
  }
  std::string file(const std::string& name, const std::string& text) {
    tests::write_file(folder_.path() / name, text);
    return folder_.path() / name;
  }
  std::string run_file() {
    return file("run.yaml",
                "model: {preset: large}\ndata: {path: d, max_length: 512}\nranks: 64\n"
                "batch: {size: 1024}\ndtype: bfloat16\ndevice: cuda\n");
  }
  tests::TemporaryDirectory folder_;
};

TEST_F(PlanCommand, EveryFormIsOfTheSamePlan) {
  const std::string run = run_file();
  const std::vector<std::string> common = {run, "--cluster", kExamples + "dgx-h100.yaml",
                                           "--vocabulary", "30522"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = common;
    all.insert(all.end(), more.begin(), more.end());
    base::Output output = plan(all);
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    EXPECT_EQ(output.errors, "");
    return output.text;
  };
  const std::string json = with({"-o", "json", "--directory", folder_.path().string()});
  const topology::plan::Plan made = topology::plan::parse_plan(json, "stdout", std::nullopt);
  EXPECT_EQ(made.ranks, 64);
  EXPECT_EQ(tests::file_text(folder_.path() / "plan.json"), json);
  EXPECT_THAT(with({}), HasSubstr("64 ranks on 8 nodes of 8 NVIDIA H100"));
  EXPECT_THAT(with({"--explain"}), HasSubstr("Buckets: " + made.why));
  EXPECT_THAT(with({"-o", "csv"}), HasSubstr("allreduce,"));
  EXPECT_THAT(with({"-o", "env"}), HasSubstr("NCCL's own choices stay"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "plan.tuner")) << "nothing to tell";
  const trainer::contract::RunConfig back =
      trainer::contract::parse_run_config(with({"-o", "run"}), "stdout");
  EXPECT_EQ(back.ranks, 64);
  for (const auto& decision : made.decisions) {
    if (decision.key == "sharding.optimizer") {
      EXPECT_EQ(back.sharding.optimizer, decision.choice == "true");
    }
  }
}

TEST_F(PlanCommand, TakesTheVocabularyFromTheDataset) {
  const std::string run = run_file();
  const std::string cluster = kExamples + "dgx-h100.yaml";
  base::Output output = plan({run, "--cluster", cluster});
  EXPECT_EQ(output.exit.code, kUserError);
  EXPECT_THAT(output.errors, HasSubstr("the vocabulary size is unknown"));
  std::filesystem::create_directory(folder_.path() / "d");
  file("d/dataset.json", R"({"vocabulary": {"pieces": 30522, "digest": "x"}})");
  output = plan({run, "--cluster", cluster});
  EXPECT_EQ(output.exit.code, 0) << output.errors;
  file("d/dataset.json", "{");
  EXPECT_EQ(plan({run, "--cluster", cluster}).exit.code, kUserError);
}

// One file was 138 ms by plan and 151 ms by simulate.
TEST_F(PlanCommand, ReckonsAStepAsSimulateDoes) {
  const auto run_of = [&](int ranks, const std::string& more) {
    return file("run.yaml",
                "model: {preset: large, vocabulary: 30522}\ndata: {path: d, max_length: 512}\n"
                "dtype: bfloat16\ndevice: cuda\noptimizer: {name: lamb}\nranks: " +
                    std::to_string(ranks) + "\n" + more);
  };
  const std::string batch = "batch: {size: 4096}\n";
  const auto json_of = [&](std::vector<std::string> arguments) {
    base::Command command;
    command.arguments = {REGATTA_BINARY_DIR "/orchestrator/regatta"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.arguments.insert(command.arguments.end(), {"-o", "json"});
    command.bare_environment = true;
    const base::Output output = base::run(command, 120);
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    return nlohmann::json::parse(output.text);
  };
  struct Row {
    std::string cluster;
    int nodes, ranks;
    std::string more;
    std::vector<std::string> options;
  };
  const std::vector<std::string> lengths = {
      "--lengths", REGATTA_SOURCE_DIR "/tests/data/lengths_wikipedia_512.csv"};
  const std::vector<Row> rows = {
      {"dgx-h100.yaml", 1, 8, batch, {}},
      {"dgx-h100.yaml", 8, 64, batch, {}},
      {"dgx-a100.yaml", 4, 32, batch, {}},
      {"pcie-100gbe.yaml", 2, 8, batch, {}},
      {"dgx-h100.yaml", 8, 64, "batch: {size: 4096, micro: 16}\n", {}},
      {"dgx-h100.yaml", 8, 64, batch + "statistics: {peak_tflops: 500}\n", {}},
      {"dgx-h100.yaml", 1, 8, "batch: {size: 9}\n", {}},
      {"dgx-h100.yaml", 1, 8, "batch: {size: 128}\nbalance: {strategy: none}\n", lengths},
      {"dgx-h100.yaml", 2, 16, "batch: {size: 256}\nbalance: {strategy: packed}\n", lengths},
      {"dgx-h100.yaml", 2, 16, "batch: {size: 64}\n", lengths},
      {"dgx-h100.yaml", 1, 8, "batch: {size: 256, micro: 8}\nparallel: {pipeline: 4}\n", {}},
      {"dgx-h100.yaml", 2, 16,
       "batch: {size: 512, micro: 8}\nparallel: {pipeline: 2, schedule: gpipe}\n", lengths},
      {"dgx-h100.yaml", 8, 64, batch, {"--efficiency", "0.4", "--overhead-seconds", "0.02"}},
  };
  for (const Row& row : rows) {
    const std::string run = run_of(row.ranks, row.more);
    std::vector<std::string> planned = {
        "plan", run, "--cluster", kExamples + row.cluster, "--nodes", std::to_string(row.nodes)};
    std::vector<std::string> simulated = {
        "simulate", run, "--cluster", kExamples + row.cluster, "--nodes", std::to_string(row.nodes),
        "--steps",  "50"};
    planned.insert(planned.end(), row.options.begin(), row.options.end());
    simulated.insert(simulated.end(), row.options.begin(), row.options.end());
    const double by_plan = json_of(planned)["timeline"]["step_seconds"];
    const double by_simulate = json_of(simulated)["runs"][0]["step"]["seconds"];
    EXPECT_NEAR(by_plan / by_simulate, 1, 0.02)
        << row.cluster << " " << row.nodes << " " << row.more << ": " << by_plan << ", "
        << by_simulate;
  }
}

TEST_F(PlanCommand, ComparesLayouts) {
  const std::string text =
      "model: {preset: base, vocabulary: 30522}\ndata: {path: d}\n"
      "batch: {size: 256, micro: 8}\ndevice: cuda\ndtype: bfloat16\n"
      "ranks: 8\n";
  const std::string plain = file("run.yaml", text);
  const std::string staged = file("staged.yaml", text + "parallel: {data: 2, pipeline: 4}\n");
  const auto with = [&](const std::string& run, const std::vector<std::string>& more) {
    std::vector<std::string> all = {run, "--cluster", kExamples + "dgx-h100.yaml"};
    all.insert(all.end(), more.begin(), more.end());
    return plan(all);
  };
  EXPECT_THAT(with(plain, {"--explain"}).text,
              HasSubstr("parallel.pipeline: the run file has 1; data 8 x pipeline 1 is already the "
                        "fastest by the model: the next, data 4 x pipeline 2 in micro-batches of "
                        "8, would take "));
  const base::Output explained = with(staged, {"--explain"});
  EXPECT_THAT(explained.text, HasSubstr("Layout: 4 stages of 3, 3, 3 and 3 layers, 2 replicas"));
  EXPECT_THAT(explained.text,
              HasSubstr("parallel.pipeline: the run file has 4; data 8 x pipeline 1 would save "));
  EXPECT_THAT(with(staged, {}).text, HasSubstr("parallel.pipeline  4    1     would gain  1 "));
  const auto json = nlohmann::json::parse(with(staged, {"-o", "json"}).text);
  EXPECT_EQ(json.at("decisions").at(0).at("key"), "parallel.pipeline");
  EXPECT_EQ(json.at("decisions").at(0).at("choice"), "1");
  EXPECT_EQ(json.at("decisions").at(0).at("options").size(), 4U);
  // Only who asks for the run file with the plan's choices gets them.
  const std::string written = with(staged, {"-o", "run"}).text;
  EXPECT_EQ(trainer::contract::parse_run_config(written, "stdout").parallel.pipeline, 1);
  const base::Output other = with(staged, {"--ranks", "6"});
  EXPECT_THAT(other.errors, HasSubstr("cannot plan the run: parallel.pipeline is 4, which does not "
                                      "divide ranks (6)"));
  EXPECT_EQ(std::count(other.errors.begin(), other.errors.end(), '\n'), 1) << other.errors;
  EXPECT_EQ(with(staged, {"--ranks", "all", "--nodes", "2"}).exit.code, 0);
}

TEST_F(PlanCommand, SaysWhatAStepRestsOn) {
  const std::string run = run_file();
  const std::vector<std::string> common = {run, "--cluster", kExamples + "dgx-h100.yaml",
                                           "--vocabulary", "30522"};
  const std::string usual = plan(common).text;
  EXPECT_THAT(usual, HasSubstr("- share of the peak 60 %: "));
  EXPECT_THAT(usual, HasSubstr("- a step on several nodes takes 9 ms of fixed overhead"));
  EXPECT_THAT(usual, HasSubstr("- every sample is 512 tokens long, as --lengths names no table"));
  EXPECT_THAT(usual, HasSubstr(", other 9 ms"));
  std::vector<std::string> other = common;
  other.insert(other.end(),
               {"--efficiency", "0.4", "--overhead-seconds", "0", "--lengths",
                REGATTA_SOURCE_DIR "/tests/data/lengths_wikipedia_512.csv", "--explain"});
  const std::string given = plan(other).text;
  EXPECT_THAT(given, HasSubstr("Assumption: share of the peak 40 %: given by --efficiency."));
  EXPECT_THAT(given, HasSubstr("Assumption: samples are "));
  EXPECT_THAT(given, testing::Not(HasSubstr("fixed overhead")));
}

TEST_F(PlanCommand, OffersARankForEveryGpu) {
  const std::string run = file("run.yaml",
                               "model: {preset: base, vocabulary: 30522}\ndata: {path: d}\n"
                               "batch: {size: 8192}\ndevice: cuda\ndtype: bfloat16\n");
  const std::vector<std::string> of = {run, "--cluster", kExamples + "dgx-h100.yaml", "--nodes",
                                       "1024"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = of;
    all.insert(all.end(), more.begin(), more.end());
    return plan(all);
  };
  const std::string note =
      "the run file has 1 rank, for 1 of 8192 GPUs; 'ranks: 8192' in it uses all of them, and "
      "--ranks all plans for that";
  EXPECT_THAT(with({}).text, HasSubstr("note: " + note + "\n"));
  EXPECT_EQ(with({"-o", "json"}).errors, "regatta: " + note + "\n");
  const base::Output all = with({"--ranks", "all"});
  EXPECT_EQ(all.exit.code, 0) << all.errors;
  EXPECT_THAT(all.text, HasSubstr("8192 ranks on 1024 nodes of 8 NVIDIA H100"));
  EXPECT_THAT(all.text, testing::Not(HasSubstr("note:")));
  EXPECT_THAT(with({"--ranks", "16"}).text, HasSubstr("16 ranks on 2 nodes"));
  for (const auto& [ranks, words] : std::map<std::string, std::string>{
           {"none", "--ranks is 'none'; use a number above 0, or all"},
           {"0", "--ranks is '0'"},
           {"9000", "9000 ranks are more than the 8192 samples of a step; raise batch.size"}}) {
    const base::Output refused = with({"--ranks", ranks});
    EXPECT_EQ(refused.exit.code, ranks == "9000" ? kUserError : kUsage) << ranks;
    EXPECT_THAT(refused.errors, HasSubstr(words));
  }
  const std::string text = tests::file_text(run);
  file("run.yaml", text + "ranks: 8\nranks_per_node: 4\nslurm: {nodes: 2, ranks_per_node: 4}\n");
  const trainer::contract::RunConfig written =
      trainer::contract::parse_run_config(with({"--ranks", "16", "-o", "run"}).text, "stdout");
  EXPECT_EQ(written.ranks, 16);
  EXPECT_EQ(written.slurm->max_nodes, 4);
  EXPECT_THAT(with({"--ranks", "18"}).errors, HasSubstr("18 ranks are not a multiple of the 4"));
  file("run.yaml", text + "ranks: 8\nranks_per_node: 4\n");
  EXPECT_THAT(with({"--ranks", "all"}).text, HasSubstr("8192 ranks on 1024 nodes of 8"))
      << "every GPU, whatever ranks_per_node";
}

TEST_F(PlanCommand, WritesNcclsTopologyOfMachinesThatWereRead) {
  const std::string run = file("run.yaml",
                               "model: {preset: base}\ndata: {path: d}\nranks: 1\n"
                               "batch: {size: 8}\n");
  const std::string xml = file(
      "one.xml",
      "<system version=\"1\"><cpu numaid=\"0\" affinity=\"f\" arch=\"x86_64\" "
      "vendor=\"AuthenticAMD\" familyid=\"143\" modelid=\"49\"><pci busid=\"0000:0f:00.0\" "
      "class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"80\" "
      "rank=\"0\" gdr=\"1\"/></pci></cpu></system>");
  const std::vector<std::string> of = {run, "--cluster", xml, "--vocabulary", "30522", "-o", "xml"};
  base::Output output = plan(of);
  EXPECT_THAT(output.errors, HasSubstr("set statistics.peak_tflops in the run"))
      << "the file names no model of GPU";
  file("run.yaml",
       "model: {preset: base}\ndata: {path: d}\nranks: 1\nbatch: {size: 8}\n"
       "statistics: {peak_tflops: 312}\n");
  output = plan(of);
  EXPECT_EQ(output.exit.code, 0) << output.errors;
  EXPECT_THAT(output.text, HasSubstr("0000:0f:00.0"));
  output =
      plan({run, "--cluster", kExamples + "dgx-a100.yaml", "--vocabulary", "30522", "-o", "xml"});
  EXPECT_EQ(output.exit.code, kUserError);
  EXPECT_THAT(output.errors, HasSubstr("has no bus id"));
}

TEST_F(PlanCommand, MoreNodesThanTheDescriptionHas) {
  const std::string run = file("run.yaml",
                               "model: {preset: base}\ndata: {path: d}\nranks: 512\n"
                               "batch: {size: 4096}\n");
  const std::string cluster = kExamples + "dgx-h100.yaml";
  base::Output output = plan({run, "--cluster", cluster, "--vocabulary", "30522"});
  EXPECT_EQ(output.exit.code, kUserError);
  EXPECT_THAT(output.errors, HasSubstr("needs 64 nodes with 8 GPUs, and there are 32"));
  output = plan({run, "--cluster", cluster, "--vocabulary", "30522", "--nodes", "64"});
  EXPECT_EQ(output.exit.code, 0) << output.errors;
  EXPECT_THAT(output.text, HasSubstr("512 ranks on 64 nodes"));
}

// What nccl-tests prints of 8 H100 whose sums take `us_of_mb` for 10^6 bytes.
std::string all_reduce_log(double us_of_mb) {
  std::string text =
      "# all_reduce_perf -b 1M -e 1G -f 2 -g 1\n"
      "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824 step: 2(factor) warmup iters: 5 "
      "iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n";
  for (int rank = 0; rank < 8; ++rank) {
    const std::string number = std::to_string(rank);
    text += "#  Rank  " + number + " Group  0 Pid 1 on  n1 device  " + number + " [0x1" + number +
            "] NVIDIA H100 80GB HBM3\n";
  }
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
      "time   algbw   busbw #wrong\n";
  for (std::int64_t bytes = 1 << 20; bytes <= 1 << 30; bytes *= 2) {
    const double us = 20 + us_of_mb * 1e-6 * static_cast<double>(bytes);
    const double gb_per_s = 1e-3 * static_cast<double>(bytes) / us;
    const std::string times = " " + std::to_string(us) + " " + std::to_string(gb_per_s) + " " +
                              std::to_string(1.75 * gb_per_s) + " 0";
    text += std::to_string(bytes) + " " + std::to_string(bytes / 4) + " float sum -1" + times +
            times + "\n";
  }
  return text;
}

TEST_F(PlanCommand, TakesALogOfOneWay) {
  const std::string run = file("run.yaml",
                               "model: {preset: large}\ndata: {path: d}\nranks: 8\n"
                               "batch: {size: 128}\ndtype: bfloat16\ndevice: cuda\n");
  const std::string own = file("own.log", all_reduce_log(8));
  const std::string ring = file("ring.log", all_reduce_log(4));
  const auto planned = [&](const std::string& log) {
    const base::Output output = plan({run, "--cluster", kExamples + "dgx-h100.yaml", "--vocabulary",
                                      "30522", "--measured", own, "--measured", log, "-o", "json"});
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    return topology::plan::parse_plan(output.text, "stdout", std::nullopt);
  };
  const topology::plan::Plan plan = planned("Ring/Simple=" + ring);
  ASSERT_FALSE(plan.tuner.ranges.empty());
  EXPECT_EQ(plan.tuner.ranges.back().way.algorithm, topology::nccl::Algorithm::Ring);
  EXPECT_TRUE(plan.tuner.ranges.back().measured);
  EXPECT_TRUE(planned(ring).tuner.ranges.empty()) << "as NCCL's own choice";
}

TEST_F(PlanCommand, MakesTheDirectoryThatItWritesTo) {
  const base::Path directory = folder_.path() / "pl";
  for (int i = 0; i < 2; ++i) {
    const base::Output output = plan({run_file(), "--cluster", kExamples + "dgx-h100.yaml",
                                      "--vocabulary", "30522", "--directory", directory.string()});
    EXPECT_EQ(output.exit.code, 0) << output.errors;
    EXPECT_TRUE(std::filesystem::exists(directory / "plan.json"));
  }
}

TEST_F(PlanCommand, RefusesInOneLine) {
  const std::string run = run_file();
  const std::string cluster = kExamples + "dgx-h100.yaml";
  struct Row {
    std::vector<std::string> arguments;
    const char* words;
  };
  const Row rows[] = {
      {{"/nowhere/run.yaml", "--cluster", cluster}, "/nowhere/run.yaml"},
      {{run, "--vocabulary", "30522"}, "speed of the devices"},
      {{run, "--cluster", "/nowhere/x.yaml", "--vocabulary", "30522"}, "/nowhere/x.yaml"},
      {{run, "--cluster", cluster, "--vocabulary", "30522", "--measured", cluster},
       "dgx-h100.yaml"},
      {{run, "--cluster", cluster, "--vocabulary", "30522", "--measured", "Rong/Simple=x"},
       "'Rong/Simple' is not an NCCL algorithm and protocol"},
      {{run, "--cluster", cluster, "--vocabulary", "30522", "--measured", "Ring/Simple=/no/x.log"},
       "cannot open /no/x.log"},
      {{run, "--cluster", cluster, "--vocabulary", "30522", "--lengths", cluster}, "dgx-h100.yaml"},
      {{run, "--nodes", "3", "--vocabulary", "30522"}, "--nodes is for one cluster description"},
      {{run, "--cluster", cluster, "--vocabulary", "30522", "--directory", "/nowhere/at/all"},
       "/nowhere/at/all"},
  };
  for (const Row& row : rows) {
    const base::Output output = plan(row.arguments);
    EXPECT_NE(output.exit.code, 0);
    EXPECT_THAT(output.errors, StartsWith("regatta: "));
    EXPECT_THAT(output.errors, HasSubstr(row.words));
    EXPECT_EQ(std::count(output.errors.begin(), output.errors.end(), '\n'), 1) << output.errors;
    EXPECT_EQ(output.text, "");
  }
}

}  // namespace
}  // namespace regatta::orchestrator
