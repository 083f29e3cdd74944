// The heads of the tasks, over the encoder's hidden states.
#include "trainer/model/bert.h"

namespace regatta::trainer::model {

// The word embedding, with the gaps that round the vocabulary up (vocabulary_rows).
Bert::Linear Bert::decoder() const {
  const std::int64_t rows = contract::vocabulary_rows(shape_);
  const std::int64_t matrix = table_.at(contract::kWordEmbedding).offset;
  const std::int64_t bias = table_.at("cls.predictions.bias").offset;
  const device::View gradients = gradients_.view();
  return {weight(matrix, rows * shape_.hidden),
          weight(bias, rows),
          gradients.slice(matrix, rows * shape_.hidden),
          gradients.slice(bias, rows),
          rows,
          shape_.hidden};
}

void Bert::bind_head() {
  switch (shape_.task) {
    case contract::Task::Pretraining:
      mlm_transform_ = linear("cls.predictions.transform.dense");
      mlm_norm_ = norm("cls.predictions.transform.LayerNorm");
      decoder_ = decoder();
      head_ = linear("cls.seq_relationship");
      break;
    case contract::Task::QuestionAnswering:
      head_ = linear("qa_outputs");
      return;
    case contract::Task::Classification:
    case contract::Task::Regression:
      head_ = linear("classifier");
      break;
  }
  pooler_ = linear("bert.pooler.dense");
}

// Hidden state of [CLS] → pooler with tanh → logits of the sample.
void Bert::pooled_forward(device::View hidden) {
  const device::View first = at(slot_->layout.first_hidden);
  const device::View pooled = at(slot_->layout.pooled);
  const device::View logits = at(slot_->layout.sample_logits);
  device_.gather_rows(kCompute, hidden, slot_->inputs.first_rows(), shape_.hidden, first);
  apply(pooler_, first, slot_->room.samples, pooled);
  device_.tanh_forward(kCompute, pooled, pooled);
  apply(head_, pooled, slot_->room.samples, logits);
  keep_logits();
  const bool evaluate = slot_->mode == Mode::Evaluation;
  const device::View sums = statistics_.view().slice(3, 3);
  if (shape_.task == contract::Task::Regression) {
    device_.squared_error(
        kCompute, {logits, slot_->inputs.values(), slot_->inputs.sample_scale(), evaluate, sums});
    return;
  }
  device::CrossEntropy loss;
  loss.logits = logits;
  loss.labels = slot_->inputs.sample_labels();
  loss.classes = head_.outputs;
  loss.label_smoothing = options_.label_smoothing;
  loss.scale = slot_->inputs.sample_scale();
  loss.evaluate = evaluate;
  loss.sums = sums;
  device_.cross_entropy(kCompute, loss);
}

// Every token's hidden state → of being the answer's first, and its last.
void Bert::answers_forward(device::View hidden) {
  device::SpanCrossEntropy loss;
  loss.logits = at(slot_->layout.sample_logits);
  apply(head_, hidden, slot_->room.tokens, loss.logits);
  keep_logits();
  loss.answers = slot_->inputs.answers();
  loss.cumulative = slot_->inputs.identity().cumulative;
  loss.label_smoothing = options_.label_smoothing;
  loss.scale = slot_->inputs.sample_scale();
  loss.evaluate = slot_->mode == Mode::Evaluation;
  loss.sums = statistics_.view().slice(3, 3);
  device_.span_cross_entropy(kCompute, loss);
}

// Before the loss takes their memory.
void Bert::keep_logits() {
  if (slot_->mode != Mode::Evaluation || shape_.task == contract::Task::Pretraining) return;
  const device::View kept = at(slot_->layout.kept_logits);
  const device::View logits = at(slot_->layout.sample_logits);
  if (logits.dtype == device::Dtype::Float32) {
    device_.copy(kCompute, kept, logits);
  } else {
    device_.convert(kCompute, kept, logits);
  }
}

// Masked rows only: gather → dense → GELU → LayerNorm → word embeddingᵀ + bias.
void Bert::mlm_forward(device::View hidden) {
  const device::View gathered = at(slot_->layout.masked_hidden);
  device_.gather_rows(kCompute, hidden, slot_->inputs.masked_rows(), shape_.hidden, gathered);
  device::LayerNormForward op;
  op.x = at(slot_->layout.masked_activated);
  apply(mlm_transform_, gathered, slot_->room.masked, op.x, at(slot_->layout.masked_inner));
  op.gamma = mlm_norm_.gamma;
  op.beta = mlm_norm_.beta;
  op.epsilon = shape_.layer_norm_epsilon;
  op.z = at(slot_->layout.masked_norm.z);
  op.mean = at(slot_->layout.masked_norm.mean);
  op.rstd = at(slot_->layout.masked_norm.rstd);
  op.y = at(slot_->layout.masked_norm.y);
  device_.layer_norm_forward(kCompute, op);

  device::CrossEntropy loss;
  loss.logits = at(slot_->layout.logits);
  apply(decoder_, op.y, slot_->room.masked, loss.logits);
  if (slot_->mode == Mode::Evaluation && options_.keep_masked_logits) return;
  loss.labels = slot_->inputs.masked_labels();
  loss.classes = shape_.vocabulary;
  loss.stride = contract::vocabulary_rows(shape_);
  loss.label_smoothing = options_.label_smoothing;
  loss.scale = slot_->inputs.mlm_scale();
  loss.evaluate = slot_->mode == Mode::Evaluation;
  loss.sums = statistics_.view().slice(0, 3);
  device_.cross_entropy(kCompute, loss);
}

void Bert::head_backward(device::View dhidden) {
  if (shape_.task == contract::Task::QuestionAnswering) {
    return apply_backward(head_, top_hidden(), at(slot_->layout.sample_logits), slot_->room.tokens,
                          dhidden);
  }
  device_.fill_zero(kCompute, dhidden);
  pooled_backward(dhidden);
  if (shape_.task == contract::Task::Pretraining && slot_->room.masked > 0) mlm_backward(dhidden);
}

void Bert::pooled_backward(device::View dhidden) {
  const device::View pooled = at(slot_->layout.pooled);
  const device::View dpooled = at(slot_->layout.first_gradient);
  apply_backward(head_, pooled, at(slot_->layout.sample_logits), slot_->room.samples, dpooled);
  device_.tanh_backward(kCompute, pooled, dpooled, dpooled);
  // `pooled` is not needed any more and takes the gradient of the gathered rows.
  apply_backward(pooler_, at(slot_->layout.first_hidden), dpooled, slot_->room.samples, pooled);
  device_.scatter_add_rows(kCompute, pooled, slot_->inputs.first_rows(), shape_.hidden, dhidden);
}

void Bert::mlm_backward(device::View dhidden) {
  const device::View dmasked = at(slot_->layout.masked_gradient);
  const device::View inner = at(slot_->layout.masked_inner);
  LinearBackward tied;  // the word embedding may be frozen; the decoder's bias is the head's
  tied.frozen = options_.frozen_layers > 0;
  apply_backward(decoder_, at(slot_->layout.masked_norm.y), at(slot_->layout.logits),
                 slot_->room.masked, dmasked, tied);
  device::LayerNormBackward op;
  op.dy = dmasked;
  op.z = at(slot_->layout.masked_norm.z);
  op.mean = at(slot_->layout.masked_norm.mean);
  op.rstd = at(slot_->layout.masked_norm.rstd);
  op.gamma = mlm_norm_.gamma;
  op.dresidual = dmasked;
  op.dx = dmasked;
  op.dgamma = mlm_norm_.gamma_gradient;
  op.dbeta = mlm_norm_.beta_gradient;
  device_.layer_norm_backward(kCompute, op);
  device_.gelu_backward(kCompute, inner, dmasked, dmasked, shape_.gelu == contract::Gelu::Tanh);
  // `inner` is not needed any more and takes the gradient of the gathered rows.
  apply_backward(mlm_transform_, at(slot_->layout.masked_hidden), dmasked, slot_->room.masked,
                 inner);
  device_.scatter_add_rows(kCompute, inner, slot_->inputs.masked_rows(), shape_.hidden, dhidden);
}

}  // namespace regatta::trainer::model
