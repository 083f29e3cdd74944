// `regatta simulate` as a user sees it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/process.h"
#include "tests/base/faulty_file_system.h"
#include "tests/orchestrator/support.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

const std::string kSource = REGATTA_SOURCE_DIR;
const std::string kCluster = kSource + "/topology/examples/dgx-h100.yaml";

class SimulateCommand : public testing::Test {
 protected:
  base::Output simulate(const std::vector<std::string>& arguments) {
    base::Command command;
    command.arguments = {REGATTA_BINARY_DIR "/orchestrator/regatta", "simulate"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.bare_environment = true;
    return base::run(command, 120);
  }
  std::string file(const std::string& name, const std::string& text) {
    tests::write_file(folder_.path() / name, text);
    return folder_.path() / name;
  }
  std::string run_file() {
    return file("run.yaml",
                "name: try\nmodel: {preset: large, vocabulary: 30522}\n"
                "data: {path: d, max_length: 512}\noptimizer: {name: lamb}\n"
                "batch: {size: 4096}\nsteps: 700\ndevice: cuda\ndtype: bfloat16\n");
  }
  tests::TemporaryDirectory folder_;
};

TEST_F(SimulateCommand, ComparesNumbersOfNodes) {
  const base::Output output = simulate(
      {run_file(), "--cluster", kCluster, "--nodes", "1,2,16", "--lengths",
       kSource + "/tests/data/lengths_wikipedia_512.csv", "--steps", "10", "-o", "json",
       "--samples-to-converge", "2800000", "--mtbf-hours", "1000", "--checkpoint-seconds", "2"});
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  const Json json = Json::parse(output.text);
  const Json& runs = json.at("runs");
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].at("scaling"), 1);
  EXPECT_EQ(runs[2].at("ranks"), 128);
  EXPECT_LT(runs[2].at("scaling"), runs[1].at("scaling"));
  EXPECT_LT(runs[2].at("run").at("seconds").at("p50"), runs[0].at("run").at("seconds").at("p50"));
  EXPECT_GT(runs[2].at("mfu"), 0.05);
  EXPECT_LT(runs[0].at("mfu"), 0.6);
  EXPECT_GT(runs[0].at("run").at("checkpoint_seconds"), 0);
}

TEST_F(SimulateCommand, TakesTheVocabularyFromTheDataset) {
  const std::string run = file("no.yaml",
                               "name: try\nmodel: {preset: large}\ndata: {path: d, max_length: "
                               "512}\nbatch: {size: 512}\nsteps: 700\ndevice: cuda\n"
                               "dtype: bfloat16\n");
  const auto of = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {run, "--cluster", kCluster, "--steps", "3", "-o", "json"});
    return simulate(more);
  };
  EXPECT_NE(of({}).exit.code, 0);
  EXPECT_THAT(of({}).errors,
              HasSubstr("the vocabulary size is unknown, since there is no dataset"));
  const std::string given = of({"--vocabulary", "30522"}).text;
  std::filesystem::create_directory(folder_.path() / "d");
  file("d/dataset.json", R"({"vocabulary": {"pieces": 30522, "digest": "x"}})");
  EXPECT_EQ(of({}).text, given);
  file("d/dataset.json", R"({"vocabulary": {"pieces": 250002, "digest": "x"}})");
  const double few = Json::parse(given)["runs"][0]["step"]["seconds"];
  const double many = Json::parse(of({}).text)["runs"][0]["step"]["seconds"];
  EXPECT_GT(many, few * 1.05) << "a larger head takes longer";
}

TEST_F(SimulateCommand, TheSameSeedPrintsTheSame) {
  const std::vector<std::string> arguments = {run_file(), "--cluster", kCluster, "--nodes", "2",
                                              "--steps",  "5",         "--seed", "7"};
  const base::Output first = simulate(arguments);
  ASSERT_EQ(first.exit.code, 0) << first.errors;
  EXPECT_EQ(first.text, simulate(arguments).text);
  EXPECT_THAT(first.text, HasSubstr("on nodes of 8 NVIDIA H100"));
  EXPECT_THAT(first.text, HasSubstr("not measured on these machines"));
}

