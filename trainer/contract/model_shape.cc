#include "trainer/contract/model_shape.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace regatta::trainer::contract {
namespace {

// Adds entries one after another; `align` starts a new aligned group.
class TableBuilder {
 public:
  void dense(const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    add(name + ".bias", {outputs}, Kind::Vector);
    add(name + ".weight", {outputs, inputs}, Kind::Matrix);
  }
  void layer_norm(const std::string& name, std::int64_t size) {
    add(name + ".weight", {size}, Kind::Vector);
    add(name + ".bias", {size}, Kind::Vector);
  }
  void embedding(const std::string& name, std::int64_t rows, std::int64_t columns) {
    add(name + ".weight", {rows, columns}, Kind::Matrix);
  }
  void bias(const std::string& name, std::int64_t size) { add(name, {size}, Kind::Vector); }
  void query_key_value(const std::string& prefix, std::int64_t hidden) {
    const char* const kNames[] = {"query", "key", "value"};
    align();
    for (const char* name : kNames) append(prefix + name + ".bias", {hidden}, Kind::Vector);
    align();
    for (const char* name : kNames)
      append(prefix + name + ".weight", {hidden, hidden}, Kind::Matrix);
  }
  void gap(std::int64_t elements) { end_ += elements; }
  TensorTable finish() {
    align();
    table_.arena_size = end_;
    return std::move(table_);
  }

 private:
  enum class Kind { Matrix, Vector };

  void align() { end_ = (end_ + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }
  void add(const std::string& name, std::vector<std::int64_t> shape, Kind kind) {
    align();
    append(name, std::move(shape), kind);
  }
  void append(const std::string& name, std::vector<std::int64_t> shape, Kind kind) {
    std::int64_t size = 1;
    for (const std::int64_t dimension : shape) size *= dimension;
    const bool matrix = kind == Kind::Matrix;
    table_.tensors.push_back({name, std::move(shape), end_, size, matrix, matrix});
    table_.parameter_count += size;
    end_ += size;
  }

  TensorTable table_;
  std::int64_t end_ = 0;
};

// What is the head's alone, and the pooler that some heads begin with.
void add_head(const ModelShape& shape, TableBuilder* builder) {
  const std::int64_t hidden = shape.hidden;
  switch (shape.task) {
    case Task::Pretraining:
      builder->dense("cls.seq_relationship", 2, hidden);
      builder->dense("bert.pooler.dense", hidden, hidden);
      builder->bias("cls.predictions.bias", shape.vocabulary);
      builder->layer_norm("cls.predictions.transform.LayerNorm", hidden);
      builder->dense("cls.predictions.transform.dense", hidden, hidden);
      return;
    case Task::QuestionAnswering:
      builder->dense("qa_outputs", 2, hidden);
      return;
    case Task::Classification:
    case Task::Regression:
      builder->dense("classifier", outputs_of(shape), hidden);
      builder->dense("bert.pooler.dense", hidden, hidden);
      return;
  }
}

}  // namespace

const std::vector<std::string>& task_names() {
  static const std::vector<std::string> names{"pretraining", "question-answering", "classification",
                                              "regression"};
  return names;
}

const std::string& name_of(Task task) { return task_names().at(static_cast<std::size_t>(task)); }

std::int64_t outputs_of(const ModelShape& shape) {
  if (shape.task == Task::Classification) return std::max(2, shape.labels);
  return shape.task == Task::Regression ? 1 : 2;
}

ModelShape preset_shape(const std::string& name) {
  struct Preset {
    const char* name;
    int layers;
    int hidden;
  };
  constexpr Preset kPresets[] = {{"tiny", 2, 128},   {"mini", 4, 256},  {"small", 4, 512},
                                 {"medium", 8, 512}, {"base", 12, 768}, {"large", 24, 1024}};
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
    ModelShape shape;
    shape.layers = preset.layers;
    shape.hidden = preset.hidden;
    shape.heads = preset.hidden / 64;
    shape.feed_forward = 4 * preset.hidden;
    return shape;
  }
  throw base::Error(base::Code::User, "unknown model preset '" + base::printable(name) +
                                          "'; use tiny, mini, small, medium, base or large");
}

