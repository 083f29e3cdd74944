// What datasets and models say of themselves, and what a task's heads cost.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>

#include "base/error.h"
#include "orchestrator/plan/compute_model.h"
#include "orchestrator/plan/dataset_facts.h"
#include "orchestrator/plan/plan_inputs.h"
#include "orchestrator/plan/start_facts.h"
#include "orchestrator/simulate/simulation.h"
#include "tests/orchestrator/support.h"
#include "tests/shared_data.h"

namespace regatta::orchestrator {
namespace {

using testing::HasSubstr;
using trainer::contract::RunConfig;
using trainer::contract::Task;

constexpr const char* kTaskManifest =
    R"({"task": "classification", "labels": ["no", "yes"], "vocabulary": {"pieces": 40},
        "training": {"samples": 9}, "evaluation": {"samples": 4}})";

class TaskInputs : public testing::Test {
 protected:
  base::Path make(const std::string& name, const std::map<std::string, std::string>& files) {
    const base::Path folder = folder_.path() / name;
    std::filesystem::create_directories(folder);
    for (const auto& [file, text] : files) tests::write_file(folder / file, text);
    return folder;
  }
  static std::optional<plan::DatasetFacts> facts(const base::Path& dataset) {
    return plan::dataset_facts(base::posix_file_system(), dataset);
  }
  tests::TemporaryDirectory folder_;
};

TEST_F(TaskInputs, AreOfTheManifest) {
  const auto task = facts(make("task", {{"task.json", kTaskManifest}}));
  ASSERT_TRUE(task);
  EXPECT_EQ(task->task, Task::Classification);
  EXPECT_EQ(task->labels, 2);
  EXPECT_EQ(task->vocabulary, 40);
  EXPECT_EQ(task->training_samples, 9);
  EXPECT_EQ(task->evaluation_samples, 4);
  const auto text = facts(make("text", {{"dataset.json", R"({"vocabulary": {"pieces": 7}})"}}));
  ASSERT_TRUE(text);
  EXPECT_EQ(text->task, Task::Pretraining);
  EXPECT_EQ(text->vocabulary, 7);
  EXPECT_FALSE(facts(folder_.path() / "nothing"));
}

TEST_F(TaskInputs, OfNoManifestAreNone) {
  int number = 0;
  for (const char* const file : {"task.json", "dataset.json"}) {
    for (const std::string& damaged :
         {std::string(), std::string("x"), std::string("[]"), std::string("{}"),
          std::string(R"({"task": "poetry", "vocabulary": {}})"),
          std::string(R"({"vocabulary": {"pieces": -1}})"),
          std::string(R"({"vocabulary": {"pieces": "7"}})"),
          std::string(R"({"vocabulary": {"pieces": 99999999999}})"),
          std::string(R"({"vocabulary": 7})"), std::string(100'000, '[')}) {
      EXPECT_FALSE(facts(make("bad" + std::to_string(++number), {{file, damaged}})))
          << file << " " << damaged.substr(0, 80);
    }
  }
}

TEST_F(TaskInputs, ThatCannotBeTrainedOnNameTheKey) {
  struct Row {
    const char* name;
    std::function<void(RunConfig*)> change;
    const char* key;
    const char* says;
  };
  const Row rows[] = {
      {"good", [](RunConfig*) {}, "", ""},
      {"of the vocabulary", [](RunConfig* run) { run->model.vocabulary = 40; }, "", ""},
      {"as many ranks", [](RunConfig* run) { run->ranks = 9; }, "", ""},
      {"pre-training", [](RunConfig* run) { run->model.task = Task::Pretraining; }, "task",
       "is a dataset for classification"},
      {"another task", [](RunConfig* run) { run->model.task = Task::Regression; }, "task",
       "set task: classification"},
      {"another vocabulary", [](RunConfig* run) { run->model.vocabulary = 41; }, "model.vocabulary",
       "has 40 pieces"},
      {"more ranks than samples", [](RunConfig* run) { run->ranks = 10; }, "ranks", "has 9"},
  };
  const plan::DatasetFacts facts{Task::Classification, 40, 2, 9, 4};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    RunConfig config;
    config.model.task = Task::Classification;
    row.change(&config);
    std::string key, says;
    try {
      plan::check_dataset(config, "/d", facts);
    } catch (const base::Error& error) {
      key = error.key();
      says = error.what();
    }
    EXPECT_EQ(key, row.key);
    EXPECT_THAT(says, HasSubstr(row.says));
  }
}

TEST_F(TaskInputs, ATextAloneIsAPathWithASlash) {
  const auto settled = [](const std::string& text, bool is_short) {
    RunConfig config;
    config.from = trainer::contract::StartConfig{text, false, "", is_short};
    plan::settle_short_start(&config);
    return config.from->run + "|" + config.from->path;
  };
  EXPECT_EQ(settled("base", true), "base|");
  EXPECT_EQ(settled("base@best", true), "base@best|");
  EXPECT_EQ(settled("/models/base", true), "|/models/base");
  EXPECT_EQ(settled("/models/base", false), "|/models/base");
  EXPECT_THROW((void)settled("models/base", true), base::Error);
  EXPECT_THROW((void)settled("base", false), base::Error);
  RunConfig none;
  plan::settle_short_start(&none);
  EXPECT_FALSE(none.from);
}

constexpr const char* kBertConfig =
    R"({"model_type": "bert", "num_hidden_layers": 2, "hidden_size": 128,
        "num_attention_heads": 2, "intermediate_size": 512, "max_position_embeddings": 512})";

