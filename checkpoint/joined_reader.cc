#include "checkpoint/joined_reader.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/shards.h"

namespace regatta::checkpoint {
namespace {

std::string shown(const base::Path& path) { return base::printable(path.string()); }

// Elements; nothing where they do not fit in 64 bits.
std::optional<std::uint64_t> count_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, static_cast<std::uint64_t>(size), &count)) {
      return std::nullopt;
    }
  }
  return count;
}

// The files of a kind, in the order of their shards.
std::vector<std::string> shard_names(base::FileSystem& files, const base::Path& directory,
                                     std::string_view kind) {
  std::map<int, std::string> by_shard;
  std::set<int> splits;
  for (const std::string& file : files.list(directory)) {
    const auto name = parse_shard_file(file);
    if (!name || name->kind != kind) continue;
    splits.insert(name->shards);
    const auto [it, added] = by_shard.emplace(name->shard, file);
    if (splits.size() > 1 || !added) {
      throw base::Error(base::Code::User,
                        shown(directory) + ": both " + by_shard.begin()->second + " and " + file +
                            " are there, which are not of one checkpoint; remove the wrong ones");
    }
  }
  if (by_shard.empty()) {
    throw base::Error(base::Code::NotFound, shown(directory) + ": has no " +
                                                shard_file(kind, 0, 1) +
                                                "; name the directory of a checkpoint");
  }
  std::vector<std::string> names;
  for (int shard = 0; shard < *splits.begin(); ++shard) {
    const auto it = by_shard.find(shard);
    if (it == by_shard.end()) {
      throw base::Error(base::Code::User, shown(directory) + ": " +
                                              shard_file(kind, shard, *splits.begin()) +
                                              " is missing; the checkpoint is not whole");
    }
    names.push_back(it->second);
  }
  return names;
}

std::uint64_t range_begin(const JoinedTensor::Piece& piece) {
  const auto range = parse_range_name(piece.name);
  return range ? static_cast<std::uint64_t>(range->begin) : 0;
}

}  // namespace

std::uint64_t JoinedTensor::bytes() const {
  std::uint64_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.bytes;
  return sum;
}

std::uint64_t JoinedTensor::elements() const {
  return bytes() / static_cast<std::uint64_t>(dtype_bytes(dtype).value_or(1));
}

bool JoinedTensor::fits(const std::vector<std::int64_t>& other) const {
  return in_ranges ? count_of(other) == elements() : shape == other;
}

JoinedReader JoinedReader::open(base::FileSystem& files, const base::Path& directory,
                                std::string_view kind) {
  std::vector<SafetensorsReader> readers;
  for (const std::string& name : shard_names(files, directory, kind)) {
    readers.push_back(SafetensorsReader::open(files, directory / name));
  }
  return {directory, std::move(readers)};
}

JoinedReader::JoinedReader(base::Path directory, std::vector<SafetensorsReader> files)
    : directory_(std::move(directory)), files_(std::move(files)) {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (const TensorInfo& info : files_[i].tensors()) add(i, info);
  }
  join();
}

void JoinedReader::fail(const std::string& tensor, const std::string& what) const {
  throw base::Error(base::Code::User,
                    shown(directory_) + ": tensor " + short_name(tensor) + " " + what);
}

void JoinedReader::add(std::size_t file, const TensorInfo& info) {
  const auto range = parse_range_name(info.name);
  const std::string& name = range ? range->tensor : info.name;
  if (range) {
    const std::vector<std::int64_t> shape{range->end - range->begin};
    if (info.shape != shape) {
      fail(info.name, "has the shape " + shape_text(info.shape) + ", which is not its range's");
    }
  }
  const auto [it, added] = by_name_.emplace(name, tensors_.size());
  if (added) tensors_.push_back({name, info.dtype, info.shape, range.has_value(), {}});
  JoinedTensor& tensor = tensors_[it->second];
  if (!added && (!range || !tensor.in_ranges)) {
    fail(name,
         range || tensor.in_ranges ? "stands there whole and in ranges" : "stands in two files");
  }
  if (tensor.dtype != info.dtype) {
    fail(name, "is of type " + tensor.dtype + " and, elsewhere, of " + info.dtype);
  }
  tensor.pieces.push_back({file, info.name, info.end - info.begin});
}

// Puts the ranges in order.
void JoinedReader::join() {
  for (JoinedTensor& tensor : tensors_) {
    if (!tensor.in_ranges) continue;
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const JoinedTensor::Piece& a, const JoinedTensor::Piece& b) {
                return range_begin(a) < range_begin(b);
              });
    std::uint64_t expected = 0;
    const auto width = static_cast<std::uint64_t>(dtype_bytes(tensor.dtype).value_or(1));
    for (const JoinedTensor::Piece& piece : tensor.pieces) {
      const std::uint64_t begin = range_begin(piece);
      if (begin != expected) {
        fail(tensor.name, begin < expected
                              ? "has ranges that overlap at " + std::to_string(begin)
                              : "has no range that begins at " + std::to_string(expected));
      }
      expected = begin + piece.bytes / width;
    }
    tensor.shape = {static_cast<std::int64_t>(expected)};
  }
}

const JoinedTensor* JoinedReader::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

void JoinedReader::read(const std::string& name, const std::string& dtype,
                        const std::vector<std::int64_t>& shape, std::span<std::byte> out) const {
  const JoinedTensor* const tensor = find(name);
  if (tensor == nullptr) fail(name, "is not there");
  if (tensor->dtype != dtype || !tensor->fits(shape)) {
    fail(name, "is " + tensor->dtype + shape_text(tensor->shape) +
                   (tensor->in_ranges ? ", in ranges" : "") + ", expected " + dtype +
                   shape_text(shape));
  }
  base::check(out.size() == tensor->bytes(), "a tensor is read into its own size");
  std::size_t done = 0;
  for (const JoinedTensor::Piece& piece : tensor->pieces) {
    const SafetensorsReader& file = files_[piece.file];
    const auto bytes = static_cast<std::size_t>(piece.bytes);
    file.read(piece.name, dtype, file.find(piece.name)->shape, out.subspan(done, bytes));
    done += bytes;
  }
}

}  // namespace regatta::checkpoint
