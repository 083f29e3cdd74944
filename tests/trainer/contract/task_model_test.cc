// Models of tasks: their tensors, FLOPs and fingerprints.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "trainer/contract/model_shape.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::contract {
namespace {

ModelShape model_for(Task task, const std::string& preset = "tiny", int labels = 0) {
  ModelShape shape = preset_shape(preset);
  shape.vocabulary = 1001;
  shape.task = task;
  shape.labels = labels;
  return shape;
}

using NamedShape = std::pair<std::string, std::vector<std::int64_t>>;

// As backward finishes them, and as transformers names them (BertForPreTraining,
// BertForQuestionAnswering, BertForSequenceClassification).
std::vector<NamedShape> head_of(Task task, std::int64_t labels) {
  const std::vector<NamedShape> pooler{{"bert.pooler.dense.bias", {128}},
                                       {"bert.pooler.dense.weight", {128, 128}}};
  std::vector<NamedShape> head;
  switch (task) {
    case Task::Pretraining:
      head = {{"cls.seq_relationship.bias", {2}}, {"cls.seq_relationship.weight", {2, 128}}};
      head.insert(head.end(), pooler.begin(), pooler.end());
      head.insert(head.end(), {{"cls.predictions.bias", {1001}},
                               {"cls.predictions.transform.LayerNorm.weight", {128}},
                               {"cls.predictions.transform.LayerNorm.bias", {128}},
                               {"cls.predictions.transform.dense.bias", {128}},
                               {"cls.predictions.transform.dense.weight", {128, 128}}});
      return head;
    case Task::QuestionAnswering:
      return {{"qa_outputs.bias", {2}}, {"qa_outputs.weight", {2, 128}}};
    case Task::Classification:
    case Task::Regression:
      break;
  }
  head = {{"classifier.bias", {labels}}, {"classifier.weight", {labels, 128}}};
  head.insert(head.end(), pooler.begin(), pooler.end());
  return head;
}

struct TaskRow {
  Task task;
  int labels;            // of the shape
  std::int64_t outputs;  // by hand
};
constexpr TaskRow kTaskRows[] = {{Task::Pretraining, 0, 2},
                                 {Task::QuestionAnswering, 0, 2},
                                 {Task::Classification, 2, 2},
                                 {Task::Classification, 7, 7},
                                 {Task::Regression, 0, 1}};

TEST(TaskModel, TensorsOfTheHeadComeFirstAndTheEncoderIsTheSame) {
  const TensorTable pretraining = make_tensor_table(model_for(Task::Pretraining));
  const auto first_of_all = static_cast<std::size_t>(first_encoder_tensor(pretraining));
  const std::int64_t base_of_all = pretraining.tensors[first_of_all].offset;
  for (const TaskRow& row : kTaskRows) {
    SCOPED_TRACE(name_of(row.task) + " " + std::to_string(row.labels));
    const ModelShape shape = model_for(row.task, "tiny", row.labels);
    EXPECT_EQ(outputs_of(shape), row.outputs);
    const TensorTable table = make_tensor_table(shape);
    const std::vector<NamedShape> head = head_of(row.task, row.outputs);
    ASSERT_EQ(first_encoder_tensor(table), std::ssize(head));
    std::int64_t end = 0;
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < head.size(); ++i) {
      const TensorEntry& tensor = table.tensors[i];
      EXPECT_EQ(tensor.name, head[i].first);
      EXPECT_EQ(tensor.shape, head[i].second) << tensor.name;
      EXPECT_EQ(tensor.weight_decay, tensor.shape.size() == 2) << tensor.name;
      EXPECT_EQ(tensor.trust_ratio, tensor.shape.size() == 2) << tensor.name;
      EXPECT_EQ(tensor.offset % kArenaAlignment, 0) << tensor.name;
      EXPECT_GE(tensor.offset, end) << tensor.name;
      EXPECT_LT(tensor.offset - end, kArenaAlignment) << tensor.name;
      end = tensor.offset + tensor.size;
      elements += tensor.size;
    }
    // From there on, name by name and distance by distance, up to the arena's end.
    ASSERT_EQ(table.tensors.size() - head.size(), pretraining.tensors.size() - first_of_all);
    EXPECT_EQ(table.tensors[head.size()].name, "bert.encoder.layer.1.output.LayerNorm.weight");
    const std::int64_t base = table.tensors[head.size()].offset;
    for (std::size_t i = head.size(); i < table.tensors.size(); ++i) {
      const TensorEntry& mine = table.tensors[i];
      const TensorEntry& theirs = pretraining.tensors[first_of_all + i - head.size()];
      EXPECT_EQ(mine.name, theirs.name);
      EXPECT_EQ(mine.shape, theirs.shape) << mine.name;
      EXPECT_EQ(mine.offset - base, theirs.offset - base_of_all) << mine.name;
      elements += mine.size;
    }
    EXPECT_EQ(table.arena_size - base, pretraining.arena_size - base_of_all);
    EXPECT_EQ(table.parameter_count, elements);
  }
}

