// The first weights: their distribution, and each element by its formula, on any number of threads.
#include "trainer/model/initial_weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "trainer/contract/random_site.h"

namespace regatta::tests {
namespace {

using namespace regatta::trainer;  // the subject

TEST(InitialWeights, AreCutNormalAndDependOnTheSeedOnly) {
  contract::ModelShape shape = contract::preset_shape("tiny");
  shape.vocabulary = 2000;
  const contract::TensorTable table = contract::make_tensor_table(shape);
  const std::vector<float> a = model::initial_weights(table, 1);
  EXPECT_EQ(a, model::initial_weights(table, 1));
  EXPECT_NE(a, model::initial_weights(table, 2));
  const contract::TensorEntry& word = table.at("bert.embeddings.word_embeddings.weight");
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < word.size; ++i) {
    const double value = static_cast<double>(a[static_cast<std::size_t>(word.offset + i)]);
    ASSERT_LE(std::abs(value), 0.04 + 1e-7);
    sum += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(word.size);
  EXPECT_NEAR(sum / n, 0.0, 5 * 0.02 / std::sqrt(n));
  // A normal distribution cut at two deviations has 0.8796 of its deviation left.
  EXPECT_NEAR(std::sqrt(squares / n), 0.02 * 0.8796, 2e-4);
  EXPECT_EQ(a[static_cast<std::size_t>(table.at("bert.embeddings.LayerNorm.weight").offset)], 1.0F);
  EXPECT_EQ(a[static_cast<std::size_t>(table.at("cls.predictions.bias").offset)], 0.0F);
}

// By the header: element e of tensor i is Box–Muller of philox(seed, {e, i, try, Initialisation}),
// the first try within two deviations. A thread's share of a tensor is a range of its elements, so
// wherever ranges begin every element must still know its number.
float by_formula(std::uint64_t seed, std::uint32_t element, std::uint32_t tensor) {
  for (std::uint32_t attempt = 0;; ++attempt) {
    const base::PhiloxCounter bits =
        base::philox(seed, {element, tensor, attempt,
                            static_cast<std::uint32_t>(contract::RandomSite::Initialisation)});
    const double u = (static_cast<double>(bits[0]) + 1) / 4294967296.0;
    const double turn = static_cast<double>(bits[1]) / 4294967296.0;
    const double value = std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * turn);
    if (std::abs(value) <= 2) return static_cast<float>(0.02 * value);
  }
}

TEST(InitialWeights, AreTheSameBitsOnAnyNumberOfThreads) {
  contract::ModelShape shape = contract::preset_shape("tiny");
  shape.vocabulary = 1000;  // 128,000 elements: several threads' shares, the last one short
  const contract::TensorTable table = contract::make_tensor_table(shape);
  const std::vector<float> alone = model::initial_weights(table, 5);
  for (std::size_t tensor = 0; tensor < table.tensors.size(); ++tensor) {
    const contract::TensorEntry& entry = table.tensors[tensor];
    if (!entry.weight_decay) continue;
    for (std::int64_t e = 0; e < entry.size; ++e) {
      ASSERT_EQ(alone[static_cast<std::size_t>(entry.offset + e)],
                by_formula(5, static_cast<std::uint32_t>(e), static_cast<std::uint32_t>(tensor)))
          << entry.name << "[" << e << "]";
    }
  }
  for (const int threads : {2, 3, 16}) EXPECT_EQ(model::initial_weights(table, 5, threads), alone);
}

}  // namespace
}  // namespace regatta::tests
