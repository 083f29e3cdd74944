#include "tests/trainer/device/whole_layer.h"

#include <algorithm>
#include <numeric>

#include "tests/trainer/device/packed_tokens.h"

namespace regatta::tests {
namespace {

using trainer::device::View;

constexpr std::int64_t kHidden = 128;
constexpr int kHeads = 2;
constexpr std::int64_t kVocabulary = 300;

class WholeLayer {
 public:
  explicit WholeLayer(trainer::device::Device& device)
      : at_(device), packed_({129, 1, 64, 300, 7, 77}), tokens_(packed_.on(at_)) {}

  std::vector<NamedResult> run() {
    embedding();
    attention();
    products();
    norm();
    activations();
    loss();
    optimizers();
    return std::move(results_);
  }

 private:
  [[nodiscard]] std::int64_t count() const { return packed_.tokens(); }
  [[nodiscard]] View random(std::int64_t size) { return at_.floats(numbers_.floats(size)); }
  void keep(const std::string& name, const View& view) {
    results_.push_back({name, at_.read(view)});
  }

  void embedding() {
    const std::vector<std::int32_t> ids = numbers_.below(count(), kVocabulary);
    std::vector<std::int32_t> sorted(ids.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(), [&](std::int32_t a, std::int32_t b) {
      return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
    });
    trainer::device::EmbeddingForward forward;
    forward.ids = at_.ints(ids);
    forward.types = at_.ints(numbers_.below(count(), 2));
    forward.word = random(kVocabulary * kHidden);
    forward.position = random(512 * kHidden);
    forward.type = random(2 * kHidden);
    forward.gamma = random(kHidden);
    forward.beta = random(kHidden);
    forward.epsilon = 1e-12F;
    forward.dropout = some_dropout(0.1, 16);
    forward.tokens = tokens_;
    forward.x = at_.output(count() * kHidden);
    forward.mean = at_.output(count());
    forward.rstd = at_.output(count());
    forward.y = at_.output(count() * kHidden);
    at_.device().embedding_forward(0, forward);
    keep("embedding y", forward.y);
    trainer::device::EmbeddingBackward backward;
    backward.ids = forward.ids;
    backward.types = forward.types;
    backward.sorted = at_.ints(sorted);
    backward.gamma = forward.gamma;
    backward.x = forward.x;
    backward.mean = forward.mean;
    backward.rstd = forward.rstd;
    backward.dropout = forward.dropout;
    backward.tokens = tokens_;
    backward.dy = random(count() * kHidden);
    backward.dword = random(kVocabulary * kHidden);
    backward.dposition = random(512 * kHidden);
    backward.dtype_rows = random(2 * kHidden);
    backward.dgamma = random(kHidden);
    backward.dbeta = random(kHidden);
    at_.device().embedding_backward(0, backward);
    keep("dword", backward.dword);
    keep("dposition", backward.dposition);
    keep("dtype", backward.dtype_rows);
    keep("embedding dgamma", backward.dgamma);
    keep("embedding dbeta", backward.dbeta);
  }

  void attention() {
    trainer::device::AttentionForward forward;
    forward.qkv = random(count() * 3 * kHidden);
    forward.out = at_.output(count() * kHidden);
    forward.lse = at_.output(kHeads * count());
    forward.heads = kHeads;
    forward.dropout = some_dropout(0.1, 64);
    forward.tokens = tokens_;
    at_.device().attention_forward(0, forward);
    keep("attention out", forward.out);
    keep("attention lse", forward.lse);
    trainer::device::AttentionBackward backward;
    backward.qkv = forward.qkv;
    backward.out = forward.out;
    backward.lse = forward.lse;
    backward.dout = random(count() * kHidden);
    backward.dqkv = at_.output(count() * 3 * kHidden);
    backward.heads = kHeads;
    backward.dropout = forward.dropout;
    backward.tokens = tokens_;
    at_.device().attention_backward(0, backward);
    keep("dqkv", backward.dqkv);
  }

  void product(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b) {
    trainer::device::Gemm op;
    op.m = m;
    op.n = n;
    op.k = k;
    op.a = random(m * k);
    op.b = random(k * n);
    op.c = random(m * n);
    op.transpose_a = transpose_a;
    op.transpose_b = transpose_b;
    op.beta = 1;
    op.bias = random(n);
    at_.device().gemm(0, op);
    keep("product " + std::to_string(m), op.c);
  }
  // A forward activation, a backward one, and a weight gradient with the bias gradient beside it.
  void epilogues() {
    trainer::device::Gemm op;
    op.m = count();
    op.n = 4 * kHidden;
    op.k = kHidden;
    op.a = random(op.m * op.k);
    op.b = random(op.k * op.n);
    op.c = at_.output(op.m * op.n);
    op.bias = random(op.n);
    op.activation = trainer::device::Activation::GeluErf;
    op.pre_activation = at_.output(op.m * op.n);
    at_.device().gemm(0, op);
    keep("activated product", op.c);
    op.gelu_input = op.pre_activation;
    op.pre_activation = {};
    op.bias = {};
    op.c = at_.output(op.m * op.n);
    op.c_column_sums = random(op.n);
    at_.device().gemm(0, op);
    keep("gradient of an activation", op.c);
    keep("its column sums", op.c_column_sums);
    trainer::device::Gemm weight;
    weight.m = op.n;
    weight.n = kHidden;
    weight.k = count();
    weight.a = op.c;
    weight.b = op.a;
    weight.c = random(op.n * kHidden);
    weight.transpose_a = true;
    weight.beta = 1;
    weight.a_column_sums = random(op.n);
    at_.device().gemm(0, weight);
    keep("weight gradient", weight.c);
    keep("bias gradient", weight.a_column_sums);
  }
  void products() {
    epilogues();
    product(count(), 3 * kHidden, kHidden, false, true);
    product(count() + 1, kHidden, 3 * kHidden, false, false);
    product(3 * kHidden, kHidden, count(), true, false);
    const View sums = random(kHidden);
    at_.device().add_column_sums(0, random(count() * kHidden), kHidden, sums);
    keep("column sums", sums);
  }

