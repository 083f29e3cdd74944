// The weights of a TensorFlow 1 checkpoint of google-research/bert, under our names.
#pragma once

#include <map>
#include <optional>
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
  // Reads PREFIX.index; all of BERT's tensors are read when the first one is asked for. Both throw
  // what checkpoint::read_tensorflow throws; a missing data file shows here.
  TensorflowWeights(base::FileSystem& files, const base::Path& prefix, checkpoint::Moments moments);

  // Whether the index names one of our tensors, of whatever shape.
  [[nodiscard]] bool has_name(const std::string& tensor) const;
  // Fills `values` (as many as the entry has) with the tensor or a moment of it; false when there
  // is none. Rows beyond the vocabulary are cut. Throws Code::User for another shape.
  [[nodiscard]] bool read(const contract::TensorEntry& entry, checkpoint::TensorflowKind kind,
                          std::span<float> values);
  // Of the word embedding; 0 without one.
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  // Optimizer steps done; nothing when the checkpoint does not say.
  [[nodiscard]] std::optional<std::int64_t> step();
  // Parameters that are no part of our model.
  [[nodiscard]] std::vector<std::string> unused();

 private:
  [[nodiscard]] const checkpoint::TensorflowImport& imported();
  [[nodiscard]] const checkpoint::ImportedTensor* find(const std::string& name,
                                                       checkpoint::TensorflowKind kind);

  base::FileSystem& files_;
  base::Path prefix_;
  checkpoint::Moments moments_;
  std::int64_t rows_ = 0;
  std::set<std::string> names_;  // of our parameters
  std::optional<checkpoint::TensorflowImport> imported_;
  std::map<std::pair<std::string, checkpoint::TensorflowKind>, std::size_t> by_name_;
  std::set<std::string> used_;
};

}  // namespace regatta::trainer::interchange
