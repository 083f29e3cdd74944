// Reading TensorFlow 1 checkpoints: PREFIX.index and PREFIX.data-00000-of-00001, …
// docs/formats/checkpoint.md gives the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/tensorflow_index.h"
#include "checkpoint/tensorflow_names.h"

namespace regatta::checkpoint {

// An open checkpoint: the index is read and checked, tensors are read on demand. `files` must
// outlive it. Reads may come from several threads.
class TensorflowReader {
 public:
  // `prefix` is the path without ".index"; with it is fine too. The data files need not be there.
  // Throws what parse_tensorflow_index and the file system throw.
  [[nodiscard]] static TensorflowReader open(base::FileSystem& files, const base::Path& prefix);

  [[nodiscard]] const TensorflowIndex& index() const { return index_; }
  [[nodiscard]] const std::vector<TensorflowTensor>& tensors() const { return index_.tensors; }
  // Null when there is none of that name. Valid as long as the reader.
  [[nodiscard]] const TensorflowTensor* find(std::string_view name) const;
  [[nodiscard]] base::Path data_file(int shard) const;

  // Throws what reading it would throw before its first byte, so that memory is not taken for a
  // size that the data file does not have.
  void check_readable(std::string_view name) const;
  // Reads a whole tensor's bytes (little-endian, row-major) and checks them; `out` must have the
  // tensor's size. Code::User for one that is absent, partitioned, cut short or damaged;
  // Code::NotFound when its data file is missing.
  void read(std::string_view name, std::span<std::byte> out) const;
  // The same as float32, from F32, F64, F16 or BF16; Code::User for other types. `out` must have as
  // many elements as the tensor.
  void read_float32(std::string_view name, std::span<float> out) const;
  // The same, transposed: for a tensor of [rows, columns], out[c·rows + r] = tensor[r][c].
  // Code::User when it has not two dimensions.
  void read_transposed(std::string_view name, std::span<float> out) const;

 private:
  TensorflowReader(base::FileSystem& files, base::Path prefix, TensorflowIndex index);

  [[nodiscard]] const TensorflowTensor& at(std::string_view name) const;
  [[nodiscard]] std::string where(const TensorflowTensor& tensor) const;

  base::FileSystem* files_;
  base::Path prefix_;
  TensorflowIndex index_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

struct ImportedTensor {
  std::string name;  // Hugging Face's
  TensorflowKind kind = TensorflowKind::Parameter;
  std::vector<std::int64_t> shape;  // row-major, kernels already [outputs, inputs]
  std::vector<float> values;
};

struct TensorflowImport {
  std::vector<ImportedTensor> tensors;  // by name, a parameter before its moments
  std::optional<std::int64_t> step;     // global_step, if it is there
  std::vector<std::string> unknown;     // tensors that are not BERT's, by their own names; not read
};

enum class Moments : std::uint8_t { Skip, Read };

// Reads all that is BERT's into memory (BERT-large: 1.3 GB, with moments 4 GB). Code::User also for
// a checkpoint without any of BERT's tensors, or with two for one of ours.
[[nodiscard]] TensorflowImport read_tensorflow(base::FileSystem& files, const base::Path& prefix,
                                               Moments moments);

}  // namespace regatta::checkpoint
