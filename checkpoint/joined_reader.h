// The tensors of a model or optimizer as one, whether a checkpoint has them in one file or in
// several shards, whole or in ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/safetensors.h"

namespace regatta::checkpoint {

struct JoinedTensor {
  // A range of it in one of the files, or all of it.
  struct Piece {
    std::size_t file = 0;     // of the reader's
    std::string name;         // there
    std::uint64_t bytes = 0;  // after those of the pieces before it
  };

  std::string name;
  std::string dtype;
  // One that lies in ranges has lost its shape: [elements].
  std::vector<std::int64_t> shape;
  bool in_ranges = false;
  std::vector<Piece> pieces;  // in order

  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::uint64_t elements() const;
  // Whether it can be read as `other`: the same shape, or as many elements where the own is lost.
  [[nodiscard]] bool fits(const std::vector<std::int64_t>& other) const;
};

// Open files, whose headers are read; tensors are read on demand. `files` must outlive it. Reads
// may come from several threads.
class JoinedReader {
 public:
  // All shards of `kind` (kModel, kOptimizer) in a checkpoint's directory, or any that holds such
  // files. Code::NotFound when there is none; Code::User, naming directory, file or tensor, when a
  // shard is missing, files of two ways of splitting lie side by side, a file breaks the format, or
  // a tensor stands twice, whole and in a range, in two types, or in ranges that overlap or leave a
  // gap. (What is missing behind the last range shows when the tensor is read.) Reads no digest:
  // CheckpointStore::verify does.
  [[nodiscard]] static JoinedReader open(base::FileSystem& files, const base::Path& directory,
                                         std::string_view kind);

  // In the order in which the files first name them.
  [[nodiscard]] const std::vector<JoinedTensor>& tensors() const { return tensors_; }
  // Null when there is none of that name. Valid as long as the reader.
  [[nodiscard]] const JoinedTensor* find(std::string_view name) const;
  // Reads a whole tensor; Code::User when it is absent, of another type, or does not fit the shape.
  // `out` must be as large as that shape.
  void read(const std::string& name, const std::string& dtype,
            const std::vector<std::int64_t>& shape, std::span<std::byte> out) const;

  [[nodiscard]] std::size_t file_count() const { return files_.size(); }

 private:
  JoinedReader(base::Path directory, std::vector<SafetensorsReader> files);
  void add(std::size_t file, const TensorInfo& info);
  void join();
  [[noreturn]] void fail(const std::string& tensor, const std::string& what) const;

  base::Path directory_;
  std::vector<SafetensorsReader> files_;
  std::vector<JoinedTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

}  // namespace regatta::checkpoint