TEST_F(TaskInputs, AModelFitsOrOneLineSaysWhyNot) {
  struct Row {
    const char* name;
    const char* config;      // config.json
    const char* vocabulary;  // empty: none there
    std::function<void(RunConfig*)> change;
    const char* key;
    const char* says;
  };
  const std::function<void(RunConfig*)> as_it_is = [](RunConfig*) {};
  const Row rows[] = {
      {"as it is", kBertConfig, "a\nb\n", as_it_is, "", ""},
      {"other line ends", kBertConfig, "a\r\nb", as_it_is, "", ""},
      {"sizes are not told", "{}", "a\nb\n", as_it_is, "", ""},
      {"sizes that are no numbers", R"({"hidden_size": "x"})", "a\nb\n", as_it_is, "", ""},
      {"fewer positions than it has", kBertConfig, "a\nb\n",
       [](RunConfig* run) { run->model.max_positions = 128; }, "", ""},
      {"no JSON", "x", "a\nb\n", as_it_is, "from", "is no JSON object"},
      {"deep", "[[[[[[[[[[[[[[[[[[[[", "a\nb\n", as_it_is, "from", "is no JSON object"},
      {"another architecture", R"({"model_type": "roberta"})", "a\nb\n", as_it_is, "from",
       "is of a roberta"},
      {"no vocabulary", kBertConfig, "", as_it_is, "from", "put its vocab.txt there"},
      {"another piece", kBertConfig, "a\nc\n", as_it_is, "data.path", "line 2 is 'b' and 'c'"},
      {"another case", kBertConfig, "A\nb\n", as_it_is, "data.path", "line 1 is 'a' and 'A'"},
      {"more pieces", kBertConfig, "a\nb\nc\n", as_it_is, "data.path", "2 and 3 pieces"},
      {"fewer pieces", kBertConfig, "a\n", as_it_is, "data.path", "2 and 1 pieces"},
      {"more layers", kBertConfig, "a\nb\n", [](RunConfig* run) { run->model.layers = 3; },
       "model.layers", "is 3, and num_hidden_layers of"},
      {"two sizes", kBertConfig, "a\nb\n",
       [](RunConfig* run) {
         run->model.heads = 4;
         run->model.feed_forward = 64;
       },
       "model.heads", "model.feed_forward is 64"},
      {"more positions", kBertConfig, "a\nb\n",
       [](RunConfig* run) { run->model.max_positions = 600; }, "model.max_positions",
       "has 512 positions; use at most that"},
      {"longer samples", kBertConfig, "a\nb\n",
       [](RunConfig* run) { run->data.max_length = run->model.max_positions = 600; },
       "data.max_length", "has 512 positions"},
  };
  const base::Path data = make("data", {{"vocab.txt", "a\nb\n"}});
  int number = 0;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const base::Path model =
        make("model" + std::to_string(++number), {{"config.json", row.config}});
    if (*row.vocabulary != '\0') tests::write_file(model / "vocab.txt", row.vocabulary);
    RunConfig config;
    config.data.path = data.string();
    config.from = trainer::contract::StartConfig{model.string(), false};
    row.change(&config);
    std::string key, says;
    try {
      plan::check_start(base::posix_file_system(), config);
    } catch (const base::Error& error) {
      key = error.key();
      says = error.what();
    }
    EXPECT_EQ(key, row.key) << says;
    EXPECT_THAT(says, HasSubstr(row.says));
    EXPECT_EQ(says.find('\n'), std::string::npos);
  }
}

// What the trainer would find out when its turn comes.
TEST_F(TaskInputs, WeightsAreAFileAndMomentsLeaveStepsToDo) {
  const base::Path model = make("pipe", {{"config.json", kBertConfig}, {"vocab.txt", "a\n"}});
  ASSERT_EQ(::mkfifo((model / "model.safetensors").c_str(), 0600), 0);
  RunConfig config;
  config.data.path = "/nowhere";
  const auto refusal = [&](const base::Path& path, bool optimizer) {
    config.from = trainer::contract::StartConfig{path.string(), optimizer};
    try {
      plan::check_start(base::posix_file_system(), config);
    } catch (const base::Error& error) {
      return error.key() + ": " + error.what();
    }
    return std::string();
  };
  EXPECT_THAT(refusal(model, false), HasSubstr("from: run file: from: "));
  const std::string run_json = "{\"data\": {\"path\": \"/nowhere\"}}";
  const base::Path run = make("run", {{"run.json", run_json}});
  const base::Path checkpoint = run / "checkpoints" / "step-0000000020-0123456789abcdef";
  std::filesystem::create_directories(checkpoint);
  tests::write_file(checkpoint / "manifest.json", "{}");
  for (const int steps : {19, 20}) {
    config.steps = steps;
    EXPECT_THAT(refusal(checkpoint, true),
                HasSubstr("steps: run file: steps: is " + std::to_string(steps) + ", and "));
    EXPECT_EQ(refusal(checkpoint, false), "");
  }
  config.steps = 21;
  EXPECT_EQ(refusal(checkpoint, true), "");
}