// A node of 8 B200, a batch of 768 and lengths of Wikipedia: MLPerf v5.0 published 11,442 to 11,724
// samples/s, in FP8 and with packed samples. The share of A100s gave 49 % more.
TEST_F(SimulateCommand, TakesTheShareOfTheDevice) {
  const std::string run = file("b200.yaml",
                               "name: try\nmodel: {preset: large, vocabulary: 30522}\n"
                               "data: {path: d, max_length: 512}\noptimizer: {name: lamb}\n"
                               "batch: {size: 768}\nsteps: 700\ndevice: cuda\ndtype: bfloat16\n");
  const std::string cluster =
      file("cluster.yaml",
           "cluster: b\nnodes:\n  n:\n    count: 1\n    gpus: {model: NVIDIA B200, count: 8, "
           "nvlink: switch, nvswitches: 2}\n");
  const std::vector<std::string> arguments = {
      run,       "--cluster", cluster,
      "--nodes", "1",         "--steps",
      "10",      "--lengths", kSource + "/tests/data/lengths_wikipedia_512.csv"};
  std::vector<std::string> as_json = arguments;
  as_json.insert(as_json.end(), {"-o", "json"});
  const Json json = Json::parse(simulate(as_json).text);
  EXPECT_EQ(json.at("peak_share").at("fitted"), true);
  const double samples = json.at("runs")[0].at("samples_per_second");
  EXPECT_NEAR(samples / 11630, 1, 0.2) << samples;
  EXPECT_TRUE(json.at("runs")[0].at("samples_per_second_range").is_null());
  EXPECT_THAT(simulate(arguments).text, HasSubstr("on B200 reach 40 to 43 % of the 16-bit peak"));
}

TEST_F(SimulateCommand, SaysAboveAllThatADeviceIsNotFitted) {
  const std::string cluster = kSource + "/topology/examples/pcie-100gbe.yaml";
  std::vector<std::string> arguments = {run_file(), "--cluster", cluster, "--nodes",
                                        "1,2",      "--steps",   "5"};
  const std::string text = simulate(arguments).text;
  const std::size_t second_line = text.find('\n') + 1;
  EXPECT_EQ(text.substr(second_line, 11), "NOT FITTED:");
  EXPECT_THAT(text, HasSubstr("on 2 nodes"));
  arguments.insert(arguments.end(), {"-o", "json"});
  const Json json = Json::parse(simulate(arguments).text);
  EXPECT_EQ(json.at("peak_share").at("fitted"), false);
  for (const Json& run : json.at("runs")) {
    const double low = run.at("samples_per_second_range")[0],
                 high = run.at("samples_per_second_range")[1];
    EXPECT_LT(low, run.at("samples_per_second"));
    EXPECT_GT(high, run.at("samples_per_second"));
  }
  const double low = json.at("runs")[0].at("samples_per_second_range")[0],
               high = json.at("runs")[0].at("samples_per_second_range")[1];
  EXPECT_GT(high / low, 1.4);
  arguments.insert(arguments.end(), {"--efficiency", "0.5"});
  const Json given = Json::parse(simulate(arguments).text);
  EXPECT_EQ(given.at("peak_share").at("value"), 0.5);
  EXPECT_TRUE(given.at("runs")[0].at("samples_per_second_range").is_null());
}

TEST_F(SimulateCommand, DrawsAStep) {
  std::vector<std::string> arguments = {run_file(), "--cluster", kCluster,  "--nodes", "4",
                                        "--steps",  "5",         "--gantt", "text"};
  const base::Output text = simulate(arguments);
  EXPECT_THAT(text.text, HasSubstr("4 nodes: step "));
  EXPECT_THAT(text.text, HasSubstr("f forward"));
  arguments.back() = "svg";
  const base::Output svg = simulate(arguments);
  EXPECT_EQ(svg.text.rfind("<svg ", 0), 0U);
  EXPECT_EQ(svg.text.substr(svg.text.size() - 7), "</svg>\n");
}

TEST_F(SimulateCommand, SamplesPerRankScaleTheBatch) {
  const base::Output output = simulate({run_file(), "--cluster", kCluster, "--nodes", "1,4",
                                        "--steps", "5", "--samples-per-rank", "16", "-o", "json"});
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  const Json runs = Json::parse(output.text).at("runs");
  EXPECT_EQ(runs[0].at("batch"), 128);
  EXPECT_EQ(runs[1].at("batch"), 512);
}