  void norm() {
    trainer::device::LayerNormForward forward;
    forward.x = random(count() * kHidden);
    forward.residual = random(count() * kHidden);
    forward.gamma = random(kHidden);
    forward.beta = random(kHidden);
    forward.epsilon = 1e-12F;
    forward.dropout = some_dropout(0.1, 66);
    forward.tokens = tokens_;
    forward.z = at_.output(count() * kHidden);
    forward.mean = at_.output(count());
    forward.rstd = at_.output(count());
    forward.y = at_.output(count() * kHidden);
    at_.device().layer_norm_forward(0, forward);
    keep("norm y", forward.y);
    trainer::device::LayerNormBackward backward;
    backward.dy = random(count() * kHidden);
    backward.z = forward.z;
    backward.mean = forward.mean;
    backward.rstd = forward.rstd;
    backward.gamma = forward.gamma;
    backward.dropout = forward.dropout;
    backward.tokens = tokens_;
    backward.dresidual = backward.dy;
    backward.dx = at_.output(count() * kHidden);
    backward.dgamma = random(kHidden);
    backward.dbeta = random(kHidden);
    backward.dbias = random(kHidden);
    at_.device().layer_norm_backward(0, backward);
    keep("norm dbias", backward.dbias);
    keep("norm dx", backward.dx);
    keep("norm dgamma", backward.dgamma);
    keep("norm dbeta", backward.dbeta);
  }

  void activations() {
    const std::int64_t size = count() * kHidden;
    const View x = random(size);
    const View y = at_.output(size);
    for (const bool tanh_form : {false, true}) {
      at_.device().gelu_forward(0, x, y, tanh_form);
      keep("gelu", y);
      at_.device().gelu_backward(0, x, random(size), y, tanh_form);
      keep("gelu gradient", y);
    }
    at_.device().tanh_forward(0, x, y);
    keep("tanh", y);
    at_.device().tanh_backward(0, y, random(size), y);
    keep("tanh gradient", y);
    at_.device().add(0, x, y);
    keep("sum", y);
  }

  void loss() {
    trainer::device::CrossEntropy op;
    op.logits = random(90 * kVocabulary);
    op.labels = at_.ints(numbers_.below(90, kVocabulary));
    op.classes = kVocabulary;
    op.scale = at_.floats({1.0F / 90});
    op.sums = at_.floats({0, 0, 0});
    at_.device().cross_entropy(0, op);
    keep("dlogits", op.logits);
    keep("loss sums", op.sums);
    op.logits = random(90 * kVocabulary);
    op.label_smoothing = 0.1F;
    at_.device().cross_entropy(0, op);
    keep("smoothed dlogits", op.logits);
    keep("smoothed loss sums", op.sums);
    answers();
  }

  void answers() {
    trainer::device::SpanCrossEntropy op;
    op.logits = random(2 * count());
    std::vector<std::int32_t> answers(static_cast<std::size_t>(2 * packed_.samples()));
    answers[4] = -1;
    op.answers = at_.ints(answers);
    op.cumulative = tokens_.cumulative;
    op.scale = at_.floats({0.2F});
    op.sums = at_.floats({0, 0, 0});
    at_.device().span_cross_entropy(0, op);
    keep("danswers", op.logits);
    keep("answer loss sums", op.sums);
    trainer::device::SquaredError error;
    error.logits = random(50000);
    error.values = random(50000);
    error.scale = op.scale;
    error.sums = op.sums;
    at_.device().squared_error(0, error);
    keep("squared error gradient", error.logits);
    keep("squared error sums", error.sums);
  }

  void optimizers() {
    const std::int64_t size = 50000;
    const trainer::device::OptimizerTensor tensors[] = {{0, 333, false, false},
                                                        {384, 49000, true, true}};
    for (const bool lamb : {false, true}) {
      trainer::device::OptimizerUpdate op;
      op.parameters = random(size);
      op.gradients = random(size);
      op.first_moment = at_.floats(std::vector<float>(static_cast<std::size_t>(size)));
      op.second_moment = at_.floats(std::vector<float>(static_cast<std::size_t>(size)));
      op.tensors = tensors;
      op.tensor_count = 2;
      op.beta1 = 0.9F;
      op.beta2 = 0.999F;
      op.epsilon = 1e-6F;
      op.weight_decay = 0.01F;
      op.lamb = lamb;
      op.scalars = at_.floats({0.01F, 0.1F, 0.001F, 1.0F, 1.0F, 0, 0, 0});
      op.squared_norm = at_.output(1);
      at_.device().sum_of_squares(0, op.gradients, op.squared_norm);
      keep("squared norm", op.squared_norm);
      at_.device().update(0, op);
      keep(lamb ? "lamb" : "adamw", op.parameters);
    }
  }

  Harness at_;
  Numbers numbers_{99};
  Packed packed_;
  trainer::device::TokenIdentity tokens_;
  std::vector<NamedResult> results_;
};

}  // namespace

std::vector<NamedResult> run_every_operation(trainer::device::Device& device) {
  return WholeLayer(device).run();
}

}  // namespace regatta::tests