TEST_F(TaskInputs, AModelOfTensorFlowIsItsPrefix) {
  const base::Path folder = make(
      "google",
      {{"bert_model.ckpt.index", ""}, {"vocab.txt", "a\n"}, {"bert_config.json", kBertConfig}});
  RunConfig config;
  config.data.path = "/nowhere";
  const auto check = [&](const std::string& name) {
    config.from = trainer::contract::StartConfig{(folder / name).string(), false};
    plan::check_start(base::posix_file_system(), config);
  };
  EXPECT_NO_THROW(check("bert_model.ckpt"));
  EXPECT_NO_THROW(check("bert_model.ckpt.index"));
  EXPECT_THROW(check("bert_model"), base::Error);
  EXPECT_THROW(check("vocab.txt"), base::Error);
  config.model.layers = 3;
  EXPECT_THROW(check("bert_model.ckpt"), base::Error);
}

// The oracle is FLOPs written out by hand, of tasks whose heads are small.
TEST_F(TaskInputs, HeadsCostWhatTheirProductsDo) {
  trainer::contract::ModelShape shape;
  shape.hidden = 8;
  shape.vocabulary = 100;
  const trainer::contract::BatchSizes batch{3, 50, 1000, 7};
  EXPECT_EQ(plan::head_flops(shape, batch), 7 * (2 * 64 + 2 * 8 * 100) + 3 * (2 * 64 + 4 * 8));
  shape.task = Task::QuestionAnswering;
  EXPECT_EQ(plan::head_flops(shape, batch), 50 * 2 * 8 * 2);
  shape.task = Task::Classification;
  shape.labels = 5;
  EXPECT_EQ(plan::head_flops(shape, batch), 3 * (2 * 64 + 2 * 8 * 5));
  shape.task = Task::Regression;
  shape.labels = 0;
  EXPECT_EQ(plan::head_flops(shape, batch), 3 * (2 * 64 + 2 * 8 * 1));
}

TEST_F(TaskInputs, EveryTaskIsPlannedAndSimulatedItsLabelsKnownOrNot) {
  for (const Task task :
       {Task::Pretraining, Task::QuestionAnswering, Task::Classification, Task::Regression}) {
    for (const int labels : {0, 3}) {
      if (labels > 0 && task != Task::Classification) continue;
      SCOPED_TRACE(trainer::contract::name_of(task) + " " + std::to_string(labels));
      RunConfig config;
      config.model = trainer::contract::preset_shape("mini");
      config.model.vocabulary = 1000;
      config.model.task = task;
      config.model.labels = labels;
      config.ranks = 2;
      config.evaluate_samples = 0;
      plan::PlanFigures figures;
      figures.peak_flops = 100e12;
      figures.efficiency = 1;
      const auto inputs = plan::plan_inputs(config, figures);
      const double flops =
          trainer::contract::training_flops(config.model, plan::mean_sizes(config, figures));
      EXPECT_NEAR(inputs.compute_seconds * 100e12 / flops, 1, 1e-9);
      EXPECT_EQ(inputs.tensors.front().ready_seconds > inputs.forward_seconds, true);
      simulate::SimulationInputs simulated;
      simulated.config = config;
      simulated.lengths = trainer::contract::LengthTable::parse("64,64,1", "a table");
      simulated.compute.peak_flops = 100e12;
      simulated.steps = 2;
      const simulate::Simulation result = simulate::simulate_steps(simulated);
      EXPECT_GT(result.samples_per_second, 0);
      EXPECT_EQ(result.evaluation_seconds, 0) << "nobody knows how many samples that are";
    }
  }
}

TEST_F(TaskInputs, CompleteAShape) {
  const plan::DatasetFacts facts{Task::Classification, 40, 7, 9, 4};
  trainer::contract::ModelShape shape;
  shape.task = Task::Classification;
  plan::complete_shape(std::nullopt, &shape);
  EXPECT_EQ(shape.vocabulary, 0);
  EXPECT_EQ(shape.labels, 2);
  shape.labels = 0;
  plan::complete_shape(facts, &shape);
  EXPECT_EQ(shape.vocabulary, 40);
  EXPECT_EQ(shape.labels, 7);
  shape.vocabulary = 5;
  plan::complete_shape(facts, &shape);
  EXPECT_EQ(shape.vocabulary, 5) << "what the run file says is not overruled";
}

}  // namespace
}  // namespace regatta::orchestrator
