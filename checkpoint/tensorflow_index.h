// The .index file of a TensorFlow 1 checkpoint (a "tensor bundle"): which tensors there are, and
// where in which data file. A table of LevelDB's whose values are protocol
// buffers; docs/formats/checkpoint.md gives the bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::checkpoint {

struct TensorflowTensor {
  std::string name;
  std::string dtype;                // as safetensors calls it, else "STRING", "C64", "type 21", …
  std::vector<std::int64_t> shape;  // row-major
  int shard = 0;                    // the data file it lies in
  std::uint64_t offset = 0;         // bytes from the start of that file
  std::uint64_t size = 0;           // bytes
  std::uint32_t masked_crc32c = 0;  // of those bytes
  bool partitioned = false;         // saved in slices under other keys; has no bytes of its own

  friend bool operator==(const TensorflowTensor&, const TensorflowTensor&) = default;
};

struct TensorflowIndex {
  int shards = 0;                         // data files
  std::vector<TensorflowTensor> tensors;  // by name
  int slices = 0;                         // entries of partitioned tensors, not listed

  friend bool operator==(const TensorflowIndex&, const TensorflowIndex&) = default;
};

// Bytes of an element; 0 for a type that cannot be read (text, resources, …).
[[nodiscard]] int tensorflow_dtype_bytes(std::string_view dtype);

// Throws Code::User naming `source`, and the tensor where there is one, for what breaks the format,
// is big-endian or needs a newer reader; Code::Operator when it is compressed with Snappy and this
// build lacks it.
[[nodiscard]] TensorflowIndex parse_tensorflow_index(std::string_view bytes,
                                                     const std::string& source);

}  // namespace regatta::checkpoint
