// BERT on a Device, unpadded from the embedding to the loss, with the head of its task: the MLM
// head on masked positions only, decoder tied to the word embedding.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "trainer/contract/model_shape.h"
#include "trainer/contract/stage_cut.h"
#include "trainer/device/device.h"
#include "trainer/model/activation_layout.h"
#include "trainer/model/input_feed.h"
#include "trainer/samples/batch.h"

namespace regatta::trainer::model {

enum class Mode { Training, Evaluation };

struct DropoutConfig {
  double hidden = 0;     // after embeddings, attention output and feed-forward
  double attention = 0;  // on attention probabilities
  std::uint64_t seed = 0;
};

struct BertOptions {
  DropoutConfig dropout;
  device::Dtype compute =
      device::Dtype::Float32;  // of activations, and of the weights that products read
  RoomPolicy room;
  // From the bottom, embeddings included (also the word embedding as the decoder's weight): they
  // get no gradients.
  int frozen_layers = 0;
  float label_smoothing = 0;  // of the task's loss; pre-training: of both
  bool repeat = true;         // let the device replay passes of one shape (Device::repeat)
  // For whoever fills in masked words: an evaluation forward of Pretraining computes no MLM loss,
  // which would overwrite the logits, so that read_logits() finds them. Of Float32 only.
  bool keep_masked_logits = false;
  // Computes this part of the model only, from the stage below's output and to the stage above's
  // input; nothing: all of it. Weights and gradients are allocated whole all the same.
  std::optional<contract::Stage> stage{};
};

// Counts of the whole optimizer step over all ranks and micro-batches: the loss is
// Σ mlm / masked + Σ sample / samples, so gradients need only be summed. `factor` multiplies the
// loss (and so the gradients), for types with little range.
struct LossScale {
  std::int64_t masked = 1;
  std::int64_t samples = 1;
  double factor = 1;
};

// Sums over every forward since reset_statistics().
struct Statistics {
  double mlm_loss = 0;     // sum over masked positions
  double mlm_correct = 0;  // argmax hits
  double masked = 0;
  double sample_loss = 0;     // of next sentences, classes or answers; of values the squared error
  double sample_correct = 0;  // argmax hits; of answers, of both ends
  double samples = 0;         // that have a label
};

// How Bert goes back through one linear layer.
struct LinearBackward {
  bool accumulate = false;    // dx += instead of dx =
  bool bias_is_done = false;  // the producer of dy has summed its columns
  bool frozen = false;        // the weight gets no gradient, the bias does
  device::View gelu_input;    // given: dx is multiplied by GELU's derivative there
};

class Bert {
 public:
  // Allocates parameters and gradients (undefined until filled). The device outlives the model and
  // computes in options.compute.
  Bert(device::Device& device, const contract::ModelShape& shape, const BertOptions& options);

  [[nodiscard]] const contract::ModelShape& shape() const { return shape_; }
  [[nodiscard]] const contract::TensorTable& table() const { return table_; }
  [[nodiscard]] device::View parameters() const { return parameters_.view(); }
  [[nodiscard]] device::View gradients() const { return gradients_.view(); }
  // The weights that products read, of the compute type; empty when those are the parameters.
  [[nodiscard]] device::View compute_copy() const { return compute_copy_.view(); }
  // Enqueues its renewal. The optimizer keeps it up to date; whoever else writes parameters() calls
  // this.
  void renew_compute_copy();

  [[nodiscard]] const contract::Stage& stage() const { return stage_; }
  // All calls from here on are of the micro-batch in this slot; slot 0 at first. A slot is made
  // when it is first used, and keeps inputs and activations until the next upload into it.
  void use(int slot);
  // From which memory the first slot's micro-batches come, where that was tried.
  [[nodiscard]] std::optional<HostCopies> host_copies() const {
    return slots_.empty() ? std::nullopt : slots_.front()->inputs.host_copies();
  }
  // Of a stage with neighbours: float32 [tokens of the uploaded batch's room, hidden]. The input is
  // there before forward() is enqueued, and the output after it; so are the gradients of the output
  // and of the input with backward(). Each stays as it is until the slot's next upload, but for the
  // input (if the model computes in another type than float32) and the output's gradient, which
  // backward() may overwrite with the input's.
  [[nodiscard]] device::View stage_input() const;
  [[nodiscard]] device::View stage_output() const;
  [[nodiscard]] device::View output_gradient() const;
  [[nodiscard]] device::View input_gradient() const;

  // Enqueues the upload of a batch; `step` is the number of the optimizer step, for dropout. Both
  // may be changed as soon as this returns.
  void upload(const samples::PackedBatch& batch, std::int32_t step, const LossScale& scale);
  // Called during forward before tensors [begin, end) of the table are read: what brings them is
  // enqueued before they are.
  using Needed = std::function<void(int begin, int end)>;
  // Enqueues loss (and accuracy sums) of the uploaded batch. With `needed` nothing is replayed.
  void forward(Mode mode, const Needed& needed = nullptr);
  // Called during backward with a number of tensors of the table, from its start, whose gradients
  // are enqueued: what reads them may be enqueued too.
  using Ready = std::function<void(int tensors)>;
  // Enqueues the gradients of the last forward, added to gradients(). With `ready` nothing is
  // replayed, since what it does is no part of a repeat.
  void backward(const Ready& ready = nullptr);

