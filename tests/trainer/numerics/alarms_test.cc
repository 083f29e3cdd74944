#include "trainer/numerics/alarms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace regatta::trainer {
namespace {

using numerics::Alarms;
using numerics::LayerUpdate;

// 0.001 for each layer, but `ratio` for one.
std::vector<LayerUpdate> layers_with(const std::string& name, double ratio) {
  std::vector<LayerUpdate> layers;
  for (const char* layer : {"the head", "layer 1", "layer 0", "the embeddings"}) {
    const double here = layer == name ? ratio : 0.001;
    layers.push_back({layer, here * here * 4, 4});
  }
  return layers;
}

Alarms after_usual_steps(int steps) {
  Alarms alarms;
  for (int step = 1; step <= steps; ++step) {
    EXPECT_TRUE(alarms.observe(step, 2, layers_with("", 0)).empty()) << step;
  }
  return alarms;
}

TEST(Alarms, TellANormWithWhatIsUsual) {
  Alarms alarms = after_usual_steps(60);
  const auto told = alarms.observe(61, 50, layers_with("", 0));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].kind, "gradient_norm");
  EXPECT_EQ(told[0].step, 61);
  EXPECT_EQ(told[0].layer, "");
  EXPECT_EQ(told[0].value, 50);
  EXPECT_NEAR(told[0].usual, 2, 1e-12);
  EXPECT_NEAR(told[0].deviation, std::log(25.0) / numerics::UsualRange::kLeastSpread, 1e-9);
  EXPECT_EQ(told[0].message,
            "The gradient's norm was 50 at step 61, 25 times the usual 2. Check the learning rate "
            "and the data of this step.");
}

TEST(Alarms, NameTheLayerThatIsFurthestOut) {
  Alarms alarms = after_usual_steps(60);
  std::vector<LayerUpdate> layers = layers_with("layer 0", 0.05);
  layers[0].change *= 100;
  const auto told = alarms.observe(61, 2, layers);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].kind, "update_ratio");
  EXPECT_EQ(told[0].layer, "layer 0");
  EXPECT_NEAR(told[0].value, 0.05, 1e-12);
  EXPECT_NEAR(told[0].usual, 0.001, 1e-12);
  EXPECT_NE(told[0].message.find("The update of layer 0, relative to its weights, was 0.05 at"),
            std::string::npos)
      << told[0].message;
}

TEST(Alarms, TellAnExcursionOnce) {
  Alarms alarms = after_usual_steps(60);
  EXPECT_EQ(alarms.observe(61, 50, {}).size(), 1U);
  EXPECT_EQ(alarms.observe(62, 60, {}).size(), 0U) << "it goes on";
  EXPECT_EQ(alarms.observe(63, 2, {}).size(), 0U);
  EXPECT_EQ(alarms.observe(64, 60, {}).size(), 1U) << "the next one";
}

TEST(Alarms, AreQuietAtTheStartAndOfWhatIsNoNumber) {
  Alarms alarms;
  for (std::size_t i = 0; i < numerics::UsualRange::kLeast; ++i) {
    EXPECT_TRUE(
        alarms.observe(static_cast<int>(i), std::exp(static_cast<double>(i % 7)), {}).empty());
  }
  Alarms later = after_usual_steps(60);
  EXPECT_TRUE(
      later.observe(61, std::numeric_limits<double>::infinity(), {{"the head", 0, 0}}).empty());
}

TEST(Alarms, TheWholeRatioIsOfAllWeights) {
  EXPECT_DOUBLE_EQ(numerics::update_ratio({{"a", 9, 100}, {"b", 16, 300}}), std::sqrt(25.0 / 400));
  EXPECT_TRUE(std::isnan(numerics::update_ratio({})));
}

}  // namespace
}  // namespace regatta::trainer