void check_shape(const ModelShape& shape) {
  const auto require = [](bool good, const std::string& message) {
    if (!good) throw base::Error(base::Code::User, "impossible model: " + message);
  };
  const auto range = [&](const std::string& what, std::int64_t value, std::int64_t most) {
    require(value >= 1 && value <= most,
            what + " is " + std::to_string(value) + "; use 1 to " + std::to_string(most));
  };
  range("layers", shape.layers, kMostLayers);
  range("hidden", shape.hidden, kMostHidden);
  range("heads", shape.heads, kMostHeads);
  range("feed_forward", shape.feed_forward, kMostFeedForward);
  range("max_positions", shape.max_positions, kMostPositions);
  range("token_types", shape.token_types, 16);
  require(shape.hidden % 8 == 0,
          "hidden is " + std::to_string(shape.hidden) + "; use a multiple of 8");
  require(shape.hidden % shape.heads == 0, "heads (" + std::to_string(shape.heads) +
                                               ") does not divide hidden (" +
                                               std::to_string(shape.hidden) + "); use a divisor");
  require(shape.vocabulary >= 0 && shape.vocabulary <= kMostVocabulary,
          "a vocabulary of " + std::to_string(shape.vocabulary) + " pieces");
  require(shape.labels >= 0 && shape.labels <= kMostLabels && shape.labels != 1,
          std::to_string(shape.labels) + " labels; use 2 to " + std::to_string(kMostLabels));
}

const TensorEntry& TensorTable::at(const std::string& name) const {
  for (const TensorEntry& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  base::check(false, "the tensor table has an entry " + name);
  return tensors.front();
}

std::int64_t vocabulary_rows(const ModelShape& shape) {
  return (shape.vocabulary + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

TensorTable make_tensor_table(const ModelShape& shape) {
  base::check(shape.vocabulary > 0, "the vocabulary is known before the tensor table is made");
  base::check(shape.task != Task::Classification || shape.labels > 0, "the classes are known");
  const std::int64_t hidden = shape.hidden;
  TableBuilder builder;
  add_head(shape, &builder);
  for (int layer = shape.layers - 1; layer >= 0; --layer) {
    const std::string prefix = "bert.encoder.layer." + std::to_string(layer) + ".";
    builder.layer_norm(prefix + "output.LayerNorm", hidden);
    builder.dense(prefix + "output.dense", hidden, shape.feed_forward);
    builder.dense(prefix + "intermediate.dense", shape.feed_forward, hidden);
    builder.layer_norm(prefix + "attention.output.LayerNorm", hidden);
    builder.dense(prefix + "attention.output.dense", hidden, hidden);
    builder.query_key_value(prefix + "attention.self.", hidden);
  }
  builder.layer_norm("bert.embeddings.LayerNorm", hidden);
  builder.embedding("bert.embeddings.token_type_embeddings", shape.token_types, hidden);
  builder.embedding("bert.embeddings.position_embeddings", shape.max_positions, hidden);
  builder.embedding("bert.embeddings.word_embeddings", shape.vocabulary, hidden);
  builder.gap((vocabulary_rows(shape) - shape.vocabulary) * hidden);
  return builder.finish();
}

int first_encoder_tensor(const TensorTable& table) {
  int number = 0;
  for (const TensorEntry& tensor : table.tensors) {
    if (tensor.name.rfind("bert.encoder.", 0) == 0) break;
    ++number;
  }
  return number;
}

std::string layer_of(const std::string& tensor) {
  const std::string layers = "bert.encoder.layer.";
  if (tensor.starts_with(layers)) {
    return "layer " + tensor.substr(layers.size(), tensor.find('.', layers.size()) - layers.size());
  }
  return tensor.starts_with("bert.embeddings.") ? "the embeddings" : "the head";
}

double training_flops(const ModelShape& shape, const BatchSizes& batch) {
  const double h = shape.hidden;
  const double f = shape.feed_forward;
  const double linear = 2 * (4 * h * h + 2 * h * f) * static_cast<double>(batch.tokens);
  const double attention = 4 * h * static_cast<double>(batch.squared_tokens);
  const auto samples = static_cast<double>(batch.samples);
  const auto outputs = static_cast<double>(outputs_of(shape));
  double head = samples * (2 * h * h + 2 * h * outputs);
  if (shape.task == Task::QuestionAnswering)
    head = 2 * h * outputs * static_cast<double>(batch.tokens);
  if (shape.task == Task::Pretraining) {
    head += static_cast<double>(batch.masked) * (2 * h * h + 2 * h * shape.vocabulary);
  }
  return 3 * (shape.layers * (linear + attention) + head);
}

}  // namespace regatta::trainer::contract
