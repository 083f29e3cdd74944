#include "checkpoint/tensorflow_bundle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/safetensors.h"

namespace regatta::checkpoint {
namespace {

// BERT-large's with its moments is 60 kB; what is parsed takes several times the file's size.
constexpr std::uint64_t kMaxIndex = std::uint64_t{16} << 20U;
constexpr std::string_view kIndexSuffix = ".index";

std::uint64_t elements_of(const TensorflowTensor& tensor) {
  std::uint64_t elements = 1;
  for (const std::int64_t dimension : tensor.shape)
    elements *= static_cast<std::uint64_t>(dimension);
  return elements;
}

// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits.
float half_to_float(std::uint16_t half) {
  const bool negative = (half & 0x8000U) != 0;
  const int exponent = (half >> 10U) & 0x1F;
  const int fraction = half & 0x3FF;
  float value = 0;
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return negative ? -value : value;
}

template <typename Stored, typename Convert>
void convert(std::span<const std::byte> bytes, std::span<float> out, const Convert& one) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored stored{};
    std::memcpy(&stored, bytes.data() + i * sizeof stored, sizeof stored);
    out[i] = one(stored);
  }
}

}  // namespace

TensorflowReader::TensorflowReader(base::FileSystem& files, base::Path prefix,
                                   TensorflowIndex index)
    : files_(&files), prefix_(std::move(prefix)), index_(std::move(index)) {
  for (std::size_t i = 0; i < index_.tensors.size(); ++i) by_name_[index_.tensors[i].name] = i;
}

TensorflowReader TensorflowReader::open(base::FileSystem& files, const base::Path& prefix) {
  std::string path = prefix.string();
  if (path.ends_with(kIndexSuffix)) path.resize(path.size() - kIndexSuffix.size());
  const std::string name = path + std::string(kIndexSuffix);
  if (!files.exists(name)) {
    throw base::Error(base::Code::NotFound,
                      name +
                          " does not exist; name a TensorFlow checkpoint by its path without "
                          ".index");
  }
  return {files, path, parse_tensorflow_index(files.read(name, kMaxIndex), name)};
}

const TensorflowTensor* TensorflowReader::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &index_.tensors[it->second];
}

base::Path TensorflowReader::data_file(int shard) const {
  char suffix[32];
  std::snprintf(suffix, sizeof suffix, ".data-%05d-of-%05d", shard, index_.shards);
  return prefix_.string() + suffix;
}

const TensorflowTensor& TensorflowReader::at(std::string_view name) const {
  const TensorflowTensor* const tensor = find(name);
  if (tensor == nullptr) {
    throw base::Error(base::Code::User, prefix_.string() + std::string(kIndexSuffix) +
                                            ": has no tensor '" +
                                            base::printable(name.substr(0, 80)) + "'");
  }
  return *tensor;
}

std::string TensorflowReader::where(const TensorflowTensor& tensor) const {
  return data_file(tensor.shard).string() + ": tensor '" +
         base::printable(tensor.name.substr(0, 80)) + "'";
}

void TensorflowReader::check_readable(std::string_view name) const {
  const TensorflowTensor& tensor = at(name);
  if (tensor.partitioned) {
    throw base::Error(base::Code::User, where(tensor) +
                                            " is partitioned into slices, which is "
                                            "not supported; save it without a "
                                            "partitioner");
  }
  const base::Path path = data_file(tensor.shard);
  if (!files_->exists(path)) {
    throw base::Error(base::Code::NotFound, path.string() +
                                                " is missing; the index alone holds no weights, "
                                                "put the data file beside it");
  }
  if (tensor.size == 0) return;
  const std::uint64_t end = tensor.offset + tensor.size;
  if (files_->read_at(path, end - 1, 1).empty()) {
    throw base::Error(base::Code::User, where(tensor) + " ends at byte " + std::to_string(end) +
                                            ", beyond the file's end; copy the whole file");
  }
}

void TensorflowReader::read(std::string_view name, std::span<std::byte> out) const {
  const TensorflowTensor& tensor = at(name);
  check_readable(name);
  base::check(out.size() == tensor.size, "a tensor is read into memory of its size");
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < tensor.size;) {
    const std::uint64_t wanted = std::min(kReadBlock, tensor.size - done);
    const std::string block =
        files_->read_at(data_file(tensor.shard), tensor.offset + done, wanted);
    if (block.size() < wanted) {  // someone cut it short meanwhile
      throw base::Error(base::Code::User, where(tensor) +
                                              " ends beyond the file's end; copy the "
                                              "whole file");
    }
    std::memcpy(out.data() + done, block.data(), block.size());
    crc = extend_crc32c(crc, std::as_bytes(std::span(block)));
    done += wanted;
  }
  if (masked_crc32c(crc) != tensor.masked_crc32c) {
    throw base::Error(base::Code::User, where(tensor) +
                                            " has a wrong checksum; the file is "
                                            "damaged, or of another checkpoint");
  }
}

