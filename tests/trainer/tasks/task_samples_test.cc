// Examples' samples, scores and predictions beside plain Python (task_samples.py); the order of
// training samples; tasks' datasets as both.
#include "trainer/tasks/task_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/faulty_file_system.h"
#include "tests/trainer/tasks/judged_sets.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using contract::Task;
using tasks::ExampleSet;
using tasks::JudgedSet;
using tasks::TaskText;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;
using Logits = JudgedSet::Logits;

ExampleSet some_examples(std::size_t count, int classes) {
  ExampleSet set;
  for (int label = 0; label < classes; ++label) set.labels.push_back("l\t" + std::to_string(label));
  set.texts.assign(count, "a");
  return set;
}

TEST(ExampleSamples, AreCutAsInPlainPython) {
  const data::Vocabulary vocabulary = letters();
  const data::WordPiece pieces(vocabulary, {});
  const auto shown = [&](const samples::Sample& sample) {
    std::vector<std::string> tokens;
    for (const auto id : sample.ids) tokens.push_back(vocabulary.piece(id));
    return tokens;
  };
  int cut = 0;
  for (const Json& one : Json::parse(python({"pairs", "7"}))) {
    SCOPED_TRACE(one.dump());
    const auto text = one.at("text").get<std::string>();
    const bool pair = one.at("second").is_string();
    const auto second = pair ? one.at("second").get<std::string>() : "";
    const int most = one.at("most").get<int>();
    const samples::Sample sample =
        tasks::example_sample(pieces, vocabulary, text, pair ? &second : nullptr, most);
    EXPECT_EQ(shown(sample), one.at("tokens").get<std::vector<std::string>>());
    EXPECT_EQ(sample.types, one.at("types").get<std::vector<std::int32_t>>());
    EXPECT_EQ(sample.sample_label, -1);
    EXPECT_TRUE(std::isnan(sample.value));
    cut += sample.ids.size() == static_cast<std::size_t>(most) ? 1 : 0;
    // The same of many.
    ExampleSet set;
    set.texts.assign(3, text);
    if (pair) set.second_texts.assign(3, second);
    set.values = {0.5, -1, 3};
    const auto made =
        tasks::example_samples(set, Task::Regression, {vocabulary, true, most, {}, 2}).samples;
    ASSERT_EQ(made.size(), 3U);
    EXPECT_EQ(made[1].ids, sample.ids);
    EXPECT_EQ(made[1].types, sample.types);
    EXPECT_EQ(made[1].value, -1);
  }
  EXPECT_GT(cut, 200);
  // Nothing is left of it.
  EXPECT_EQ(shown(tasks::example_sample(pieces, vocabulary, "\u0301", nullptr, 16)),
            (std::vector<std::string>{"[CLS]", "[SEP]"}));
}

TEST(JudgedExamples, ScoresAreThoseOfPlainPython) {
  const data::Vocabulary vocabulary = letters();
  for (const Json& one : Json::parse(python({"scores", "3"}))) {
    SCOPED_TRACE(one.dump());
    const int classes = one.at("classes").get<int>();
    const auto logits = one.at("logits").get<Logits>();
    ExampleSet examples = some_examples(logits.size(), classes);
    if (classes > 0) {
      examples.classes = one.at("truth").get<std::vector<std::int32_t>>();
    } else {
      examples.values = one.at("truth").get<std::vector<double>>();
    }
    const auto set = tasks::judged_examples(
        examples, classes > 0 ? Task::Classification : Task::Regression, {vocabulary});
    const auto expect = [](const std::vector<contract::Metric>& found, const Json& wanted) {
      ASSERT_EQ(found.size(), wanted.size());
      for (const contract::Metric& metric : found) {
        const double value = wanted.at(metric.name).get<double>();
        EXPECT_NEAR(metric.value, value, 1e-12 * std::max(1.0, std::abs(value))) << metric.name;
      }
    };
    expect(set->score(logits), one.at("want"));
    EXPECT_EQ(set->score(logits).back().name, "loss");
    expect(set->baseline(), one.at("baseline"));
    for (std::size_t i = 0; classes > 0 && i < logits.size(); ++i) {
      EXPECT_EQ(set->samples()[i].sample_label, examples.classes[i]);
    }
  }
}