  void zero_gradients();
  void reset_statistics();
  // Enqueues the copy of the sums to the host; `sums` has 6 floats and stays valid until waited
  // for.
  void read_statistics(float* sums);
  // Enqueues the copy of the last evaluation forward's logits to the host, float32:
  // outputs_of(shape) for each sample of the uploaded batch, or for each token of
  // QuestionAnswering; of Pretraining, with keep_masked_logits, vocabulary_rows(shape) for each
  // masked position, those of the pieces first. `logits` stays valid until waited for.
  void read_logits(float* logits);
  [[nodiscard]] static Statistics statistics_of(const float* sums);

  // All activations of the current room: for tests, which fill it to show that stale values and
  // padding change nothing.
  [[nodiscard]] device::View activation_memory() const { return slot_->activations.view(); }
  // Of the uploaded batch's room: where each buffer lies, and one of them.
  [[nodiscard]] const ActivationLayout& layout() const { return slot_->layout; }
  [[nodiscard]] device::View view_of(const Buffer& buffer) const { return at(buffer); }
  // Grows the memory for a batch, as upload() would.
  void reserve(const BatchRoom& room);

 private:
  struct Linear {
    device::View weight, bias, weight_gradient, bias_gradient;
    std::int64_t outputs = 0, inputs = 0;
  };
  struct Norm {
    device::View gamma, beta, gamma_gradient, beta_gradient;
  };
  // Tensors of the table before a layer's, and before those of its parts: as many have their
  // gradients when backward gets there.
  struct TensorsBefore {
    int layer = 0, intermediate = 0, attention_norm = 0, attention = 0;
  };
  struct LayerParameters {
    Linear query_key_value, attention_output, intermediate, output;
    Norm attention_norm, output_norm;
    TensorsBefore before;
  };
  struct Embeddings {
    device::View word, position, type, word_gradient, position_gradient, type_gradient;
    Norm norm;
    int tensors_before = 0;
  };
  enum class Pass { Forward, Backward };
  struct Slot {
    explicit Slot(device::Device& device) : inputs(device) {}
    InputFeed inputs;
    Mode mode = Mode::Evaluation;
    BatchRoom room;               // of the uploaded batch
    std::int64_t logit_rows = 0;  // of it, without padding
    ActivationLayout layout;
    device::DeviceMemory activations;
  };

  [[nodiscard]] device::View parameter(const std::string& name) const;
  [[nodiscard]] device::View weight(const std::string& name) const;
  [[nodiscard]] device::View weight(std::int64_t offset, std::int64_t size) const;
  [[nodiscard]] device::View gradient(const std::string& name) const;
  [[nodiscard]] Linear linear(const std::string& name) const;
  [[nodiscard]] Norm norm(const std::string& name) const;
  [[nodiscard]] Linear query_key_value(int layer) const;
  [[nodiscard]] Linear decoder() const;
  // All look-ups by name; passes use what is bound here.
  void bind_parameters();
  void bind_head();
  [[nodiscard]] device::Dropout dropout_at(std::uint32_t site, double probability) const;
  [[nodiscard]] device::View at(const Buffer& buffer) const;
  [[nodiscard]] device::Activation activation() const;
  void run(Pass pass);
  [[nodiscard]] int tensors_before(const std::string& name) const;
  // Where a layer's tensors begin in the table; −1: the embeddings'.
  [[nodiscard]] int first_tensor_of_layer(int layer) const {
    return layer < 0 ? embeddings_.tensors_before
                     : layers_[static_cast<std::size_t>(layer)].before.layer;
  }

  void apply(const Linear& linear, device::View x, std::int64_t rows, device::View y,
             device::View pre_activation = {});
  // dx = dy·W, and weight and bias gradients are added.
  void apply_backward(const Linear& linear, device::View x, device::View dy, std::int64_t rows,
                      device::View dx, const LinearBackward& how = {});
  [[nodiscard]] bool travels_as_computed() const {
    return options_.compute == device::Dtype::Float32;
  }
  [[nodiscard]] device::View top_hidden() const;  // of the stage's last layer
  void enqueue_forward(const Needed& needed);
  void embedding_forward();
  void enqueue_backward(const Ready& ready);
  void layer_forward(int layer, device::View x);
  void layer_backward(int layer, device::View x, device::View dy, const Ready& ready);
  void mlm_forward(device::View hidden);
  void mlm_backward(device::View dhidden);
  void head_backward(device::View dhidden);
  void embedding_backward(device::View dhidden);
  void pooled_forward(device::View hidden);
  void pooled_backward(device::View dhidden);
  void answers_forward(device::View hidden);
  void keep_logits();
  void norm_backward(const Norm& norm, const NormBuffers& kept, std::uint32_t site, device::View dy,
                     device::View dbranch, device::View dbias);

  device::Device& device_;
  contract::ModelShape shape_;
  contract::TensorTable table_;
  BertOptions options_;
  contract::Stage stage_;
  device::DeviceMemory parameters_, gradients_, compute_copy_;
  std::vector<LayerParameters> layers_;
  Linear mlm_transform_, decoder_;  // Pretraining
  Linear pooler_;                   // all but QuestionAnswering
  Linear head_;  // next sentences, classes or the value, of [CLS]; ends of answers, of each token
  Norm mlm_norm_;
  Embeddings embeddings_;

  std::vector<std::unique_ptr<Slot>> slots_;  // they stay where they are
  Slot* slot_ = nullptr;                      // in use; never null
  int slot_number_ = 0;
  device::DeviceMemory statistics_;  // [6]: MLM loss, hits, count; samples' loss, hits, count
  // Keys of Device::repeat: one per slot, shape, mode and pass, in the order of first use.
  std::map<std::tuple<int, std::int64_t, std::int64_t, std::int64_t, std::int64_t, Mode, Pass>,
           std::uint64_t>
      keys_;
};

}  // namespace regatta::trainer::model
