// config.json, names and tokenizer files, without weights.
#include "trainer/interchange/hugging_face.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject
using nlohmann::json;

interchange::HuggingFaceConfig odd_config() {
  interchange::HuggingFaceConfig config;
  config.shape = {3, 48, 6, 96, 101, 77, 3, contract::Gelu::Tanh, 1e-5F};
  config.dropout = 0.25;
  config.attention_dropout = 0;
  config.pad = 4;
  return config;
}

TEST(HuggingFaceConfig, ComesBackAsWritten) {
  const interchange::HuggingFaceConfig config = odd_config();
  const interchange::HuggingFaceConfig read = interchange::parse_config(
      interchange::config_json(config, interchange::HuggingFaceClass::ForPreTraining),
      "config.json");
  EXPECT_EQ(read.shape.layers, 3);
  EXPECT_EQ(read.shape.hidden, 48);
  EXPECT_EQ(read.shape.heads, 6);
  EXPECT_EQ(read.shape.feed_forward, 96);
  EXPECT_EQ(read.shape.vocabulary, 101);
  EXPECT_EQ(read.shape.max_positions, 77);
  EXPECT_EQ(read.shape.token_types, 3);
  EXPECT_EQ(read.shape.gelu, contract::Gelu::Tanh);
  EXPECT_EQ(read.shape.layer_norm_epsilon, 1e-5F);
  EXPECT_EQ(read.dropout, 0.25);
  EXPECT_EQ(read.attention_dropout, 0);
  EXPECT_EQ(read.pad, 4);
}

TEST(HuggingFaceConfig, SaysWhatTransformersAskFor) {
  const json config = json::parse(interchange::config_json({contract::preset_shape("base")},
                                                           interchange::HuggingFaceClass::Encoder));
  EXPECT_EQ(config.at("architectures"), json({"BertModel"}));
  EXPECT_EQ(config.at("model_type"), "bert");
  EXPECT_EQ(config.at("hidden_act"), "gelu");
  EXPECT_EQ(config.at("layer_norm_eps").dump(), "1e-12");
  EXPECT_EQ(config.at("tie_word_embeddings"), true);
  EXPECT_EQ(config.at("num_attention_heads"), 12);
}

TEST(HuggingFaceConfig, DefaultsAreThoseOfTransformers) {
  const interchange::HuggingFaceConfig config = interchange::parse_config(
      R"({"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
          "intermediate_size": 8, "classifier_dropout": null, "layer_norm_eps": null,
          "unheard_of": [[1]]})",
      "config.json");
  EXPECT_EQ(config.shape.max_positions, 512);
  EXPECT_EQ(config.shape.token_types, 2);
  EXPECT_EQ(config.shape.gelu, contract::Gelu::Erf);
  EXPECT_EQ(config.shape.layer_norm_epsilon, 1e-12F);
  EXPECT_EQ(config.dropout, 0.1);
}

// Written as `transformers` 4 and 5 write them; the first lack what is standard.
TEST(HuggingFaceConfig, TellsTheTaskOfAClassifier) {
  using contract::Task;
  struct Case {
    const char* keys;
    std::vector<std::string> labels;
    std::optional<Task> task;
  };
  const Case kCases[] = {
      {"{}", {"LABEL_0", "LABEL_1"}, Task::Classification},
      {R"({"num_labels": 3})", {"LABEL_0", "LABEL_1", "LABEL_2"}, Task::Classification},
      {R"({"num_labels": 1})", {"LABEL_0"}, Task::Regression},
      {R"({"id2label": {"1": "good", "0": "bad"}})", {"bad", "good"}, Task::Classification},
      {R"({"id2label": {"0": "bad", "1": "good"}, "num_labels": 7})",
       {"bad", "good"},
       Task::Classification},
      {R"({"id2label": {"0": "LABEL_0"}, "problem_type": "regression"})",
       {"LABEL_0"},
       Task::Regression},
      {R"({"problem_type": "single_label_classification"})",
       {"LABEL_0", "LABEL_1"},
       Task::Classification},
      {R"({"problem_type": "regression"})", {"LABEL_0", "LABEL_1"}, std::nullopt},
      {R"({"problem_type": "multi_label_classification"})", {"LABEL_0", "LABEL_1"}, std::nullopt},
      {R"({"problem_type": "ranking"})", {"LABEL_0", "LABEL_1"}, std::nullopt},
      {R"({"num_labels": 1, "problem_type": "single_label_classification"})",
       {"LABEL_0"},
       std::nullopt},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.keys);
    json config = json::parse(
        interchange::config_json(odd_config(), interchange::HuggingFaceClass::ForPreTraining));
    config["architectures"] = {"BertForSequenceClassification"};
    config.update(json::parse(c.keys));
    const auto read = interchange::parse_config(config.dump(), "config.json");
    EXPECT_EQ(read.labels, c.labels);
    EXPECT_EQ(interchange::task_of_classifier(read), c.task);
  }
}

struct BadConfig {
  const char* name;
  const char* change;  // merged into a good one
  const char* says;
};

