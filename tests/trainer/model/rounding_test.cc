// Tape::rounding() against what it is about: the simplest float32 program of each operation. Over
// many random inputs, an error in units of u·√rounding has a deviation of 0.42 where every value is
// rounded correctly: a rounding is uniform within half a unit in the last place, which is between
// u/2 and u of the value (by Benford's law 0.54·u² is the mean of its square, and 1/3 of that the
// variance). It is less where a function could be wrong by a whole unit and is not, at most by
// half.
#include "tests/trainer/model/rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>

#include "tests/trainer/model/tape.h"

namespace regatta::tests {
namespace {

using Floats = std::vector<float>;
using Build = std::function<Node*(Tape&, const std::vector<Node*>&)>;
using Program = std::function<Floats(const std::vector<Floats>&)>;

struct Shape {
  std::size_t rows, columns;
};

constexpr std::size_t kRows = 5, kColumns = 12;

float dot(const float* a, std::size_t a_step, const float* b, std::size_t b_step,
          std::size_t count) {
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i * a_step] * b[i * b_step];
  return sum;
}

// The root mean square of the errors of random linear functions of the program's results.
double deviation(const std::vector<Shape>& shapes, const Build& build, const Program& program) {
  constexpr int kTrials = 400;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> binary_order;
  double squares = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const float scale = std::exp2(binary_order(random));
    Tape tape;
    std::vector<Floats> inputs;
    std::vector<Node*> nodes;
    for (const Shape& shape : shapes) {
      Floats& values = inputs.emplace_back(shape.rows * shape.columns);
      for (float& value : values) value = scale * normal(random);
      nodes.push_back(tape.input(shape.rows, shape.columns, {values.begin(), values.end()}));
    }
    Node* const exact = build(tape, nodes);
    const Floats found = program(inputs);
    EXPECT_EQ(found.size(), exact->value.size());
    std::vector<double> weights;
    double error = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      weights.push_back(static_cast<double>(normal(random)));
      error += weights.back() * (static_cast<double>(found[i]) - exact->value[i]);
    }
    tape.backward(exact, weights);
    squares += square(error / 0x1p-24) / tape.rounding() / kTrials;
  }
  return std::sqrt(squares);
}

void check(const std::vector<Shape>& shapes, const Build& build, const Program& program) {
  const double found = deviation(shapes, build, program);
  EXPECT_GT(found, 0.21 * 0.9) << "more was reckoned with than is rounded";
  EXPECT_LT(found, 0.42 * 1.1) << "something is rounded that was not reckoned with";
}

TEST(Rounding, Linear) {
  check(
      {{kRows, kColumns}, {7, kColumns}, {1, 7}},
      [](Tape& t, const auto& n) { return t.linear(n[0], n[1], n[2]); },
      [](const std::vector<Floats>& in) {
        Floats y;
        for (std::size_t r = 0; r < kRows; ++r) {
          for (std::size_t o = 0; o < 7; ++o) {
            float sum = in[2][o];
            for (std::size_t i = 0; i < kColumns; ++i) {
              sum += in[0][r * kColumns + i] * in[1][o * kColumns + i];
            }
            y.push_back(sum);
          }
        }
        return y;
      });
}

TEST(Rounding, Add) {
  check(
      {{kRows, kColumns}, {kRows, kColumns}},
      [](Tape& t, const auto& n) { return t.add(n[0], n[1]); },
      [](const std::vector<Floats>& in) {
        Floats y;
        for (std::size_t i = 0; i < in[0].size(); ++i) y.push_back(in[0][i] + in[1][i]);
        return y;
      });
}

TEST(Rounding, Gelu) {
  const auto each = [](const std::function<float(float)>& gelu) {
    return [gelu](const std::vector<Floats>& in) {
      Floats y;
      for (const float x : in[0]) y.push_back(gelu(x));
      return y;
    };
  };
  check(
      {{kRows, kColumns}}, [](Tape& t, const auto& n) { return t.gelu(n[0], false); },
      each([](float x) {
        return 0.5F * x * (1 + std::erf(x * (1 / std::numbers::sqrt2_v<float>)));
      }));
  check(
      {{kRows, kColumns}}, [](Tape& t, const auto& n) { return t.gelu(n[0], true); },
      each([](float x) {
        const float root = std::sqrt(2 / std::numbers::pi_v<float>);
        return 0.5F * x * (1 + std::tanh(root * (x + 0.044715F * (x * x * x))));
      }));
}

TEST(Rounding, Tanh) {
  check(
      {{kRows, kColumns}}, [](Tape& t, const auto& n) { return t.tanh(n[0]); },
      [](const std::vector<Floats>& in) {
        Floats y;
        for (const float x : in[0]) y.push_back(std::tanh(x));
        return y;
      });
}

