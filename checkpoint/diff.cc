#include "checkpoint/diff.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/joined_reader.h"
#include "checkpoint/load.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shards.h"
#include "checkpoint/store.h"

namespace regatta::checkpoint {
namespace {

constexpr std::uint64_t kMostManifestRead = std::uint64_t{16} << 20U;

template <typename T>
double element(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

double bfloat16(const std::byte* bytes) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16U));
}

// IEEE 754 binary16.
double float16(const std::byte* bytes) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  const int exponent = (bits >> 10U) & 0x1F;
  const int fraction = bits & 0x3FF;
  double value = exponent == 0    ? std::ldexp(fraction, -24)
                 : exponent != 31 ? std::ldexp(1024 + fraction, exponent - 25)
                 : fraction != 0  ? std::nan("")
                                  : HUGE_VAL;
  return (bits & 0x8000U) != 0 ? -value : value;
}

// Reads one element; null for a type whose elements have no single plain number here.
using Reader = double (*)(const std::byte*);
Reader reader_of(const std::string& dtype) {
  static const std::map<std::string, Reader> readers{
      {"BOOL", element<std::uint8_t>},
      {"U8", element<std::uint8_t>},
      {"I8", element<std::int8_t>},
      {"I16", element<std::int16_t>},
      {"U16", element<std::uint16_t>},
      {"I32", element<std::int32_t>},
      {"U32", element<std::uint32_t>},
      {"I64", element<std::int64_t>},
      {"U64", element<std::uint64_t>},
      {"F32", element<float>},
      {"F64", element<double>},
      {"F16", float16},
      {"BF16", bfloat16},
  };
  const auto it = readers.find(dtype);
  return it == readers.end() ? nullptr : it->second;
}

std::string layout_text(const JoinedTensor& tensor) {
  return shape_text(tensor.shape) + (tensor.in_ranges ? " in ranges" : "");
}

std::vector<std::int64_t> index_of(std::size_t position, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto size = static_cast<std::size_t>(shape[i]);
    index[i] = static_cast<std::int64_t>(position % size);
    position /= size;
  }
  return index;
}

// A Euclidean norm that neither overflows nor loses what is small: the squares are of the values
// divided by the largest so far (as BLAS's nrm2).
class Norm {
 public:
  void add(double value) {
    const double size = std::fabs(value);
    if (size == 0) return;
    if (size > scale_) {
      sum_ = 1 + sum_ * (scale_ / size) * (scale_ / size);
      scale_ = size;
    } else {
      sum_ += (size / scale_) * (size / scale_);
    }
  }
  [[nodiscard]] double value() const { return scale_ * std::sqrt(sum_); }

 private:
  double scale_ = 0;
  double sum_ = 0;
};

struct Elements {
  std::vector<std::byte> bytes;
  std::size_t width = 0;
  Reader read = nullptr;

  Elements(const JoinedReader& reader, const JoinedTensor& info)
      : bytes(static_cast<std::size_t>(info.bytes())),
        width(static_cast<std::size_t>(dtype_bytes(info.dtype).value_or(1))),
        read(reader_of(info.dtype)) {
    reader.read(info.name, info.dtype, info.shape, bytes);
  }
  [[nodiscard]] std::size_t size() const { return bytes.size() / width; }
  [[nodiscard]] double at(std::size_t i) const { return read(bytes.data() + i * width); }
};

TensorDifference compare(const JoinedReader& reader_a, const JoinedTensor& a,
                         const JoinedReader& reader_b, const JoinedTensor& b) {
  TensorDifference out;
  out.name = a.name;
  out.dtype_a = a.dtype;
  out.dtype_b = b.dtype;
  out.shape = a.in_ranges ? b.shape : a.shape;
  const Elements left(reader_a, a);
  const Elements right(reader_b, b);
  out.same_bits = a.dtype == b.dtype && left.bytes == right.bytes;
  Norm norm_a;
  Norm norm_b;
  Norm norm;
  std::size_t position = left.size();
  for (std::size_t i = 0; i < left.size(); ++i) {
    const double x = left.at(i);
    const double y = right.at(i);
    out.not_finite_a += std::isfinite(x) ? 0 : 1;
    out.not_finite_b += std::isfinite(y) ? 0 : 1;
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    norm_a.add(x);
    norm_b.add(y);
    const double difference = std::fabs(x - y);
    norm.add(difference);
    if (difference > out.largest) {
      out.largest = difference;
      position = i;
    }
  }
  if (position < left.size()) out.at = index_of(position, out.shape);
  out.norm_a = norm_a.value();
  out.norm_b = norm_b.value();
  out.norm = norm.value();
  const double larger = std::max(out.norm_a, out.norm_b);
  out.relative = larger > 0 ? out.norm / larger : 0;
  return out;
}

std::optional<std::string> misfit(const JoinedTensor& a, const JoinedTensor* b) {
  if (b == nullptr) return "only in a";
  if (!a.fits(b->shape) && !b->fits(a.shape)) {
    return "shape " + layout_text(a) + " in a, " + layout_text(*b) + " in b";
  }
  for (const JoinedTensor* const info : {&a, b}) {
    if (reader_of(info->dtype) == nullptr) return "elements of type " + info->dtype;
  }
  return std::nullopt;
}

}  // namespace

CheckpointDifference compare_checkpoints(base::FileSystem& files, const base::Path& a,
                                         const base::Path& b, std::string_view kind) {
  const JoinedReader left = JoinedReader::open(files, a, kind);
  const JoinedReader right = JoinedReader::open(files, b, kind);
  CheckpointDifference out;
  for (const JoinedTensor& info : left.tensors()) {
    const JoinedTensor* const other = right.find(info.name);
    if (const auto what = misfit(info, other)) {
      out.misfits.push_back({info.name, *what});
    } else {
      out.tensors.push_back(compare(left, info, right, *other));
    }
  }
  for (const JoinedTensor& info : right.tensors()) {
    if (left.find(info.name) == nullptr) out.misfits.push_back({info.name, "only in b"});
  }
  std::sort(out.misfits.begin(), out.misfits.end(),
            [](const TensorMisfit& x, const TensorMisfit& y) { return x.name < y.name; });
  std::sort(out.tensors.begin(), out.tensors.end(),
            [](const TensorDifference& x, const TensorDifference& y) {
              const bool odd_x = x.not_finite_a != x.not_finite_b;
              const bool odd_y = y.not_finite_a != y.not_finite_b;
              if (odd_x != odd_y) return odd_x;
              return x.relative != y.relative ? x.relative > y.relative : x.name < y.name;
            });
  return out;
}

std::optional<std::string> damage_of_kind(base::FileSystem& files, const base::Path& directory,
                                          std::string_view kind) {
  if (!files.exists(directory / kManifestFile)) return std::nullopt;
  try {
    const Manifest manifest =
        parse_manifest(files.read(directory / kManifestFile, kMostManifestRead), kManifestFile);
    for (const auto& [name, expected] : manifest.files) {
      const auto shard = parse_shard_file(name);
      if (!shard || shard->kind != kind) continue;
      if (auto damage = file_damage(files, directory / name, name, expected)) return damage;
    }
  } catch (const base::Error& error) {
    if (error.code() != base::Code::User && error.code() != base::Code::NotFound) throw;
    return std::string(error.what());
  }
  return std::nullopt;
}

}  // namespace regatta::checkpoint
