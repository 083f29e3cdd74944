#include "trainer/interchange/tensorflow_weights.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "trainer/interchange/hugging_face.h"

namespace regatta::trainer::interchange {
namespace {

constexpr char kWordEmbedding[] = "bert.embeddings.word_embeddings.weight";

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + base::join(sizes, ", ") + "]";
}

}  // namespace

TensorflowWeights::TensorflowWeights(base::FileSystem& files, const base::Path& prefix,
                                     checkpoint::Moments moments)
    : source_(base::printable(prefix.string())),
      imported_(checkpoint::read_tensorflow(files, prefix, moments)) {
  for (std::size_t i = 0; i < imported_.tensors.size(); ++i) {
    by_name_[{imported_.tensors[i].name, imported_.tensors[i].kind}] = i;
  }
}

const checkpoint::ImportedTensor* TensorflowWeights::find(const std::string& name,
                                                          checkpoint::TensorflowKind kind) const {
  const auto it = by_name_.find({name, kind});
  return it == by_name_.end() ? nullptr : &imported_.tensors[it->second];
}

bool TensorflowWeights::has(const contract::TensorEntry& entry) const {
  return find(entry.name, checkpoint::TensorflowKind::Parameter) != nullptr;
}

bool TensorflowWeights::read(const contract::TensorEntry& entry, checkpoint::TensorflowKind kind,
                             std::span<float> values) {
  const checkpoint::ImportedTensor* const tensor = find(entry.name, kind);
  if (tensor == nullptr) return false;
  used_.insert(entry.name);
  std::vector<std::int64_t> shape = entry.shape;
  if (is_per_piece(entry.name)) shape.front() = std::max(shape.front(), rows());
  if (tensor->shape != shape) {
    throw base::Error(base::Code::User, source_ + ": tensor '" + entry.name + "' is " +
                                            shape_text(tensor->shape) + ", expected " +
                                            shape_text(shape) + "; change the run file");
  }
  base::check(values.size() <= tensor->values.size(), "a tensor has as many values as its shape");
  std::copy_n(tensor->values.begin(), values.size(), values.begin());
  return true;
}

std::int64_t TensorflowWeights::rows() const {
  const auto* const embedding = find(kWordEmbedding, checkpoint::TensorflowKind::Parameter);
  return embedding == nullptr || embedding->shape.empty() ? 0 : embedding->shape.front();
}

std::int64_t TensorflowWeights::step() const {
  if (imported_.step && *imported_.step >= 0) return *imported_.step;
  throw base::Error(base::Code::User, source_ + ": does not say at which step it was made " +
                                          "(global_step); import without --with-optimizer");
}

std::vector<std::string> TensorflowWeights::unused() const {
  std::vector<std::string> names = imported_.unknown;
  for (const checkpoint::ImportedTensor& tensor : imported_.tensors) {
    const bool parameter = tensor.kind == checkpoint::TensorflowKind::Parameter;
    if (parameter && used_.count(tensor.name) == 0) names.push_back(tensor.name);
  }
  return names;
}

}  // namespace regatta::trainer::interchange
