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

TEST(Tape, SoftCrossEntropy) {
  check_gradients({{3, 4}}, [](Tape& t, const auto& n) {
    return t.soft_cross_entropy(n[0], {0.1, 0.2, 0.3, 0.4, 0, 0, 0, 0, 0, 0, 1, 0}, 0.7);
  });
  Tape tape;  // of one label it is the plain one
  const std::vector<double> logits = random_values(8, 3);
  EXPECT_NEAR(
      tape.soft_cross_entropy(tape.input(2, 4, logits), {0, 0, 1, 0, 1, 0, 0, 0}, 0.5)->value[0],
      tape.cross_entropy(tape.input(2, 4, logits), {2, 0}, 0.5)->value[0], 1e-14);
  // By hand: log 2 whatever the shares; a row of zeros adds nothing.
  EXPECT_NEAR(
      tape.soft_cross_entropy(tape.input(2, 2, {3, 3, 5, -5}), {0.25, 0.75, 0, 0}, 1)->value[0],
      std::log(2.0), 1e-14);
}
TEST(Tape, SquaredError) {
  check_gradients({{3, 1}}, [](Tape& t, const auto& n) {
    return t.squared_error(n[0], {0.5, std::nan(""), -2}, 0.3);
  });
  Tape tape;
  EXPECT_EQ(tape.squared_error(tape.input(3, 1, {1, 2, 3}), {3, std::nan(""), 2}, 0.5)->value[0],
            2.5);
}

// y = (3·x0, 3·x1, 3·x1) and then a norm, weighted with 1, 1, −1 a row: what each gradient is a sum
// of, by hand.
TEST(Tape, MagnitudesAreOfTheTermsOfAGradient) {
  const auto sum_of_rows = [](Tape& t, Node* y) {
    Node* one = t.input(1, y->columns, std::vector<double>(y->columns, 1.0));
    Node* rows = t.linear(t.scale_elements(y, y->columns == 1 ? std::vector<double>{1, 1, -1}
                                                              : std::vector<double>(4, 1.0)),
                          one, t.input(1, 1, {0.0}));
    Node* total = t.gather(rows, {0});
    for (int r = 1; r < static_cast<int>(rows->rows); ++r)
      total = t.add(total, t.gather(rows, {r}));
    t.backward(total);
  };
  Tape tape;
  Node* table = tape.input(2, 1, {1, -2});
  Node* weight = tape.input(1, 1, {3});
  Node* bias = tape.input(1, 1, {0});
  sum_of_rows(tape, tape.linear(tape.gather(table, {0, 1, 1}), weight, bias));
  EXPECT_EQ(weight->gradient, std::vector<double>{1});  // 1 − 2 + 2
  EXPECT_EQ(weight->magnitude, std::vector<double>{5});
  EXPECT_EQ(bias->gradient, std::vector<double>{1});  // 1 + 1 − 1
  EXPECT_EQ(bias->magnitude, std::vector<double>{3});
  EXPECT_EQ(table->gradient, (std::vector<double>{3, 0}));  // 3; 3 − 3
  EXPECT_EQ(table->magnitude, (std::vector<double>{3, 6}));
  Tape normal;
  Node* gamma = normal.input(1, 2, {1, 1});
  Node* beta = normal.input(1, 2, {0, 0});
  // Normalised: (−1, 1) and (1, −1).
  sum_of_rows(normal, normal.layer_norm(normal.input(2, 2, {0, 2, 4, 0}), gamma, beta, 0));
  EXPECT_EQ(gamma->gradient, (std::vector<double>{0, 0}));
  EXPECT_EQ(gamma->magnitude, (std::vector<double>{2, 2}));
  EXPECT_EQ(beta->gradient, (std::vector<double>{2, 2}));
  EXPECT_EQ(beta->magnitude, (std::vector<double>{2, 2}));
}
TEST(Tape, Rearrangements) {
  check_gradients({{4, 6}, {4, 2}}, [](Tape& t, const auto& n) {
    Node* joined = t.join_columns({t.columns(n[0], 1, 3), n[1]});
    return t.join_rows({t.gather(joined, {0, 2, 2}), t.add(joined, joined)});
  });
  check_gradients({{3, 2}}, [](Tape& t, const auto& n) { return t.row_of(n[0]); });
}

}  // namespace
}  // namespace regatta::tests