TEST_F(SimulateCommand, TakesAGraphAsItIs) {
  base::Command topo;
  topo.arguments = {REGATTA_BINARY_DIR "/orchestrator/regatta", "topo", kCluster, "-o", "json"};
  topo.bare_environment = true;
  const std::string graph = file("graph.json", base::run(topo, 60).text);
  const auto at = [&](const std::string& cluster, const char* nodes) {
    return simulate({run_file(), "--cluster", cluster, "--nodes", nodes, "--steps", "3"});
  };
  const base::Output described = at(kCluster, "4"), read = at(graph, "4");
  ASSERT_EQ(read.exit.code, 0) << read.errors;
  EXPECT_EQ(read.text, described.text);
  const base::Output beyond = at(graph, "33");
  EXPECT_NE(beyond.exit.code, 0);
  EXPECT_THAT(beyond.errors, HasSubstr("has 32 nodes for 33"));
  EXPECT_EQ(at(kCluster, "33").exit.code, 0);
}

TEST_F(SimulateCommand, TakesMeasurementsWhereTheyFit) {
  const std::string log = "topologies/nccl-tests/h100x8-1node-mlperf-v4.0-smc-bert-a.log";
  REGATTA_NEED_SHARED(log);
  std::vector<std::string> arguments = {run_file(), "--cluster", kCluster, "--nodes", "1,2",
                                        "--steps",  "3",         "-o",     "json"};
  const Json modelled = Json::parse(simulate(arguments).text).at("runs");
  arguments.insert(arguments.end(), {"--measured", tests::shared_path(log)});
  const Json measured = Json::parse(simulate(arguments).text).at("runs");
  EXPECT_EQ(measured[0].at("sums_measured"), true);
  EXPECT_NE(measured[0].at("step"), modelled[0].at("step"));
  EXPECT_EQ(measured[1].at("sums_measured"), false);
  EXPECT_EQ(measured[1].at("step"), modelled[1].at("step"));
  arguments[4] = "2";
  EXPECT_THAT(simulate(arguments).errors, HasSubstr("no log of --measured"));
}

