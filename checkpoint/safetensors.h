// Reading and writing .safetensors files: https://github.com/huggingface/safetensors, "Format".
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

#include "base/clock.h"
#include "base/file_system.h"

namespace regatta::checkpoint {

// Bytes of one element of "F32", "BF16", …; nothing for a type that the format does not have.
[[nodiscard]] std::optional<int> dtype_bytes(std::string_view dtype);

// Of a tensor in any file that is read.
inline constexpr std::size_t kMaxRank = 16;
inline constexpr std::uint64_t kReadBlock = std::uint64_t{8} << 20U;  // bytes read at a time
// Bytes of a tensor, or nothing when they do not fit in 63 bits.
[[nodiscard]] std::optional<std::uint64_t> tensor_bytes(const std::vector<std::int64_t>& shape,
                                                        int element);
// As messages have them: "'bert.pooler.dense.bias'", cut at 80 characters; "[2, 3]".
[[nodiscard]] std::string short_name(const std::string& name);
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);

// A tensor in memory; `bytes` are borrowed, row-major and little-endian.
struct NamedTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// A tensor in a file.
struct TensorInfo {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes from the start of the data section
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // by position in the file
  std::map<std::string, std::string> metadata;
  std::uint64_t data_bytes = 0;
};

// The header's JSON text, without the eight length bytes. Throws Code::User with `source` for every
// violation of the format: not JSON, names twice, unknown type, size that does not fit the shape,
// tensors that overlap, leave a gap or start at no multiple of their element size.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view json,
                                                         const std::string& source);

// What stands before the data of a file.
struct SafetensorsFront {
  std::string json;  // the header's bytes
  SafetensorsHeader header;
  std::uint64_t data_begin = 0;  // bytes from the start of the file
};
// Throws as SafetensorsReader::open does, but does not look whether the data is all there.
[[nodiscard]] SafetensorsFront read_safetensors_front(base::FileSystem& files,
                                                      const base::Path& path);

// An open file: the header is read and checked against the file's size, tensors are read on demand.
// `files` must outlive it. Reads may come from several threads.
class SafetensorsReader {
 public:
  // Throws Code::User for a file that breaks the format, else what the file system throws.
  [[nodiscard]] static SafetensorsReader open(base::FileSystem& files, const base::Path& path);

  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const {
    return header_.metadata;
  }
  // Null when there is none of that name. Valid as long as the reader.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;
  // The tensor, of which no byte is read; Code::User when it is absent or of another type or shape
  // than asked for. Valid as long as the reader.
  const TensorInfo& expect(const std::string& name, const std::string& dtype,
                           const std::vector<std::int64_t>& shape) const;
  // Reads a whole tensor that is as expect() wants it. `out` must be as large as that shape.
  void read(const std::string& name, const std::string& dtype,
            const std::vector<std::int64_t>& shape, std::span<std::byte> out) const;

 private:
  SafetensorsReader(base::FileSystem& files, base::Path path, SafetensorsHeader header,
                    std::uint64_t data_begin);

  base::FileSystem* files_;
  base::Path path_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::uint64_t data_begin_;  // bytes from the start of the file
};

struct WrittenFile {
  std::uint64_t bytes = 0;
  std::string digest;        // XXH3-128 of all bytes
  double write_seconds = 0;  // bytes to the file system, digest included
  double sync_seconds = 0;
};

// Bytes that write_safetensors will need.
[[nodiscard]] std::uint64_t safetensors_bytes(std::span<const NamedTensor> tensors,
                                              const std::map<std::string, std::string>& metadata);

// Creates the file (Code::Conflict when it exists) with the tensors in the given order and syncs
// it. Code::Developer for tensors that the format cannot hold (names twice, bytes that do not fit).
WrittenFile write_safetensors(base::FileSystem& files, const base::Path& path,
                              std::span<const NamedTensor> tensors,
                              const std::map<std::string, std::string>& metadata,
                              const base::Clock& clock = base::system_clock());

}  // namespace regatta::checkpoint