TEST(TaskModel, ParametersByHand) {
  // BERT-base without a head: (30522 + 512 + 2 + 2)·768 + 12·(4·(768² + 768) + 2·768·3072 + 3072 +
  // 768 + 4·768) = 108,891,648; a pooler 768² + 768.
  constexpr std::int64_t kEncoder = 108'891'648, kPooler = 768 * 768 + 768;
  const auto count = [](Task task, int labels) {
    ModelShape shape = model_for(task, "base", labels);
    shape.vocabulary = 30522;
    return make_tensor_table(shape).parameter_count;
  };
  EXPECT_EQ(count(Task::QuestionAnswering, 0), kEncoder + 2 * 768 + 2);
  EXPECT_EQ(count(Task::Classification, 3), kEncoder + kPooler + 3 * 768 + 3);
  EXPECT_EQ(count(Task::Regression, 0), kEncoder + kPooler + 768 + 1);
}

TEST(TaskModelDeathTest, ClassesAreKnownBeforeTheTableIs) {
  EXPECT_DEATH((void)make_tensor_table(model_for(Task::Classification)), "classes are known");
}

// Of 3 samples of 5, 7 and 9 tokens, forward and backward, each product by itself.
TEST(TaskModel, FlopsAreThoseOfItsProducts) {
  const BatchSizes batch{3, 21, 25 + 49 + 81, 4};
  for (const TaskRow& row : kTaskRows) {
    SCOPED_TRACE(name_of(row.task) + " " + std::to_string(row.labels));
    const ModelShape shape = model_for(row.task, "tiny", row.labels);
    const auto product = [](double m, double n, double k) { return 2 * m * n * k; };
    double forward = 0;
    for (const double s : {5.0, 7.0, 9.0}) {
      forward += 2 * (product(s, 3 * 128, 128) + product(s, 128, 128) + product(s, 512, 128) +
                      product(s, 128, 512) + product(s, s, 128) + product(s, 128, s));
      if (row.task == Task::QuestionAnswering) {
        forward += product(s, 2, 128);
      } else {
        forward += product(1, 128, 128) + product(1, static_cast<double>(row.outputs), 128);
      }
    }
    if (row.task == Task::Pretraining) forward += product(4, 128, 128) + product(4, 1001, 128);
    EXPECT_DOUBLE_EQ(training_flops(shape, batch), 3 * forward);
  }
}

TEST(TaskModel, AHeadWithoutClassesHasTwo) {
  EXPECT_EQ(outputs_of(model_for(Task::Classification)), 2);  // what a plan is made by
}

// Checkpoints of before still fit: XXH3-128 of "regatta model 1 2 128 2 512 1000 512 2 erf 1e-12"
// and of BERT-base's, by libxxhash.
TEST(TaskModel, FingerprintsOfPretrainingAreWhatTheyWere) {
  ModelShape shape = model_for(Task::Pretraining);
  shape.vocabulary = 1000;
  EXPECT_EQ(model_fingerprint(shape), "ad8d0b55f42d7547a43f8fe212e1d901");
  shape = model_for(Task::Pretraining, "base");
  shape.vocabulary = 30522;
  EXPECT_EQ(model_fingerprint(shape), "2952e17faf796515471da37e2062cc8c");
}

TEST(TaskModel, FingerprintsDifferByTaskAndClasses) {
  std::set<std::string> seen;
  for (const TaskRow& row : kTaskRows) {
    const ModelShape shape = model_for(row.task, "tiny", row.labels);
    EXPECT_TRUE(seen.insert(model_fingerprint(shape)).second) << name_of(row.task);
    EXPECT_EQ(model_fingerprint(model_for(row.task, "tiny", row.labels)), model_fingerprint(shape));
  }
}

TEST(TaskModel, NumbersOfLabelsThatCannotBe) {
  for (const int labels : {-1, 1, kMostLabels + 1}) {
    ModelShape shape = model_for(Task::Classification, "tiny", labels);
    try {
      check_shape(shape);
      ADD_FAILURE() << labels << " accepted";
    } catch (const base::Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "impossible model: " + std::to_string(labels) + " labels; use 2 to 1024");
    }
  }
  for (const int labels : {0, 2, kMostLabels}) {
    EXPECT_NO_THROW(check_shape(model_for(Task::Classification, "tiny", labels))) << labels;
  }
}

TEST(TaskModel, NamesOfTasks) {
  EXPECT_EQ(name_of(Task::Pretraining), "pretraining");
  EXPECT_EQ(name_of(Task::QuestionAnswering), "question-answering");
  EXPECT_EQ(name_of(Task::Classification), "classification");
  EXPECT_EQ(name_of(Task::Regression), "regression");
}

}  // namespace
}  // namespace regatta::trainer::contract