TEST_F(SimulateCommand, RefusesWhatItCannotSimulate) {
  struct Row {
    const char* name;
    std::vector<std::string> arguments;
    const char* message;
  };
  const std::string run = run_file();
  const std::string cluster_less = file("empty.yaml", "cluster: x\n");
  const std::string lengths = file("lengths.csv", "4,5000,1\n");
  const std::string cpu =
      file("cpu.yaml", "cluster: x\nnodes:\n  n: {count: 2, cpus: {vendor: GenuineIntel}}\n");
  const std::string head =
      "model: {preset: base, vocabulary: 30522}\ndata: {path: d}\n"
      "batch: {size: 4096, micro: 256}\ndevice: cuda\ndtype: bfloat16\n"
      "parallel: {pipeline: 4}\n";
  const std::string few = file("few.yaml", head);
  const auto in_stages = [&](const std::string& name, const std::string& stages) {
    return file(name,
                "model: {preset: base, vocabulary: 30522}\ndata: {path: d}\n"
                "batch: {size: 4096, micro: 64}\ndevice: cuda\ndtype: bfloat16\n"
                "parallel: {pipeline: " +
                    stages + "}\n");
  };
  const std::string three = in_stages("three.yaml", "3"), four = in_stages("four.yaml", "4");
  const std::string sharded = file("sharded.yaml", head + "sharding: {optimizer: true}\n");
  const std::vector<Row> rows = {
      {"a batch that grows",
       {file("grows.yaml",
             "model: {preset: base, vocabulary: 30522}\ndata: {path: d}\ndevice: cuda\n"
             "batch: {size: 4096, growth: adascale, max_size: 8192}\n"),
        "--cluster", kCluster},
       "batch.growth: a simulated run has one batch size"},
      {"stages that do not divide the ranks of a node",
       {three, "--cluster", kCluster},
       "on 1 node with 8 ranks parallel.pipeline is 3, which does not divide ranks (8)"},
      {"fewer micro-batches than stages",
       {few, "--cluster", kCluster, "--nodes", "8"},
       "on 8 nodes with 64 ranks batch.micro makes 1 micro-batches of the 256 samples"},
      {"stages of a part of a node",
       {four, "--cluster", kCluster, "--nodes", "3"},
       "neither fill nodes of 8 ranks nor do several stages fill one"},
      {"state that is sharded", {sharded, "--cluster", kCluster}, "sharding.optimizer: does not"},
      {"nothing", {}, "needs a run file"},
      {"no cluster", {run}, "needs a run file and --cluster"},
      {"no such file", {"/none", "--cluster", kCluster}, "/none"},
      {"a broken cluster", {run, "--cluster", cluster_less}, "empty.yaml"},
      {"nodes without GPUs", {run, "--cluster", cpu}, "GPU"},
      {"bad lengths", {run, "--cluster", kCluster, "--lengths", lengths}, "lengths.csv:1"},
      {"no log", {run, "--cluster", kCluster, "--measured", lengths}, "lengths.csv"},
      {"no nodes", {run, "--cluster", kCluster, "--nodes", "0"}, "0 nodes"},
      {"negative nodes", {run, "--cluster", kCluster, "--nodes", "-3"}, "-3"},
      {"too many nodes", {run, "--cluster", kCluster, "--nodes", "2000000000"}, "use 1 to"},
      {"more ranks than samples", {run, "--cluster", kCluster, "--nodes", "520"}, "too small for"},
      {"a batch too large",
       {run, "--cluster", kCluster, "--samples-per-rank", "1000000"},
       "--samples-per-rank"},
      {"no efficiency", {run, "--cluster", kCluster, "--efficiency", "0"}, "efficiency"},
      {"failures all the time",
       {run, "--cluster", kCluster, "--mtbf-hours", "0.0001"},
       "checkpoint more often"},
      {"a picture in JSON",
       {run, "--cluster", kCluster, "--gantt", "svg", "-o", "json"},
       "which -o json does not have"},
      {"another study", {"--study", "none"}, "--study"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const base::Output output = simulate(row.arguments);
    EXPECT_NE(output.exit.code, 0);
    EXPECT_THAT(output.errors, HasSubstr(row.message));
    EXPECT_EQ(output.errors.find('\n'), output.errors.size() - 1) << output.errors;
  }
}

TEST_F(SimulateCommand, TellsTheBubbleOfStages) {
  const std::string run = file("run.yaml",
                               "model: {preset: base, vocabulary: 30522}\n"
                               "data: {path: d, max_length: 512}\nranks: 4\n"
                               "batch: {size: 512, micro: 8}\ndevice: cuda\ndtype: bfloat16\n"
                               "parallel: {data: 2, pipeline: 2}\n");
  const std::vector<std::string> arguments = {run,   "--cluster", kCluster, "--nodes",
                                              "1,2", "--steps",   "5"};
  std::vector<std::string> json = arguments;
  json.insert(json.end(), {"-o", "json"});
  const base::Output output = simulate(json);
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  const Json parsed = Json::parse(output.text);
  const Json& first = parsed.at("runs")[0];
  EXPECT_EQ(first.at("stages").at("data"), 4) << "replicas follow from the nodes";
  EXPECT_EQ(first.at("stages").at("micro_batches"), 16);
  EXPECT_EQ(first.at("stages").at("bubble_even"), 1.0 / 16);
  EXPECT_GT(first.at("stages").at("bubble"), 1.0 / 16);
  EXPECT_EQ(parsed.at("runs")[1].at("stages").at("data"), 8);
  const base::Output text = simulate(arguments);
  EXPECT_THAT(text.text, HasSubstr("compute   bubble  uneven"));
  EXPECT_THAT(text.text, HasSubstr("1 node: 2 stages of 6 and 6 layers, 4 replicas, 16 "));
  EXPECT_THAT(text.text, HasSubstr("2 nodes: 2 stages of "));
}

TEST_F(SimulateCommand, TheStudyIsJson) {
  const base::Output output = simulate({"--study", "mlperf", "-o", "json"});
  ASSERT_EQ(output.exit.code, 0) << output.errors;
  EXPECT_EQ(Json::parse(output.text).at("benchmark"), "simulate-mlperf");
}

}  // namespace
}  // namespace regatta::orchestrator