TEST(HuggingFaceConfig, RefusesWhatItCannotCompute) {
  const BadConfig kCases[] = {
      {"another model", R"({"model_type": "roberta"})", "model_type is 'roberta'"},
      {"type is not a string", R"({"model_type": 3})", "model_type is '3', not text"},
      {"relu", R"({"hidden_act": "relu"})", "hidden_act is 'relu'"},
      {"activation is a list", R"({"hidden_act": ["gelu"]})", "not text"},
      {"relative positions", R"({"position_embedding_type": "relative_key"})", "absolute"},
      {"decoder", R"({"is_decoder": true})", "is_decoder"},
      {"cross attention", R"({"add_cross_attention": 1})", "add_cross_attention"},
      {"size missing", R"({"hidden_size": null})", "hidden_size is missing"},
      {"size negative", R"({"hidden_size": -8})", "hidden_size is '-8'"},
      {"size a fraction", R"({"hidden_size": 8.5})", "hidden_size is '8.5'"},
      {"size as text", R"({"vocab_size": "9"})", "vocab_size"},
      {"size beyond 32 bits", R"({"vocab_size": 4294967296})", "vocab_size"},
      {"size beyond 64 bits", R"({"num_hidden_layers": 1e300})", "num_hidden_layers"},
      {"no layers", R"({"num_hidden_layers": 0})", "layers is 0"},
      {"too many layers", R"({"num_hidden_layers": 2000000000})", "layers is 2000000000"},
      {"heads do not divide", R"({"num_attention_heads": 5})", "heads (5)"},
      {"no pieces", R"({"vocab_size": 0})", "vocab_size is 0"},
      {"epsilon is text", R"({"layer_norm_eps": "tiny"})", "layer_norm_eps"},
      {"epsilon below 0", R"({"layer_norm_eps": -1})", "layer_norm_eps"},
      {"dropout of all", R"({"hidden_dropout_prob": 1})", "hidden_dropout_prob"},
      {"another architecture", R"({"model_type": null, "architectures": ["RobertaModel"]})",
       "architectures names 'RobertaModel'"},
      {"architectures are a number", R"({"architectures": 3})", "architectures is '3'"},
      {"an architecture is a number", R"({"architectures": [3]})", "not a list of names"},
      {"labels are a list", R"({"architectures": [], "id2label": ["a", "b"]})", "id2label is"},
      {"no labels", R"({"architectures": [], "id2label": {}})", "id2label gives 0 labels"},
      {"a gap in the labels", R"({"architectures": [], "id2label": {"0": "a", "2": "b"}})",
       "no name for label 1 of 2"},
      {"a label is a number", R"({"architectures": [], "id2label": {"0": 1}})",
       "no name for label 0"},
      {"more labels than a classifier has", R"({"architectures": [], "num_labels": 1025})",
       "num_labels gives 1025 labels"},
      {"the kind of problem is a list", R"({"architectures": [], "problem_type": []})",
       "problem_type"},
      {"terminal escapes", "{\"hidden_act\": \"\\u001b[2J\\n\"}", "\\x1b[2J\\n"},
  };
  for (const BadConfig& c : kCases) {
    SCOPED_TRACE(c.name);
    json config = json::parse(
        interchange::config_json(odd_config(), interchange::HuggingFaceClass::ForPreTraining));
    config.update(json::parse(c.change));
    try {
      (void)interchange::parse_config(config.dump(), "dir/config.json");
      ADD_FAILURE() << "accepted";
    } catch (const base::Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.code(), base::Code::User);
      EXPECT_NE(message.find(c.says), std::string::npos) << message;
      EXPECT_EQ(message.find("dir/config.json"), 0U) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos);
    }
  }
}

TEST(HuggingFaceConfig, RefusesWhatIsNoObject) {
  const std::string kTexts[] = {"",
                                "[]",
                                "12",
                                "{",
                                "{}x",
                                std::string("{}\0", 3),
                                "\xFF",
                                std::string(100000, '['),
                                std::string(100000, '{')};
  for (const std::string& text : kTexts) {
    EXPECT_THROW((void)interchange::parse_config(text, "config.json"), base::Error)
        << text.substr(0, 20);
    EXPECT_THROW((void)interchange::lower_case_of(text, "tokenizer_config.json"), base::Error);
  }
}

TEST(HuggingFaceNames, EveryTensorHasOneThatIsRead) {
  const contract::TensorTable table = contract::make_tensor_table(odd_config().shape);
  std::set<std::string> all;
  for (const contract::TensorEntry& entry : table.tensors) {
    const auto name =
        interchange::exported_name(entry.name, interchange::HuggingFaceClass::ForPreTraining);
    EXPECT_EQ(name, entry.name);
    const std::vector<std::string> names = interchange::imported_names(entry.name);
    EXPECT_EQ(names.front(), entry.name);
    for (const std::string& known : names) {
      EXPECT_TRUE(all.insert(known).second) << known << " is two tensors' name";
    }
    const auto encoder =
        interchange::exported_name(entry.name, interchange::HuggingFaceClass::Encoder);
    EXPECT_TRUE(!encoder || std::find(names.begin(), names.end(), *encoder) != names.end());
  }
  for (const char* name :
       {"embeddings.word_embeddings.weight", "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias", "bert.embeddings.LayerNorm.gamma",
        "encoder.layer.2.output.LayerNorm.beta", "cls.predictions.transform.LayerNorm.gamma"}) {
    EXPECT_EQ(all.count(name), 1U) << name;
  }
}

TEST(HuggingFaceTokenizer, CaseComesBack) {
  for (const bool lower : {false, true}) {
    EXPECT_EQ(interchange::lower_case_of(interchange::tokenizer_config_json(lower, 64), "t"),
              lower);
  }
  EXPECT_EQ(interchange::lower_case_of("{}", "t"), std::nullopt);
  EXPECT_EQ(interchange::lower_case_of(R"({"do_lower_case": "yes"})", "t"), std::nullopt);
  const json special = json::parse(interchange::special_tokens_json());
  EXPECT_EQ(special.at("mask_token"), "[MASK]");
}

}  // namespace
}  // namespace regatta::tests
