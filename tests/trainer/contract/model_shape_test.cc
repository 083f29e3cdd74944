#include "trainer/contract/model_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer {
namespace {

contract::ModelShape shape_of(const std::string& preset, int vocabulary) {
  contract::ModelShape shape = contract::preset_shape(preset);
  shape.vocabulary = vocabulary;
  return shape;
}

TEST(Preset, Sizes) {
  struct Row {
    const char* name;
    int layers, hidden, heads, feed_forward;
  };
  for (const Row& row : {Row{"tiny", 2, 128, 2, 512}, Row{"mini", 4, 256, 4, 1024},
                         Row{"small", 4, 512, 8, 2048}, Row{"medium", 8, 512, 8, 2048},
                         Row{"base", 12, 768, 12, 3072}, Row{"large", 24, 1024, 16, 4096}}) {
    const contract::ModelShape shape = contract::preset_shape(row.name);
    EXPECT_EQ(shape.layers, row.layers) << row.name;
    EXPECT_EQ(shape.hidden, row.hidden) << row.name;
    EXPECT_EQ(shape.heads, row.heads) << row.name;
    EXPECT_EQ(shape.feed_forward, row.feed_forward) << row.name;
    EXPECT_EQ(shape.max_positions, 512) << row.name;
    EXPECT_NO_THROW(contract::check_shape(shape)) << row.name;
  }
  for (const char* bad : {"", "Base", "huge", "base "}) {
    EXPECT_THROW((void)contract::preset_shape(bad), base::Error) << bad;
  }
}

TEST(CheckShape, NamesImpossibleSizes) {
  struct Row {
    const char* name;
    void (*change)(contract::ModelShape&);
    const char* message;
  };
  const Row rows[] = {
      {"no layers", [](contract::ModelShape& s) { s.layers = 0; }, "layers is 0"},
      {"negative layers", [](contract::ModelShape& s) { s.layers = -1; }, "layers is -1"},
      {"many layers", [](contract::ModelShape& s) { s.layers = 1025; }, "layers is 1025"},
      {"no hidden", [](contract::ModelShape& s) { s.hidden = 0; }, "hidden is 0"},
      {"odd hidden", [](contract::ModelShape& s) { s.hidden = 100; }, "multiple of 8"},
      {"heads", [](contract::ModelShape& s) { s.heads = 3; },
       "heads (3) does not divide hidden (128)"},
      {"no heads", [](contract::ModelShape& s) { s.heads = 0; }, "heads is 0"},
      {"feed_forward", [](contract::ModelShape& s) { s.feed_forward = -4; }, "feed_forward is -4"},
      {"positions", [](contract::ModelShape& s) { s.max_positions = 4097; },
       "max_positions is 4097"},
      {"vocabulary", [](contract::ModelShape& s) { s.vocabulary = -1; }, "a vocabulary of -1"},
      {"large vocabulary", [](contract::ModelShape& s) { s.vocabulary = 1 << 25; },
       "a vocabulary of"},
      {"token types", [](contract::ModelShape& s) { s.token_types = 0; }, "token_types is 0"},
  };
  for (const Row& row : rows) {
    contract::ModelShape shape;
    row.change(shape);
    try {
      contract::check_shape(shape);
      ADD_FAILURE() << row.name << " accepted";
    } catch (const base::Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(row.message)) << row.name;
    }
  }
}

TEST(TensorTable, ParameterCountsOfThePublishedModels) {
  EXPECT_EQ(contract::make_tensor_table(shape_of("base", 30522)).parameter_count, 110'106'428);
  EXPECT_EQ(contract::make_tensor_table(shape_of("large", 30522)).parameter_count, 336'226'108);
}

TEST(TensorTable, CountsByHand) {
  // Embeddings (V + 512 + 2 + 2)·h; a layer 4(h² + h) + 2hf + f + h + 4h; heads: pooler h² + h,
  // transform h² + h + 2h, decoder bias V, next sentence 2h + 2.
  for (const char* preset : {"tiny", "mini", "small", "medium", "base", "large"}) {
    const contract::ModelShape shape = shape_of(preset, 1000);
    const std::int64_t h = shape.hidden;
    const std::int64_t f = shape.feed_forward;
    const std::int64_t layer = 4 * (h * h + h) + 2 * h * f + f + h + 4 * h;
    const std::int64_t expected = (1000 + 512 + 2 + 2) * h + shape.layers * layer + (h * h + h) +
                                  (h * h + 3 * h) + 1000 + (2 * h + 2);
    EXPECT_EQ(contract::make_tensor_table(shape).parameter_count, expected) << preset;
  }
}

