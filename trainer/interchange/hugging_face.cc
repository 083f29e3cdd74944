#include "trainer/interchange/hugging_face.h"

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace regatta::trainer::interchange {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 16;
constexpr char kEncoderPrefix[] = "bert.";
constexpr char kPoolerPrefix[] = "bert.pooler.";
constexpr char kQuestionPrefix[] = "qa_outputs.";
constexpr char kClassifierPrefix[] = "classifier.";
constexpr char kSequenceClassifier[] = "BertForSequenceClassification";
constexpr char kRegression[] = "regression";
constexpr char kSingleLabel[] = "single_label_classification";
constexpr double kInitializerRange = 0.02;  // as initial_weights draws

// `text` with its end replaced, if it has that end.
std::optional<std::string> with_other_end(const std::string& text, const std::string& end,
                                          const std::string& other) {
  if (text.size() < end.size() || text.compare(text.size() - end.size(), end.size(), end) != 0) {
    return std::nullopt;
  }
  return text.substr(0, text.size() - end.size()) + other;
}

Json parse_object(const std::string& text, const std::string& source) {
  // The parser takes a NUL byte for the end of its input.
  const bool sound =
      text.find('\0') == std::string::npos && base::json_depth_at_most(text, kMaxDepth);
  Json json = sound ? base::parse_json<Json>(text) : Json();
  if (!json.is_object()) {
    throw base::Error(base::Code::User, source + ": not a JSON object; copy the file again");
  }
  return json;
}

class ConfigReader {
 public:
  ConfigReader(const Json& json, const std::string& source) : json_(json), source_(source) {}

  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    throw base::Error(base::Code::User, source_ + ": " + key + " " + what);
  }
  // Null stands for the default, as in Python's files.
  [[nodiscard]] const Json* find(const char* key) const {
    const auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }
  [[nodiscard]] int size(const char* key, std::optional<int> otherwise = std::nullopt) const {
    const Json* const value = find(key);
    if (value == nullptr) {
      if (!otherwise) fail(key, "is missing; a model's config.json names every size");
      return *otherwise;
    }
    if (!value->is_number_unsigned() ||
        value->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
      fail(key, "is " + shown(*value) + ", not a whole number of at least 0");
    }
    return value->get<int>();
  }
  [[nodiscard]] double number(const char* key, double otherwise, double most) const {
    const Json* const value = find(key);
    if (value == nullptr) return otherwise;
    const double found = value->is_number() ? value->get<double>() : -1;
    if (!(found >= 0 && found < most)) {
      fail(key, "is " + shown(*value) + ", not a number from 0 to less than " +
                    (most == 1 ? "1" : "1000"));
    }
    return found;
  }
  [[nodiscard]] std::string text(const char* key, const std::string& otherwise) const {
    const Json* const value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) fail(key, "is " + shown(*value) + ", not text");
    return value->get<std::string>();
  }
  void must_be_off(const char* key) const {
    const Json* const value = find(key);
    if (value == nullptr || (value->is_boolean() && !value->get<bool>())) return;
    fail(key, "is " + shown(*value) + "; only encoders can be imported");
  }
  static std::string shown(const Json& value) {
    return "'" + base::printable(base::json_text(value).substr(0, 40)) + "'";
  }

 private:
  const Json& json_;
  const std::string& source_;
};

contract::Gelu gelu_of(const ConfigReader& reader) {
  const std::string name = reader.text("hidden_act", "gelu");
  if (name == "gelu" || name == "gelu_python") return contract::Gelu::Erf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast")
    return contract::Gelu::Tanh;
  reader.fail("hidden_act", "is '" + base::printable(name.substr(0, 40)) +
                                "'; this trainer computes gelu (erf) and gelu_new (tanh)");
}

std::string standard_label(std::size_t number) { return "LABEL_" + std::to_string(number); }

std::string architecture_of(const ConfigReader& reader) {
  const Json* const list = reader.find("architectures");
  if (list == nullptr || (list->is_array() && list->empty())) return "";
  if (!list->is_array() || !list->front().is_string()) {
    reader.fail("architectures", "is " + ConfigReader::shown(*list) + ", not a list of names");
  }
  const auto name = list->front().get<std::string>();
  if (reader.find("model_type") == nullptr && !name.starts_with("Bert")) {
    reader.fail("architectures", "names '" + base::printable(name.substr(0, 40)) +
                                     "'; only those of BERT can be imported");
  }
  return name;
}

