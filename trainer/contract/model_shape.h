// The one authority on a model's parameters: names, shapes, order in the arena, flags, and the
// FLOPs of a batch. Pure functions of the run file, so trainer, planner, simulator and benchmarks
// agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace regatta::trainer::contract {

enum class Gelu { Erf, Tanh };  // part of the model: a backend never swaps one for the other

// What the model is trained for, and so which head is on top of the encoder.
enum class Task {
  Pretraining,        // masked words and next sentences, as BertForPreTraining
  QuestionAnswering,  // where an answer begins and ends, as BertForQuestionAnswering
  Classification,     // one of `labels` classes, as BertForSequenceClassification
  Regression          // one number, as BertForSequenceClassification with one label
};
// Their names in run files, in this order.
[[nodiscard]] const std::vector<std::string>& task_names();
[[nodiscard]] const std::string& name_of(Task task);

// A model has at most so many of each; 0 or 1 and more.
constexpr int kMostLayers = 1024;
constexpr int kMostHidden = 65536;
constexpr int kMostHeads = 1024;
constexpr int kMostFeedForward = 1 << 20;
constexpr int kMostPositions = 4096;
constexpr int kMostVocabulary = 1 << 24;
constexpr int kMostLabels = 1024;

struct ModelShape {
  int layers = 2;
  int hidden = 128;
  int heads = 2;
  int feed_forward = 512;
  int vocabulary = 0;  // pieces; 0 until the dataset is known
  int max_positions = 512;
  int token_types = 2;
  Gelu gelu = Gelu::Erf;
  float layer_norm_epsilon = 1e-12F;
  Task task = Task::Pretraining;
  int labels = 0;  // classes of Classification; 0 until the dataset is known

  [[nodiscard]] int head_size() const { return hidden / heads; }
};

// tiny 2×128, mini 4×256, small 4×512, medium 8×512, base 12×768, large 24×1024 (heads of 64;
// feed-forward 4·hidden): the sizes of google-research/bert. Throws Code::User for another name.
[[nodiscard]] ModelShape preset_shape(const std::string& name);

// Throws Code::User naming the first impossible size (heads not dividing hidden, nothing positive,
// …).
void check_shape(const ModelShape& shape);

// Offsets count elements and start at multiples of this: 256 bytes of float32, so that every tensor
// and every slice of the arena is aligned for vectors and for collectives.
constexpr std::int64_t kArenaAlignment = 64;

struct TensorEntry {
  std::string name;                 // as in Hugging Face's classes for the tasks
  std::vector<std::int64_t> shape;  // row-major; a dense weight is [outputs, inputs]
  std::int64_t offset = 0;          // elements from the start of the arena
  std::int64_t size = 0;            // elements
  bool weight_decay = true;         // false for biases and LayerNorm, as in BERT and MLPerf
  bool trust_ratio = true;          // LAMB's ratio; false for the same tensors
};

// In the order in which backward finishes the gradients: heads, last layer to first, embeddings.
// The word embedding comes last because it also receives the decoder's gradient (tied weights).
// Query, key and value of a layer are three entries without a gap between them, so that one GEMM
// reads all; the three start aligned together.
struct TensorTable {
  std::vector<TensorEntry> tensors;
  std::int64_t arena_size = 0;       // elements, a multiple of kArenaAlignment
  std::int64_t parameter_count = 0;  // elements without padding

  // Aborts if there is no such tensor: names come from code.
  [[nodiscard]] const TensorEntry& at(const std::string& name) const;
};

// The decoder's product runs over this many rows of the word embedding: the vocabulary rounded up
// to 64, because a GPU is several times slower on rows of 30,522. The rows beyond the vocabulary,
// and as many elements beyond the decoder's bias, are gaps of the arena: always zero, in no tensor.
[[nodiscard]] std::int64_t vocabulary_rows(const ModelShape& shape);

// The last of the table: also the decoder's weight in pre-training.
constexpr char kWordEmbedding[] = "bert.embeddings.word_embeddings.weight";

// Which part of the model a tensor is of, for people: "layer 3" (0 is the lowest, as in its name),
// "the embeddings" or "the head".
[[nodiscard]] std::string layer_of(const std::string& tensor);

// Requires shape.vocabulary > 0, and labels > 0 for Classification. The first tensors are those of
// the head; from first_encoder_tensor() on they are the same for every task.
[[nodiscard]] TensorTable make_tensor_table(const ModelShape& shape);

// Logits of the head (of Classification 2 as long as its labels are not known): of each sample, and
// of each token for QuestionAnswering. 2 in Pretraining, whose decoder's are vocabulary_rows().
[[nodiscard]] std::int64_t outputs_of(const ModelShape& shape);

// Number of the first tensor that belongs to no head: where a part of the pooler, too, is a head's.
[[nodiscard]] int first_encoder_tensor(const TensorTable& table);

// What the FLOPs of a batch depend on.
struct BatchSizes {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;          // Σ s
  std::int64_t squared_tokens = 0;  // Σ s²
  std::int64_t masked = 0;          // Σ m, positions that the MLM head sees
};

// Model FLOPs of forward and backward: multiply-add = 2, backward = 2 × forward, no recomputation:
// 3·[L·(2(4h² + 2hf)·Σs + 4h·Σs²) + head], and the head Σm·(2h² + 2hV) + samples·(2h² + 4h) in
// pre-training, Σs·4h for questions, samples·(2h² + 2h·labels) for classes.
[[nodiscard]] double training_flops(const ModelShape& shape, const BatchSizes& batch);

}  // namespace regatta::trainer::contract