TEST(TensorTable, OffsetsAreAlignedAndDoNotOverlap) {
  contract::ModelShape shape =
      shape_of("tiny", 1001);  // an odd vocabulary leaves padding behind its bias
  shape.hidden = 24;
  shape.heads = 3;
  const contract::TensorTable table = contract::make_tensor_table(shape);
  std::int64_t end = 0;
  std::int64_t parameters = 0;
  std::set<std::string> names;
  for (const contract::TensorEntry& tensor : table.tensors) {
    EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    EXPECT_GE(tensor.offset, end) << tensor.name;
    EXPECT_LT(tensor.offset - end, contract::kArenaAlignment) << tensor.name << " leaves a hole";
    const bool joined = tensor.name.find("self.key") != std::string::npos ||
                        tensor.name.find("self.value") != std::string::npos;
    EXPECT_EQ(joined ? tensor.offset - end : tensor.offset % contract::kArenaAlignment, 0)
        << tensor.name;
    std::int64_t size = 1;
    for (const std::int64_t dimension : tensor.shape) size *= dimension;
    EXPECT_EQ(tensor.size, size) << tensor.name;
    const bool matrix = tensor.shape.size() == 2;
    EXPECT_EQ(tensor.weight_decay, matrix) << tensor.name;
    EXPECT_EQ(tensor.trust_ratio, matrix) << tensor.name;
    end = tensor.offset + tensor.size;
    parameters += size;
  }
  EXPECT_EQ(parameters, table.parameter_count);
  EXPECT_EQ(table.arena_size % contract::kArenaAlignment, 0);
  EXPECT_GE(table.arena_size, end);
  // Behind the word embedding there is room for the rows that round the vocabulary up, and behind
  // the decoder's bias for as many elements.
  EXPECT_EQ(contract::vocabulary_rows(shape), 1024);
  EXPECT_EQ(table.tensors.back().name, "bert.embeddings.word_embeddings.weight");
  EXPECT_GE(table.arena_size, table.tensors.back().offset + 1024 * 24);
  EXPECT_LT(table.arena_size, table.tensors.back().offset + 1024 * 24 + contract::kArenaAlignment);
  const contract::TensorEntry& bias = table.at("cls.predictions.bias");
  EXPECT_GE((&bias + 1)->offset, bias.offset + 1024);
  EXPECT_EQ(names.size(), 5U * 2 - 1 + 2U * 16 + 2 + 3);  // heads, layers, embeddings
}

TEST(TensorTable, IsInTheOrderOfTheBackwardPass) {
  const contract::TensorTable table = contract::make_tensor_table(shape_of("tiny", 50));
  std::vector<std::string> names;
  for (const contract::TensorEntry& tensor : table.tensors) names.push_back(tensor.name);
  const auto place = [&](const std::string& name) {
    const auto it = std::find(names.begin(), names.end(), name);
    EXPECT_NE(it, names.end()) << name;
    return it - names.begin();
  };
  EXPECT_LT(place("cls.seq_relationship.weight"), place("bert.pooler.dense.weight"));
  EXPECT_LT(place("cls.predictions.bias"), place("cls.predictions.transform.dense.weight"));
  EXPECT_LT(place("cls.predictions.transform.dense.weight"),
            place("bert.encoder.layer.1.output.LayerNorm.weight"));
  EXPECT_LT(place("bert.encoder.layer.1.attention.self.query.weight"),
            place("bert.encoder.layer.0.output.dense.weight"));
  EXPECT_LT(place("bert.encoder.layer.0.intermediate.dense.weight"),
            place("bert.encoder.layer.0.attention.output.dense.weight"));
  EXPECT_EQ(names.back(), "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(table.at("bert.embeddings.word_embeddings.weight").shape,
            (std::vector<std::int64_t>{50, 128}));
  EXPECT_EQ(table.at("bert.encoder.layer.0.intermediate.dense.weight").shape,
            (std::vector<std::int64_t>{512, 128}));
}

