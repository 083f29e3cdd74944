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
    : files_(files), prefix_(prefix), moments_(moments) {
  const auto reader = checkpoint::TensorflowReader::open(files, prefix);
  for (const checkpoint::TensorflowTensor& tensor : reader.tensors()) {
    const auto mapped = checkpoint::map_tensorflow_name(tensor.name);
    if (!mapped || mapped->kind != checkpoint::TensorflowKind::Parameter) continue;
    names_.insert(mapped->name);
    if (mapped->name == kWordEmbedding && !tensor.shape.empty()) rows_ = tensor.shape.front();
    reader.check_readable(tensor.name);
  }
}

const checkpoint::TensorflowImport& TensorflowWeights::imported() {
  if (!imported_) {
    imported_ = checkpoint::read_tensorflow(files_, prefix_, moments_);
    for (std::size_t i = 0; i < imported_->tensors.size(); ++i) {
      by_name_[{imported_->tensors[i].name, imported_->tensors[i].kind}] = i;
    }
  }
  return *imported_;
}

const checkpoint::ImportedTensor* TensorflowWeights::find(const std::string& name,
                                                          checkpoint::TensorflowKind kind) {
  const checkpoint::TensorflowImport& all = imported();
  const auto it = by_name_.find({name, kind});
  return it == by_name_.end() ? nullptr : &all.tensors[it->second];
}

bool TensorflowWeights::has_name(const std::string& tensor) const {
  return names_.count(tensor) > 0;
}

bool TensorflowWeights::read(const contract::TensorEntry& entry, checkpoint::TensorflowKind kind,
                             std::span<float> values) {
  const checkpoint::ImportedTensor* const tensor = find(entry.name, kind);
  if (tensor == nullptr) return false;
  used_.insert(entry.name);
  std::vector<std::int64_t> shape = entry.shape;
  if (is_per_piece(entry.name)) shape.front() = std::max(shape.front(), rows());
  if (tensor->shape != shape) {
    throw base::Error(base::Code::User, base::printable(prefix_.string()) + ": tensor '" +
                                            entry.name + "' is " + shape_text(tensor->shape) +
                                            ", expected " + shape_text(shape) +
                                            "; change the run file");
  }
  base::check(values.size() <= tensor->values.size(), "a tensor has as many values as its shape");
  std::copy_n(tensor->values.begin(), values.size(), values.begin());
  return true;
}

std::optional<std::int64_t> TensorflowWeights::step() {
  const std::optional<std::int64_t> step = imported().step;
  return step && *step >= 0 ? step : std::nullopt;
}

std::vector<std::string> TensorflowWeights::unused() {
  std::vector<std::string> names = imported().unknown;
  for (const checkpoint::ImportedTensor& tensor : imported().tensors) {
    const bool parameter = tensor.kind == checkpoint::TensorflowKind::Parameter;
    if (parameter && used_.count(tensor.name) == 0) names.push_back(tensor.name);
  }
  return names;
}

}  // namespace regatta::trainer::interchange