std::vector<std::string> labels_of(const ConfigReader& reader) {
  const auto check_count = [&](const char* key, std::size_t count) {
    if (count >= 1 && count <= static_cast<std::size_t>(contract::kMostLabels)) return;
    reader.fail(key, "gives " + std::to_string(count) + " labels; a classifier has 1 to " +
                         std::to_string(contract::kMostLabels));
  };
  std::vector<std::string> labels;
  const Json* const names = reader.find("id2label");
  if (names == nullptr) {
    const auto count = static_cast<std::size_t>(reader.size("num_labels", 2));
    check_count("num_labels", count);
    for (std::size_t i = 0; i < count; ++i) labels.push_back(standard_label(i));
    return labels;
  }
  if (!names->is_object()) {
    reader.fail("id2label", "is " + ConfigReader::shown(*names) + ", not an object of labels");
  }
  check_count("id2label", names->size());
  for (std::size_t i = 0; i < names->size(); ++i) {
    const auto it = names->find(std::to_string(i));
    if (it == names->end() || !it->is_string()) {
      reader.fail("id2label", "has no name for label " + std::to_string(i) + " of " +
                                  std::to_string(names->size()));
    }
    labels.push_back(it->get<std::string>());
  }
  return labels;
}

void describe_labels(const HuggingFaceConfig& config, Json* json) {
  const bool regression = config.shape.task == contract::Task::Regression;
  const std::vector<std::string> labels =
      regression ? std::vector<std::string>{standard_label(0)} : config.labels;
  Json names = Json::object();
  Json numbers = Json::object();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    names[std::to_string(i)] = labels[i];
    numbers[labels[i]] = i;
  }
  (*json)["id2label"] = std::move(names);
  (*json)["label2id"] = std::move(numbers);
  (*json)["problem_type"] = regression ? kRegression : kSingleLabel;
}

std::string dumped(const Json& json) { return base::json_text(json, 2) + "\n"; }

}  // namespace

const char* name_of(HuggingFaceClass model) {
  switch (model) {
    case HuggingFaceClass::Encoder:
      return "BertModel";
    case HuggingFaceClass::ForQuestionAnswering:
      return "BertForQuestionAnswering";
    case HuggingFaceClass::ForSequenceClassification:
      return kSequenceClassifier;
    case HuggingFaceClass::ForPreTraining:
      break;
  }
  return "BertForPreTraining";
}

HuggingFaceClass class_of(contract::Task task) {
  switch (task) {
    case contract::Task::QuestionAnswering:
      return HuggingFaceClass::ForQuestionAnswering;
    case contract::Task::Classification:
    case contract::Task::Regression:
      return HuggingFaceClass::ForSequenceClassification;
    case contract::Task::Pretraining:
      break;
  }
  return HuggingFaceClass::ForPreTraining;
}

std::optional<contract::Task> task_of_classifier(const HuggingFaceConfig& config) {
  const bool one = config.labels.size() == 1;
  if (config.problem_type.empty() || config.problem_type == (one ? kRegression : kSingleLabel)) {
    return one ? contract::Task::Regression : contract::Task::Classification;
  }
  return std::nullopt;
}

std::string config_json(const HuggingFaceConfig& config, HuggingFaceClass model) {
  const contract::ModelShape& shape = config.shape;
  Json json;
  json["architectures"] = {name_of(model)};
  json["model_type"] = "bert";
  json["vocab_size"] = shape.vocabulary;
  json["hidden_size"] = shape.hidden;
  json["num_hidden_layers"] = shape.layers;
  json["num_attention_heads"] = shape.heads;
  json["intermediate_size"] = shape.feed_forward;
  json["hidden_act"] = shape.gelu == contract::Gelu::Tanh ? "gelu_new" : "gelu";
  json["hidden_dropout_prob"] = config.dropout;
  json["attention_probs_dropout_prob"] = config.attention_dropout;
  json["max_position_embeddings"] = shape.max_positions;
  json["position_embedding_type"] = "absolute";
  json["type_vocab_size"] = shape.token_types;
  json["initializer_range"] = kInitializerRange;
  // 1e-12, and not the digits of the float's widening to a double.
  char epsilon[32];
  std::snprintf(epsilon, sizeof epsilon, "%.6g", static_cast<double>(shape.layer_norm_epsilon));
  json["layer_norm_eps"] = base::parse_json<Json>(epsilon);
  json["pad_token_id"] = config.pad;
  json["tie_word_embeddings"] = true;
  json["torch_dtype"] = "float32";
  if (model == HuggingFaceClass::ForSequenceClassification) describe_labels(config, &json);
  return dumped(json);
}

