// The weights of a Hugging Face directory, read as float32 under our names.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/safetensors.h"
#include "trainer/contract/model_shape.h"

namespace regatta::trainer::interchange {

class HuggingFaceWeights {
 public:
  // Opens model.safetensors of a directory whose word embedding has `rows` rows. Throws Code::User
  // or NotFound, naming the way out, where there is none but PyTorch's pickle or a sharded model,
  // or the file breaks the format.
  HuggingFaceWeights(base::FileSystem& files, const base::Path& directory, std::int64_t rows);

  // Whether the file has a tensor under one of the names of ours, of whatever shape.
  [[nodiscard]] bool has_name(const std::string& tensor) const;
  // Whether the file has the tensor, by one of its names; reads the file's header only. Throws
  // Code::User for another shape or type, and for a tensor under two names at once.
  [[nodiscard]] bool has(const contract::TensorEntry& entry) const;
  // Fills `values` (as many as the entry has) with a tensor that it has(), F16 and BF16 widened. Of
  // tensors with a row or element per piece the first ones are taken, and the rest is cut. Throws
  // Code::User also for a decoder that is not the word embedding.
  void read(const contract::TensorEntry& entry, std::span<float> values);
  // Names that read() has not asked for.
  [[nodiscard]] std::vector<std::string> unused() const;

 private:
  // Where the file has a tensor: under one name, and under those of copies that models with tied
  // weights may hold. The name is empty where it has none.
  struct Stored {
    std::string name;
    std::vector<std::string> copies;
    std::vector<std::int64_t> shape;
  };
  [[nodiscard]] Stored find(const contract::TensorEntry& entry) const;
  // F32, F16 or BF16.
  [[nodiscard]] const checkpoint::TensorInfo& weights_of(
      const std::string& name, const std::vector<std::int64_t>& shape) const;
  [[nodiscard]] std::vector<float> read_all(const std::string& name,
                                            const std::vector<std::int64_t>& shape) const;
  [[noreturn]] void fail(const std::string& what) const;

  base::Path path_;
  std::int64_t rows_;
  checkpoint::SafetensorsReader reader_;
  std::set<std::string> used_;
};

}  // namespace regatta::trainer::interchange