TEST(JudgedExamples, PredictionsAreATable) {
  const data::Vocabulary vocabulary = letters();
  const TemporaryDirectory directory;
  base::FileSystem& disk = base::posix_file_system();
  const auto written = [&](const JudgedSet& set, const Logits& logits) {
    EXPECT_FALSE(set.labelled());
    set.write_predictions(logits, directory.path(), disk);
    return disk.read(directory.path() / "predictions.tsv", 1U << 20U);
  };
  const auto of_classes =
      tasks::judged_examples(some_examples(3, 2), Task::Classification, {vocabulary});
  EXPECT_EQ(of_classes->samples()[0].sample_label, -1);
  EXPECT_EQ(written(*of_classes, {{0, 0}, {0, std::log(3.0F)}, {3e38F, -3e38F}}),
            "index\tprediction\tl 0\tl 1\n0\tl 0\t0.5\t0.5\n"
            "1\tl 1\t0.25\t0.75\n2\tl 0\t1\t0\n");
  const auto of_values =
      tasks::judged_examples(some_examples(3, 0), Task::Regression, {vocabulary});
  EXPECT_TRUE(std::isnan(of_values->samples()[0].value));
  EXPECT_EQ(written(*of_values, {{0.1F}, {-2}, {16777216}}),
            "index\tprediction\n0\t0.100000001\n1\t-2\n2\t16777216\n");
  EXPECT_THAT(refused([&] {
                (void)of_values->score({{1}, {2}, {3}});
              }),
              StartsWith("the 3 examples have no labels to be judged by"));
  EXPECT_THAT(refused([&] { (void)of_classes->baseline(); }), HasSubstr("no labels"));
}

TEST(JudgedExamples, LogitsThatAreNotFiniteAreAnError) {
  const data::Vocabulary vocabulary = letters();
  ExampleSet examples = some_examples(2, 3);
  examples.classes = {0, 2};
  const auto set = tasks::judged_examples(examples, Task::Classification, {vocabulary});
  const TemporaryDirectory directory;
  base::FileSystem& disk = base::posix_file_system();
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    for (const std::size_t at : {0U, 2U}) {
      Logits logits = {{0, 0, 0}, {0, 0, 0}};
      logits[1][at] = bad;
      const std::string message =
          "example 2 of 2: a logit is not a finite number; evaluate a checkpoint from before "
          "training diverged";
      EXPECT_EQ(refused([&] { (void)set->score(logits); }), message);
      EXPECT_EQ(refused([&] { set->write_predictions(logits, directory.path(), disk); }), message);
      EXPECT_TRUE(disk.list(directory.path()).empty());
    }
  }
}

TEST(JudgedExamplesDeath, WhatCallersPromise) {
  const data::Vocabulary vocabulary = letters();
  const auto set = tasks::judged_examples(some_examples(2, 3), Task::Classification,
                                          {vocabulary, true, 384, {}, 1});
  const base::Path nowhere = "/nowhere";
  const auto write = [&](const Logits& logits) {
    set->write_predictions(logits, nowhere, base::posix_file_system());
  };
  EXPECT_DEATH(write({{0, 0, 0}}), "each example has logits");
  EXPECT_DEATH(write({{0, 0, 0}, {0, 0}}), "a logit for each label");
  EXPECT_DEATH((void)tasks::judged_examples({}, Task::Regression, {vocabulary}), "an example");
  EXPECT_DEATH(
      (void)tasks::judged_examples(some_examples(1, 1), Task::Classification, {vocabulary}),
      "at least two");
  EXPECT_DEATH((void)tasks::judged_examples(some_examples(1, 2), Task::Regression, {vocabulary}),
               "values have none");
  EXPECT_DEATH(tasks::TrainingSet({}, 1), "a sample to train on");
}

// Samples that say their number.
tasks::TaskSamples numbered_samples(std::int32_t count) {
  tasks::TaskSamples made;
  for (std::int32_t i = 0; i < count; ++i) {
    samples::Sample sample;
    sample.ids.assign(static_cast<std::size_t>(2 + i % 7), i);
    made.samples.push_back(std::move(sample));
  }
  return made;
}

TEST(TrainingSet, EachEpochHasAllSamplesOnceInAnOrderOfItsOwn) {
  for (const std::int32_t count : {1, 2, 3, 64, 1000}) {
    SCOPED_TRACE(count);
    std::set<std::vector<std::int32_t>> orders;
    for (const std::uint64_t seed : {1U, 2U}) {
      tasks::TrainingSet first(numbered_samples(count), seed);
      const samples::SampleStream stream = first.stream();
      const tasks::TrainingSet set = std::move(first);
      ASSERT_EQ(set.size(), count);
      for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
        std::vector<std::int32_t> order;
        for (std::int64_t n = epoch * count; n < (epoch + 1) * count; ++n) {
          const samples::Sample sample = stream.at(n);
          EXPECT_EQ(stream.length(n), static_cast<std::int32_t>(sample.ids.size()));
          EXPECT_EQ(set.stream().at(n).ids, sample.ids);
          order.push_back(sample.ids[0]);
        }
        EXPECT_EQ(std::set<std::int32_t>(order.begin(), order.end()).size(), order.size());
        orders.insert(std::move(order));
      }
    }
    if (count >= 64) {
      EXPECT_EQ(orders.size(), 10U);
    }
  }
}