HuggingFaceConfig parse_config(const std::string& text, const std::string& source) {
  const Json json = parse_object(text, source);
  const ConfigReader reader(json, source);
  const std::string type = reader.text("model_type", "bert");
  if (type != "bert") {
    reader.fail("model_type",
                "is '" + base::printable(type.substr(0, 40)) + "'; only bert can be imported");
  }
  reader.must_be_off("is_decoder");
  reader.must_be_off("add_cross_attention");
  reader.must_be_off("is_encoder_decoder");
  const std::string positions = reader.text("position_embedding_type", "absolute");
  if (positions != "absolute") {
    reader.fail("position_embedding_type", "is '" + base::printable(positions.substr(0, 40)) +
                                               "'; only absolute positions can be imported");
  }
  HuggingFaceConfig config;
  contract::ModelShape& shape = config.shape;
  shape.vocabulary = reader.size("vocab_size");
  shape.hidden = reader.size("hidden_size");
  shape.layers = reader.size("num_hidden_layers");
  shape.heads = reader.size("num_attention_heads");
  shape.feed_forward = reader.size("intermediate_size");
  shape.max_positions = reader.size("max_position_embeddings", 512);
  shape.token_types = reader.size("type_vocab_size", 2);
  shape.gelu = gelu_of(reader);
  shape.layer_norm_epsilon = static_cast<float>(reader.number("layer_norm_eps", 1e-12, 1));
  config.dropout = reader.number("hidden_dropout_prob", 0.1, 1);
  config.attention_dropout = reader.number("attention_probs_dropout_prob", 0.1, 1);
  config.pad = reader.size("pad_token_id", 0);
  config.architecture = architecture_of(reader);
  if (config.architecture.empty() || config.architecture == kSequenceClassifier) {
    config.labels = labels_of(reader);
    config.problem_type = reader.text("problem_type", "");
  }
  try {
    contract::check_shape(shape);
  } catch (const base::Error& error) {
    throw base::Error(base::Code::User, source + ": " + error.what());
  }
  if (shape.vocabulary == 0) reader.fail("vocab_size", "is 0; a model has pieces");
  return config;
}

std::optional<std::string> exported_name(const std::string& tensor, HuggingFaceClass model) {
  if (model == HuggingFaceClass::ForPreTraining) return tensor;
  if (model == HuggingFaceClass::ForQuestionAnswering) {
    if (tensor.starts_with(kQuestionPrefix)) return tensor;
    if (tensor.starts_with(kPoolerPrefix)) return std::nullopt;  // add_pooling_layer=False
  }
  const bool classifier = model == HuggingFaceClass::ForSequenceClassification;
  if (classifier && tensor.starts_with(kClassifierPrefix)) return tensor;
  if (!tensor.starts_with(kEncoderPrefix)) return std::nullopt;
  if (model != HuggingFaceClass::Encoder) return tensor;
  return tensor.substr(sizeof kEncoderPrefix - 1);
}

std::vector<std::string> imported_names(const std::string& tensor) {
  std::vector<std::string> names{tensor};
  if (tensor.starts_with(kEncoderPrefix)) {
    names.push_back(tensor.substr(sizeof kEncoderPrefix - 1));
  }
  for (std::size_t i = 0, count = names.size(); i < count; ++i) {
    if (auto old = with_other_end(names[i], "LayerNorm.weight", "LayerNorm.gamma")) {
      names.push_back(*old);
    }
    if (auto old = with_other_end(names[i], "LayerNorm.bias", "LayerNorm.beta")) {
      names.push_back(*old);
    }
  }
  if (tensor == "cls.predictions.bias") names.emplace_back("cls.predictions.decoder.bias");
  if (tensor == "bert.embeddings.word_embeddings.weight") {
    names.emplace_back("cls.predictions.decoder.weight");
  }
  return names;
}

bool is_per_piece(const std::string& tensor) {
  return tensor == "bert.embeddings.word_embeddings.weight" || tensor == "cls.predictions.bias";
}

std::string tokenizer_config_json(bool lower_case, int max_length) {
  Json json;
  json["tokenizer_class"] = "BertTokenizer";
  json["do_lower_case"] = lower_case;
  json["do_basic_tokenize"] = true;
  json["strip_accents"] = nullptr;  // as do_lower_case says
  json["tokenize_chinese_chars"] = true;
  json["model_max_length"] = max_length;
  json.update(base::parse_json<Json>(special_tokens_json()));
  return dumped(json);
}

std::string special_tokens_json() {
  Json json;
  json["unk_token"] = "[UNK]";
  json["sep_token"] = "[SEP]";
  json["pad_token"] = "[PAD]";
  json["cls_token"] = "[CLS]";
  json["mask_token"] = "[MASK]";
  return dumped(json);
}

std::optional<bool> lower_case_of(const std::string& text, const std::string& source) {
  const Json json = parse_object(text, source);
  const auto it = json.find("do_lower_case");
  if (it == json.end() || !it->is_boolean()) return std::nullopt;
  return it->get<bool>();
}

}  // namespace regatta::trainer::interchange
