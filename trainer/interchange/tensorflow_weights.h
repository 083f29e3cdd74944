// The weights of a TensorFlow 1 checkpoint of google-research/bert, under our names.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/tensorflow_bundle.h"
#include "trainer/contract/model_shape.h"

namespace regatta::trainer::interchange {

class TensorflowWeights {
 public:
  // Reads PREFIX.index and all of BERT's tensors. Throws what checkpoint::read_tensorflow throws.
  TensorflowWeights(base::FileSystem& files, const base::Path& prefix, checkpoint::Moments moments);

  // Whether there is such a tensor.
  [[nodiscard]] bool has(const contract::TensorEntry& entry) const;
  // Fills `values` (as many as the entry has) with the tensor or a moment of it; false when there
  // is none. Rows beyond the vocabulary are cut. Throws Code::User for another shape.
  [[nodiscard]] bool read(const contract::TensorEntry& entry, checkpoint::TensorflowKind kind,
                          std::span<float> values);
  // Of the word embedding; 0 without one.
  [[nodiscard]] std::int64_t rows() const;
  // Optimizer steps done. Throws Code::User when the checkpoint does not say.
  [[nodiscard]] std::int64_t step() const;
  // Parameters that are no part of our model.
  [[nodiscard]] std::vector<std::string> unused() const;

 private:
  [[nodiscard]] const checkpoint::ImportedTensor* find(const std::string& name,
                                                       checkpoint::TensorflowKind kind) const;

  std::string source_;
  checkpoint::TensorflowImport imported_;
  std::map<std::pair<std::string, checkpoint::TensorflowKind>, std::size_t> by_name_;
  std::set<std::string> used_;
};

}  // namespace regatta::trainer::interchange