TEST(TensorTableDeathTest, UnknownNamesAreBugs) {
  const contract::TensorTable table = contract::make_tensor_table(shape_of("tiny", 50));
  EXPECT_DEATH((void)table.at("bert.nothing"), "has an entry bert.nothing");
  EXPECT_DEATH((void)contract::make_tensor_table(contract::preset_shape("tiny")),
               "vocabulary is known");
}

TEST(TrainingFlops, AgreesWithThePublishedFigures) {
  // GF per sample, forward and backward, vocabulary padded to 30,528; lengths of the MLPerf mix:
  // mean 254.5, mean square 98,400, 38 masked positions.
  struct Row {
    const char* name;
    const char* preset;
    double length, square, masked, gigaflops;
  };
  const Row rows[] = {
      {"large, MLPerf mix", "large", 254.5, 98'400, 38, 497.5},
      {"large, padded 512", "large", 512, 512 * 512, 76, 1019.8},
      {"large, head on all", "large", 512, 512 * 512, 512, 1104.3},
      {"large, padded 128", "large", 128, 128 * 128, 20, 240.6},
      {"base, MLPerf mix", "base", 254.5, 98'400, 38, 146.1},
      {"base, head on all", "base", 512, 512 * 512, 512, 363.8},
  };
  constexpr int kSamples = 1000;
  for (const Row& row : rows) {
    contract::BatchSizes batch;
    batch.samples = kSamples;
    batch.tokens = static_cast<std::int64_t>(row.length * kSamples);
    batch.squared_tokens = static_cast<std::int64_t>(row.square * kSamples);
    batch.masked = static_cast<std::int64_t>(row.masked * kSamples);
    const double figure =
        contract::training_flops(shape_of(row.preset, 30528), batch) / kSamples / 1e9;
    EXPECT_NEAR(figure, row.gigaflops, 0.06 + 0.0005 * row.gigaflops) << row.name;
  }
}

TEST(TrainingFlops, IsLinearInItsSums) {
  const contract::ModelShape shape = shape_of("base", 30528);
  // One token forward through the dense layers of base: 169.9 MF; one masked position: 48.1 MF; a
  // squared token: 36,864.
  EXPECT_NEAR(contract::training_flops(shape, {0, 1, 0, 0}) / 3, 169.9e6, 0.05e6);
  EXPECT_NEAR(contract::training_flops(shape, {0, 0, 0, 1}) / 3, 48.1e6, 0.05e6);
  EXPECT_EQ(contract::training_flops(shape, {0, 0, 1, 0}) / 3, 36'864);
  EXPECT_EQ(contract::training_flops(shape, {1, 0, 0, 0}) / 3, 2.0 * 768 * 768 + 4 * 768);
  EXPECT_EQ(contract::training_flops(shape, {}), 0);
  EXPECT_DOUBLE_EQ(contract::training_flops(shape, {2, 30, 500, 4}),
                   2 * contract::training_flops(shape, {1, 15, 250, 2}));
}

TEST(ModelFingerprint, ChangesWithWhateverChangesTheWeights) {
  const contract::ModelShape original = shape_of("base", 30522);
  std::set<std::string> seen{contract::model_fingerprint(original)};
  EXPECT_EQ(contract::model_fingerprint(shape_of("base", 30522)), *seen.begin());
  EXPECT_EQ(seen.begin()->size(), 32U);
  void (*const changes[])(contract::ModelShape&) = {
      [](contract::ModelShape& s) { s.layers = 13; },
      [](contract::ModelShape& s) { s.hidden = 1536; },
      [](contract::ModelShape& s) { s.heads = 6; },
      [](contract::ModelShape& s) { s.feed_forward = 3080; },
      [](contract::ModelShape& s) { s.vocabulary = 30528; },
      [](contract::ModelShape& s) { s.max_positions = 128; },
      [](contract::ModelShape& s) { s.token_types = 3; },
      [](contract::ModelShape& s) { s.gelu = contract::Gelu::Tanh; },
      [](contract::ModelShape& s) { s.layer_norm_epsilon = 1e-5F; }};
  for (const auto change : changes) {
    contract::ModelShape shape = original;
    change(shape);
    EXPECT_TRUE(seen.insert(contract::model_fingerprint(shape)).second);
  }
}

}  // namespace
}  // namespace regatta::trainer