void TensorflowReader::read_float32(std::string_view name, std::span<float> out) const {
  const TensorflowTensor& tensor = at(name);
  base::check(out.size() == elements_of(tensor), "a tensor is read into memory of its elements");
  if (tensor.dtype == "F32") return read(name, std::as_writable_bytes(out));
  if (tensor.dtype != "F64" && tensor.dtype != "F16" && tensor.dtype != "BF16") {
    throw base::Error(base::Code::User,
                      where(tensor) + " is " + tensor.dtype + ", expected floating-point numbers");
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.size));
  read(name, bytes);
  if (tensor.dtype == "F64") {
    convert<double>(bytes, out, [](double value) { return static_cast<float>(value); });
  } else if (tensor.dtype == "F16") {
    convert<std::uint16_t>(bytes, out, half_to_float);
  } else {
    convert<std::uint16_t>(bytes, out, [](std::uint16_t value) {
      return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16U);
    });
  }
}

void TensorflowReader::read_transposed(std::string_view name, std::span<float> out) const {
  const TensorflowTensor& tensor = at(name);
  if (tensor.shape.size() != 2) {
    throw base::Error(
        base::Code::User,
        where(tensor) + " has " + std::to_string(tensor.shape.size()) + " dimensions, expected 2");
  }
  std::vector<float> read(out.size());
  read_float32(name, read);
  const auto rows = static_cast<std::size_t>(tensor.shape[0]);
  const auto columns = static_cast<std::size_t>(tensor.shape[1]);
  constexpr std::size_t kTile = 32;  // both sides of a tile stay in the first-level cache
  for (std::size_t row = 0; row < rows; row += kTile) {
    for (std::size_t column = 0; column < columns; column += kTile) {
      for (std::size_t r = row; r < std::min(row + kTile, rows); ++r) {
        for (std::size_t c = column; c < std::min(column + kTile, columns); ++c) {
          out[c * rows + r] = read[r * columns + c];
        }
      }
    }
  }
}

namespace {

std::int64_t read_step(const TensorflowReader& reader, const TensorflowTensor& tensor,
                       const std::string& source) {
  std::int64_t step = -1;
  if (tensor.shape.empty() && tensor.dtype == "I64") {
    reader.read(tensor.name, std::as_writable_bytes(std::span(&step, 1)));
  } else if (tensor.shape.empty() && tensor.dtype == "I32") {
    std::int32_t narrow = -1;
    reader.read(tensor.name, std::as_writable_bytes(std::span(&narrow, 1)));
    step = narrow;
  }
  if (step < 0) {
    throw base::Error(base::Code::User, source + ": global_step is " + tensor.dtype + ", " +
                                            std::to_string(step) +
                                            ", expected one whole number that is not negative");
  }
  return step;
}

}  // namespace

TensorflowImport read_tensorflow(base::FileSystem& files, const base::Path& prefix,
                                 Moments moments) {
  const TensorflowReader reader = TensorflowReader::open(files, prefix);
  const std::string source = prefix.string();
  TensorflowImport imported;
  std::map<std::pair<std::string, TensorflowKind>, std::string> taken;  // theirs by ours
  for (const TensorflowTensor& tensor : reader.tensors()) {
    const auto mapped = map_tensorflow_name(tensor.name);
    if (!mapped) {
      imported.unknown.push_back(tensor.name);
      continue;
    }
    if (mapped->kind == TensorflowKind::Step) {
      imported.step = read_step(reader, tensor, source);
      continue;
    }
    if (mapped->kind != TensorflowKind::Parameter && moments == Moments::Skip) continue;
    const auto [it, fresh] = taken.emplace(std::pair(mapped->name, mapped->kind), tensor.name);
    if (!fresh) {
      throw base::Error(base::Code::User, source + ": '" + it->second + "' and '" + tensor.name +
                                              "' are both " + mapped->name);
    }
    ImportedTensor ours{mapped->name, mapped->kind, tensor.shape, {}};
    reader.check_readable(tensor.name);
    ours.values.resize(static_cast<std::size_t>(elements_of(tensor)));
    if (mapped->transpose) {
      reader.read_transposed(tensor.name, ours.values);
      std::reverse(ours.shape.begin(), ours.shape.end());
    } else {
      reader.read_float32(tensor.name, ours.values);
    }
    imported.tensors.push_back(std::move(ours));
  }
  if (taken.empty()) {
    throw base::Error(base::Code::User, source +
                                            ": none of its tensors is BERT's; name a checkpoint of "
                                            "google-research/bert's code");
  }
  std::sort(imported.tensors.begin(), imported.tensors.end(),
            [](const ImportedTensor& a, const ImportedTensor& b) {
              return a.name != b.name ? a.name < b.name : a.kind < b.kind;
            });
  return imported;
}

}  // namespace regatta::checkpoint