TEST(TrainingSet, AndEvaluationOfADataset) {
  const TemporaryDirectory directory;
  base::FileSystem& disk = base::posix_file_system();
  const auto file = [&](const char* name) { return directory.path() / name; };
  std::ofstream(file("vocab.txt")) << letters().text();
  std::ofstream(file("squad.json")) << small_squad(true);
  std::ofstream(file("train.tsv")) << "text\tlabel\na b c\tno\nd\tyes\ne f\tno\n";
  std::ofstream(file("dev.tsv")) << "text\tlabel\na\tyes\n";
  contract::RunConfig config;
  config.data.max_length = 16;
  config.questions.max_question = 4;
  const auto prepared = [&](Task task, const char* training, const char* evaluation) {
    tasks::TaskPrepareOptions options;
    options.task = task;
    options.training = file(training);
    options.evaluation = file(evaluation);
    options.vocabulary = file("vocab.txt");
    options.output = file(contract::name_of(task).c_str());
    (void)tasks::prepare_task(options, disk);
    return tasks::TaskDataset::open(options.output, disk);
  };
  {
    const auto dataset = prepared(Task::QuestionAnswering, "squad.json", "squad.json");
    const TaskText text = tasks::text_of(dataset, config, 1);
    const tasks::TrainingSet training(dataset, text, 1);
    EXPECT_EQ(training.warnings().size(), 1U);
    EXPECT_GT(training.size(), 6);
    EXPECT_LE(training.stream().length(3), 16);
    const auto evaluation = tasks::evaluation_of(dataset, text);
    EXPECT_TRUE(evaluation->labelled());
    EXPECT_DOUBLE_EQ(evaluation->baseline()[0].value, 1 / 9.0);  // one is impossible
  }
  const auto dataset = prepared(Task::Classification, "train.tsv", "dev.tsv");
  const TaskText text = tasks::text_of(dataset, config, 1);
  EXPECT_EQ(tasks::TrainingSet(dataset, text, 1).size(), 3);
  const auto evaluation = tasks::evaluation_of(dataset, text);
  ASSERT_EQ(evaluation->samples().size(), 1U);
  EXPECT_EQ(evaluation->samples()[0].sample_label, 1);
}

// Text, second text and label of each, whatever the task.
TEST(TrainingSet, TheFirstOfAnEvaluationAreWholeExamples) {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "vocab.txt") << letters().text();
  const std::pair<Task, const char*> tables[] = {
      {Task::Regression, "text\tother\tlabel\na\tb c\t1.5\nc\td\t-2\ne\tf\t5\n"},
      {Task::Classification, "text\tother\tlabel\na\tb c\tyes\nc\td\tno\ne\tf\tyes\n"}};
  for (const auto& [task, table] : tables) {
    SCOPED_TRACE(contract::name_of(task));
    tasks::TaskPrepareOptions options;
    options.task = task;
    options.training = options.evaluation = directory.path() / (contract::name_of(task) + ".tsv");
    options.vocabulary = directory.path() / "vocab.txt";
    options.output = directory.path() / contract::name_of(task);
    options.examples.text_column = "text";
    options.examples.second_text_column = "other";
    std::ofstream(options.training) << table;
    (void)tasks::prepare_task(options, base::posix_file_system());
    const auto dataset = tasks::TaskDataset::open(options.output, base::posix_file_system());
    const TaskText text = tasks::text_of(dataset, {}, 1);
    const auto all = tasks::evaluation_of(dataset, text, 0);
    for (const int most : {1, 2, 3, 4}) {
      const auto first = tasks::evaluation_of(dataset, text, most);
      EXPECT_TRUE(first->labelled());
      ASSERT_EQ(first->samples().size(), static_cast<std::size_t>(std::min(most, 3)));
      for (std::size_t i = 0; i < first->samples().size(); ++i) {
        const samples::Sample &one = first->samples()[i], &same = all->samples()[i];
        EXPECT_EQ(one.ids, same.ids);
        EXPECT_EQ(one.types, same.types);
        if (task == Task::Classification) {
          EXPECT_EQ(one.sample_label, i == 1 ? 0 : 1) << "labels are sorted";
        } else {
          EXPECT_EQ(one.value, (std::array{1.5F, -2.0F, 5.0F})[i]);
        }
      }
      EXPECT_EQ(first->samples()[0].types.back(), 1) << "there are two texts";
    }
  }
}

}  // namespace
}  // namespace regatta::tests