TEST(Rounding, LayerNorm) {
  constexpr float kEpsilon = 0.25F;
  check(
      {{kRows, kColumns}, {1, kColumns}, {1, kColumns}},
      [](Tape& t, const auto& n) {
        return t.layer_norm(n[0], n[1], n[2], static_cast<double>(kEpsilon));
      },
      [](const std::vector<Floats>& in) {
        Floats y;
        for (std::size_t r = 0; r < kRows; ++r) {
          const float* const x = &in[0][r * kColumns];
          float sum = 0, squares = 0;
          for (std::size_t c = 0; c < kColumns; ++c) sum += x[c];
          const float mean = sum / kColumns;
          for (std::size_t c = 0; c < kColumns; ++c) squares += (x[c] - mean) * (x[c] - mean);
          const float scale = 1 / std::sqrt(squares / kColumns + kEpsilon);
          for (std::size_t c = 0; c < kColumns; ++c) {
            y.push_back((x[c] - mean) * scale * in[1][c] + in[2][c]);
          }
        }
        return y;
      });
}

TEST(Rounding, Attention) {
  constexpr float kScale = 0.6F;
  std::vector<double> factors(kRows * kRows, 1.25);
  factors[3] = factors[8] = 0;
  factors[4] = 1;
  check(
      {{kRows, kColumns}, {kRows, kColumns}, {kRows, kColumns}},
      [&](Tape& t, const auto& n) {
        return t.attention(n[0], n[1], n[2], static_cast<double>(kScale), factors);
      },
      [&](const std::vector<Floats>& in) {
        Floats y;
        for (std::size_t i = 0; i < kRows; ++i) {
          Floats p;
          for (std::size_t j = 0; j < kRows; ++j) {
            p.push_back(kScale * dot(&in[0][i * kColumns], 1, &in[1][j * kColumns], 1, kColumns));
          }
          const float largest = *std::max_element(p.begin(), p.end());
          float sum = 0;
          for (float& power : p) sum += power = std::exp(power - largest);
          for (std::size_t j = 0; j < kRows; ++j) {
            p[j] = p[j] / sum * static_cast<float>(factors[i * kRows + j]);
          }
          for (std::size_t c = 0; c < kColumns; ++c) {
            y.push_back(dot(p.data(), 1, &in[2][c], kColumns, kRows));
          }
        }
        return y;
      });
}

TEST(Rounding, CrossEntropy) {
  const std::vector<int> labels = {4, 0, 2, 11, 7};
  check(
      {{kRows, kColumns}},
      [&](Tape& t, const auto& n) { return t.cross_entropy(n[0], labels, 0.5); },
      [&](const std::vector<Floats>& in) {
        float losses = 0;
        for (std::size_t r = 0; r < kRows; ++r) {
          const float* const x = &in[0][r * kColumns];
          const float largest = *std::max_element(x, x + kColumns);
          float sum = 0;
          for (std::size_t c = 0; c < kColumns; ++c) sum += std::exp(x[c] - largest);
          losses += std::log(sum) - (x[static_cast<std::size_t>(labels[r])] - largest);
        }
        return Floats{0.5F * losses};
      });
}

// Several operations in a row: derivatives carry roundings through, and what is shared adds up.
TEST(Rounding, OfAChain) {
  check(
      {{kRows, kColumns}, {kColumns, kColumns}, {1, kColumns}},
      [](Tape& t, const auto& n) {
        Node* const once = t.linear(n[0], n[1], n[2]);
        return t.add(t.linear(once, n[1], n[2]), once);
      },
      [](const std::vector<Floats>& in) {
        const auto linear = [&](const Floats& x) {
          Floats y;
          for (std::size_t r = 0; r < kRows; ++r) {
            for (std::size_t o = 0; o < kColumns; ++o) {
              float sum = in[2][o];
              for (std::size_t i = 0; i < kColumns; ++i) {
                sum += x[r * kColumns + i] * in[1][o * kColumns + i];
              }
              y.push_back(sum);
            }
          }
          return y;
        };
        const Floats once = linear(in[0]);
        Floats y = linear(once);
        for (std::size_t i = 0; i < y.size(); ++i) y[i] += once[i];
        return y;
      });
}

// λ = √(2·ln(2·1000 / 10⁻⁶)) = 6.5447 by hand.
TEST(Rounding, LimitOfManyResults) {
  EXPECT_NEAR(float32_error(1, 1000), 6.5447 * 0x1p-24, 1e-4 * 0x1p-24);
  EXPECT_NEAR(float32_error(4, 1000), 2 * float32_error(1, 1000), 1e-20);
  EXPECT_LT(float32_error(1, 1), float32_error(1, 1000));
}

}  // namespace
}  // namespace regatta::tests
