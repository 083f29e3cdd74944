// What a run file says of tasks: task, questions, fine_tuning, from, and what they are judged by.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/retention.h"
#include "trainer/contract/retention_policy.h"
#include "trainer/contract/run_config.h"
#include "trainer/contract/run_difference.h"
#include "trainer/contract/run_schema.h"

namespace regatta::trainer::contract {
namespace {

using testing::HasSubstr;

RunConfig task_run(const std::string& text) {
  return parse_run_config("data: {path: /d}\n" + text, "f");
}

TEST(TaskRunFile, SaysNothingOfTasksUnlessItIsAsked) {
  const RunConfig config = task_run("");
  EXPECT_EQ(config.model.task, Task::Pretraining);
  EXPECT_FALSE(config.from.has_value());
  EXPECT_EQ(config.fine_tuning, FineTuningConfig{});
  EXPECT_EQ(config.fine_tuning.layer_decay, 1);
  EXPECT_EQ(config.evaluate_samples, 1024);
  EXPECT_EQ(judged_by(config), TargetMetric::MlmAccuracy);
  // The canonical text is that of before: no older run.json differs from its run file.
  const auto json = nlohmann::json::parse(to_json(config));
  for (const char* key : {"task", "questions", "fine_tuning", "from"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
}

struct Good {
  const char* text;
  std::function<bool(const RunConfig&)> holds;
};

TEST(TaskRunFile, MeansWhatItSays) {
  const Good rows[] = {
      {"task: pretraining", [](const auto& c) { return c.model.task == Task::Pretraining; }},
      {"task: question-answering",
       [](const auto& c) {
         const QuestionConfig& q = c.questions;
         return c.model.task == Task::QuestionAnswering && q.doc_stride == 128 &&
                q.max_question == 64 && q.max_answer == 30 && q.best == 20 && q.null_threshold == 0;
       }},
      {"task: classification", [](const auto& c) { return c.model.task == Task::Classification; }},
      {"task: regression", [](const auto& c) { return c.model.task == Task::Regression; }},
      {"task: question-answering\nquestions: {doc_stride: 1, max_question: 2, max_answer: 3, "
       "best: 4, null_threshold: -1.5}",
       [](const auto& c) {
         const QuestionConfig& q = c.questions;
         return q.doc_stride == 1 && q.max_question == 2 && q.max_answer == 3 && q.best == 4 &&
                q.null_threshold == -1.5;
       }},
      {"task: question-answering\nquestions: {doc_stride: 4095, max_question: 124, "
       "max_answer: 4095, best: 1000, null_threshold: 1000000}",
       [](const auto& c) { return c.questions.best == 1000; }},
      {"task: classification\nfine_tuning: {layer_decay: 0.9, frozen_layers: 2, "
       "label_smoothing: 0.1}",
       [](const auto& c) {
         return c.fine_tuning == FineTuningConfig{0.9, 2, 0.1};
       }},
      {"model: {layers: 5}\nfine_tuning: {frozen_layers: 5}",
       [](const auto& c) {
         return c.fine_tuning == FineTuningConfig{1, 5, 0};
       }},
      {"task: regression\nfine_tuning: {label_smoothing: 0, layer_decay: 0.001}",
       [](const auto& c) { return c.fine_tuning.layer_decay == 0.001; }},
      {"from: /models/bert",
       [](const auto& c) { return c.from->path == "/models/bert" && !c.from->optimizer; }},
      {"from: {path: runs/7}",
       [](const auto& c) { return c.from->path == "runs/7" && !c.from->optimizer; }},
      {"from: {path: runs/7, optimizer: true}", [](const auto& c) { return c.from->optimizer; }},
      {"evaluate: {samples: 0}", [](const auto& c) { return c.evaluate_samples == 0; }},
      {"task: classification", [](const auto& c) { return c.evaluate_samples == 0; }},
      {"task: classification\nevaluate: {samples: 50}",
       [](const auto& c) { return c.evaluate_samples == 50; }},
      {"task: regression\nevaluate: {every: 3}",
       [](const auto& c) { return c.evaluate_samples == 0 && c.evaluate_every == 3; }}};
  for (const Good& row : rows) {
    SCOPED_TRACE(row.text);
    const RunConfig config = task_run(row.text);
    EXPECT_TRUE(row.holds(config));
    // And the canonical text means the same.
    const RunConfig again = parse_run_config(to_json(config), "canonical");
    EXPECT_TRUE(row.holds(again));
    EXPECT_EQ(to_json(again), to_json(config));
    EXPECT_TRUE(differences(config, again).empty());
  }
}

TEST(TaskRunFile, NamesWhatIsWrongWhere) {
  const std::pair<const char*, const char*> rows[] = {
      {"task: squad",
       "f:2: task: expected one of pretraining, question-answering, classification, regression, "
       "found 'squad'"},
      {"task: 1", "f:2: task: expected one of"},
      {"task: {name: regression}", "f:2: task: "},
      {"tasks: regression", "f:2: tasks: unknown key; did you mean 'task'?"},
      {"questions: {best: 3}",
       "f:2: questions: does not go with task pretraining; leave it out, or set the task"},
      {"task: classification\nquestions: {}",
       "f:3: questions: does not go with task classification"},
      {"task: question-answering\nquestions: {doc_stride: 0}",
       "f:3: questions.doc_stride: is 0; use 1 to 4095"},
      {"task: question-answering\nquestions: {max_question: 4096}",
       "questions.max_question: is 4096; use 1 to 4095"},
      {"task: question-answering\nquestions: {max_answer: -1}", "questions.max_answer: is -1"},
      {"task: question-answering\nquestions: {best: 1001}",
       "questions.best: is 1001; use 1 to 1000"},
      {"task: question-answering\nquestions: {null_threshold: nan}",
       "questions.null_threshold: expected a number"},
      {"task: question-answering\nquestions: {stride: 64}", "questions.stride: unknown key"},
      {"task: question-answering\nquestions: 3", "questions: expected a mapping"},
      {"fine_tuning: {layer_decay: 0}", "f:2: fine_tuning.layer_decay: is 0; use more than 0 to 1"},
      {"fine_tuning: {layer_decay: 1.01}", "fine_tuning.layer_decay: is 1.01"},
      {"fine_tuning: {frozen_layers: 3}", "fine_tuning.frozen_layers: is 3; use 0 to 2"},
      {"fine_tuning: {frozen_layers: -1}", "fine_tuning.frozen_layers: is -1"},
      {"fine_tuning: {label_smoothing: 1}",
       "fine_tuning.label_smoothing: is 1; use 0 to less than 1"},
      {"fine_tuning: {label_smoothing: -0.1}", "fine_tuning.label_smoothing: is -0.1"},
      {"task: regression\nfine_tuning: {label_smoothing: 0.1}",
       "f:3: fine_tuning.label_smoothing: is of labels, and a regression has none; leave it out"},
      {"fine_tuning: {frozen: 1}", "fine_tuning.frozen: unknown key"},
      {"from: ''", "f:2: from: names nothing; give a Hugging Face directory"},
      {"from: {}", "f:2: from: names nothing"},
      {"from: {optimizer: true}", "from: names nothing"},
      {"from: {path: a, optimiser: true}", "from.optimiser: unknown key"},
      {"from: {path: a, optimizer: 2}", "from.optimizer: expected true or false"},
      {"evaluate: {samples: -1}", "evaluate.samples: is -1; use 0 to 1073741824"}};
  for (const auto& [text, message] : rows) {
    SCOPED_TRACE(text);
    try {
      (void)task_run(text);
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

struct JudgedRow {
  const char* task;
  std::vector<std::string> metrics;  // the first is the task's
  const char* choice;                // as they are told
};
const std::vector<JudgedRow>& judged_rows() {
  static const std::vector<JudgedRow> rows{
      {"pretraining", {"mlm_accuracy", "mlm_loss"}, "mlm_accuracy or mlm_loss"},
      {"question-answering", {"f1", "exact", "loss"}, "f1, exact or loss"},
      {"classification", {"accuracy", "f1", "matthews", "loss"}, "accuracy, f1, matthews or loss"},
      {"regression", {"pearson", "spearman", "loss"}, "pearson, spearman or loss"}};
  return rows;
}

// Every metric with every task: those that it has are taken, the others refused with their names.
TEST(TaskRunFile, TargetsAreOfTheTasksMetrics) {
  for (const JudgedRow& row : judged_rows()) {
    const std::string task = std::string("task: ") + row.task + "\n";
    EXPECT_EQ(metric_of(task_run(task)), row.metrics[0]);
    EXPECT_EQ(metric_of(task_run(task + "target: {value: 0.5}")), row.metrics[0]);
    for (const char* metric : {"mlm_accuracy", "mlm_loss", "exact", "f1", "accuracy", "matthews",
                               "pearson", "spearman", "loss"}) {
      SCOPED_TRACE(task + metric);
      const std::string name = metric;
      const std::string text = task + "target: {metric: " + name + ", value: 0.5}";
      const bool has = std::find(row.metrics.begin(), row.metrics.end(), name) != row.metrics.end();
      const bool loss = name == "loss" || name == "mlm_loss";
      if (!has) {
        try {
          (void)task_run(text);
          ADD_FAILURE() << "accepted";
        } catch (const base::Error& error) {
          EXPECT_EQ(std::string(error.what()), "f:3: target.metric: is " + name + ", which task " +
                                                   row.task + " has not; use " + row.choice);
        }
        continue;
      }
      const RunConfig config = task_run(text);
      EXPECT_EQ(metric_of(config), name);
      EXPECT_EQ(is_loss(config.target->metric), loss);
      EXPECT_EQ(to_json(parse_run_config(to_json(config), "g")), to_json(config));
      EXPECT_EQ(retention_policy(config).metric, name);
      EXPECT_EQ(retention_policy(config).better,
                loss ? checkpoint::Better::Lowest : checkpoint::Better::Highest);
      // Shares up to 1, losses beyond; times the baseline where a constant guess may have some.
      const bool guessed = name == "exact" || name == "f1" || name.ends_with("accuracy");
      const std::string large = task + "target: {metric: " + name + ", value: 2.5}";
      const std::string times = task + "target: {metric: " + name + ", times_baseline: 2}";
      if (loss) {
        EXPECT_NO_THROW((void)task_run(large));
      } else {
        EXPECT_THROW((void)task_run(large), base::Error);
      }
      if (guessed) {
        EXPECT_NO_THROW((void)task_run(times));
      } else {
        EXPECT_THROW((void)task_run(times), base::Error) << name;
      }
    }
  }
}

TEST(TaskRunFile, AQuestionLeavesRoomForText) {
  const auto with = [](const std::string& text) {
    return parse_run_config("data: {path: /d, max_length: " + text, "f");
  };
  EXPECT_NO_THROW((void)with("68}\ntask: question-answering"));
  EXPECT_NO_THROW((void)with("32}\ntask: question-answering\nquestions: {max_question: 28}"));
  EXPECT_NO_THROW((void)with("32}")) << "without questions";
  for (const char* const text : {"67}\ntask: question-answering",
                                 "32}\ntask: question-answering\nquestions: {max_question: 29}"}) {
    try {
      (void)with(text);
      ADD_FAILURE() << text;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.key(), "questions.max_question") << error.what();
      EXPECT_NE(std::string(error.what()).find("has no room for text"), std::string::npos);
    }
  }
}

TEST(TaskRunFile, DifferencesNameItsKeys) {
  const RunConfig a = task_run("task: question-answering\nquestions: {best: 3}\nfrom: /a");
  const RunConfig b = task_run(
      "task: question-answering\nfine_tuning: {layer_decay: 0.5}\nfrom: {path: /b, optimizer: "
      "true}");
  const std::vector<KeyDifference> expected{{"questions.best", "3", "20"},
                                            {"from.path", "\"/a\"", "\"/b\""},
                                            {"from.optimizer", "false", "true"},
                                            {"fine_tuning.layer_decay", "absent", "0.5"},
                                            {"fine_tuning.frozen_layers", "absent", "0"},
                                            {"fine_tuning.label_smoothing", "absent", "0.0"}};
  EXPECT_EQ(differences(a, b), expected);
  const std::vector<KeyDifference> task =
      differences(task_run("evaluate: {samples: 0}"), task_run("task: regression"));
  EXPECT_EQ(task, (std::vector<KeyDifference>{{"task", "absent", "\"regression\""}}));
}

TEST(TaskRunFile, TheSchemaKnowsItsKeys) {
  const auto keys = nlohmann::json::parse(run_file_schema())["properties"];
  EXPECT_EQ(keys["task"]["enum"], nlohmann::json(task_names()));
  EXPECT_EQ(keys["questions"]["properties"].size(), 5U);
  EXPECT_EQ(keys["questions"]["properties"]["doc_stride"]["default"], 128);
  EXPECT_EQ(keys["fine_tuning"]["properties"]["layer_decay"]["exclusiveMinimum"], 0);
  EXPECT_EQ(keys["fine_tuning"]["properties"]["label_smoothing"]["exclusiveMaximum"], 1);
  EXPECT_FALSE(keys["fine_tuning"]["properties"]["frozen_layers"].contains("maximum"));
  EXPECT_EQ(keys["from"]["type"], nlohmann::json({"object", "string"}));
  EXPECT_EQ(keys["evaluate"]["properties"]["samples"]["minimum"], 0);
}

}  // namespace
}  // namespace regatta::trainer::contract
