// Reverse-mode differentiation of float64 matrices, written for clarity: the oracle of the
// trainer's backward. It shares no code with the trainer; finite differences check it in
// tape_test.cc.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace regatta::tests {

struct Node {
  std::size_t rows = 0, columns = 0;
  std::vector<double> value, gradient;
  // Of an input, the sum of the absolute values of what its gradient is a sum of: how far another
  // order of float32 sums may lead is a multiple of it.
  std::vector<double> magnitude;

  void add_to_gradient(std::size_t i, double term) {
    gradient[i] += term;
    if (!magnitude.empty()) magnitude[i] += std::abs(term);
  }

  double& at(std::size_t r, std::size_t c) { return value[r * columns + c]; }
  double& grad(std::size_t r, std::size_t c) { return gradient[r * columns + c]; }
};

// Nodes live as long as the tape.
class Tape {
 public:
  Node* input(std::size_t rows, std::size_t columns, const std::vector<double>& value);

  Node* linear(Node* x, Node* weight, Node* bias);  // x·Wᵀ + b; W [outputs, inputs], b [1, outputs]
  Node* add(Node* x, Node* y);
  Node* gelu(Node* x, bool tanh_form);
  Node* tanh(Node* x);
  Node* layer_norm(Node* x, Node* gamma, Node* beta, double epsilon);
  Node* scale_elements(Node* x, const std::vector<double>& factors);  // dropout with a given mask
  Node* gather(Node* x, const std::vector<int>& rows);                // also embedding lookup
  Node* columns(Node* x, std::size_t begin, std::size_t count);
  Node* join_columns(const std::vector<Node*>& parts);
  Node* join_rows(const std::vector<Node*>& parts);
  // softmax(q·kᵀ·scale)∘factors·v for one head of one sample.
  Node* attention(Node* q, Node* k, Node* v, double scale, const std::vector<double>& factors);
  // Σ_r cross-entropy(row r, label r) × weight, a 1×1 node.
  Node* cross_entropy(Node* logits, const std::vector<int>& labels, double weight);
  // Of tasks, without a part in rounding(): −weight·Σ_rc targets[r, c]·log softmax(row r)[c], a 1×1
  // node; a row of zeros counts nowhere.
  Node* soft_cross_entropy(Node* logits, const std::vector<double>& targets, double weight);
  // weight·Σ (x_i − values[i])², without those that are not a number, a 1×1 node.
  Node* squared_error(Node* x, const std::vector<double>& values, double weight);
  Node* row_of(Node* x);  // all elements in one row

  // Fills every gradient with d (Σ weights·result) / d node, anew each time.
  void backward(Node* result, const std::vector<double>& weights = {1});

  // Of the last backward: what rounding does to Σ weights·result in the simplest program of another
  // precision, which rounds after every operation and adds up in turn. Rounding a value v shifts
  // the result by at most u·|d·v|, d being its derivative by v and u the unit roundoff; this is
  // Σ (d·v)² over all roundings. exp, log, tanh and erf may be wrong by a whole unit in the last
  // place, which is twice as much.
  [[nodiscard]] double rounding() const;

 private:
  Node* make(std::size_t rows, std::size_t columns);
  void on_backward(std::function<void()> step) { steps_.push_back(std::move(step)); }
  void on_rounding(std::function<double()> squares) { roundings_.push_back(std::move(squares)); }

  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::function<void()>> steps_;
  std::vector<std::function<double()>> roundings_;
};

}  // namespace regatta::tests
