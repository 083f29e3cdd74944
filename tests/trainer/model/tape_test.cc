// The oracle itself against central differences.
#include "tests/trainer/model/tape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace regatta::tests {
namespace {

using Build = std::function<Node*(Tape&, const std::vector<Node*>&)>;

struct Shape {
  std::size_t rows, columns;
};

std::vector<double> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(count);
  for (double& value : values) value = normal(random);
  return values;
}

// Runs `build` on random inputs, folds its output into a scalar with fixed weights, and compares
// every input's gradient with central differences.
void check_gradients(const std::vector<Shape>& shapes, const Build& build) {
  std::vector<std::vector<double>> inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back(
        random_values(shapes[i].rows * shapes[i].columns, 7 + static_cast<unsigned>(i)));
  }
  const auto evaluate = [&](std::vector<std::vector<double>>* gradients) {
    Tape tape;
    std::vector<Node*> nodes;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      nodes.push_back(tape.input(shapes[i].rows, shapes[i].columns, inputs[i]));
    }
    Node* out = build(tape, nodes);
    // Σ sin(k)·out_k as a linear node of one row.
    std::vector<double> weights;
    for (std::size_t k = 0; k < out->value.size(); ++k)
      weights.push_back(std::sin(1.0 + static_cast<double>(k)));
    Node* scaled = tape.scale_elements(out, weights);
    double sum = 0;
    for (const double value : scaled->value) sum += value;
    if (gradients != nullptr) {
      Node* one = tape.input(1, scaled->columns, std::vector<double>(scaled->columns, 1.0));
      Node* zero = tape.input(1, 1, {0.0});
      Node* rows = tape.linear(scaled, one, zero);  // [rows, 1]
      std::vector<Node*> parts;
      for (std::size_t r = 0; r < rows->rows; ++r)
        parts.push_back(tape.gather(rows, {static_cast<int>(r)}));
      Node* total = parts[0];
      for (std::size_t r = 1; r < parts.size(); ++r) total = tape.add(total, parts[r]);
      tape.backward(total);
      for (const Node* node : nodes) gradients->push_back(node->gradient);
    }
    return sum;
  };
  std::vector<std::vector<double>> gradients;
  evaluate(&gradients);
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t e = 0; e < inputs[i].size(); ++e) {
      const double value = inputs[i][e];
      inputs[i][e] = value + kStep;
      const double up = evaluate(nullptr);
      inputs[i][e] = value - kStep;
      const double down = evaluate(nullptr);
      inputs[i][e] = value;
      const double numeric = (up - down) / (2 * kStep);
      EXPECT_NEAR(gradients[i][e], numeric, 1e-7 * (1 + std::abs(numeric)))
          << "input " << i << " element " << e;
    }
  }
}

TEST(Tape, Linear) {
  check_gradients({{3, 4}, {5, 4}, {1, 5}},
                  [](Tape& t, const auto& n) { return t.linear(n[0], n[1], n[2]); });
}
TEST(Tape, GeluErf) {
  check_gradients({{3, 4}}, [](Tape& t, const auto& n) { return t.gelu(n[0], false); });
}
TEST(Tape, GeluTanh) {
  check_gradients({{3, 4}}, [](Tape& t, const auto& n) { return t.gelu(n[0], true); });
}
TEST(Tape, Tanh) {
  check_gradients({{3, 4}}, [](Tape& t, const auto& n) { return t.tanh(n[0]); });
}
TEST(Tape, LayerNorm) {
  check_gradients({{3, 6}, {1, 6}, {1, 6}},
                  [](Tape& t, const auto& n) { return t.layer_norm(n[0], n[1], n[2], 1e-6); });
}
TEST(Tape, Attention) {
  check_gradients({{4, 3}, {4, 3}, {4, 3}}, [](Tape& t, const auto& n) {
    std::vector<double> factors(16, 1.25);
    factors[3] = factors[8] = 0;
    return t.attention(n[0], n[1], n[2], 0.6, factors);
  });
}
TEST(Tape, CrossEntropy) {
  check_gradients({{3, 5}}, [](Tape& t, const auto& n) {
    return t.cross_entropy(n[0], {4, 0, 2}, 0.5);
  });
}
TEST(Tape, Rearrangements) {
  check_gradients({{4, 6}, {4, 2}}, [](Tape& t, const auto& n) {
    Node* joined = t.join_columns({t.columns(n[0], 1, 3), n[1]});
    return t.join_rows({t.gather(joined, {0, 2, 2}), t.add(joined, joined)});
  });
}

}  // namespace
}  // namespace regatta::tests
