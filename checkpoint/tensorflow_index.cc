#include "checkpoint/tensorflow_index.h"

#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/leveldb_table.h"
#include "checkpoint/safetensors.h"

namespace regatta::checkpoint {
namespace {

constexpr std::uint64_t kMaxShards = 99'999;  // five digits in the data files' names
constexpr std::uint64_t kBundleVersion = 1;
constexpr auto kMaxInt64 = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

struct TensorflowDtype {
  std::uint64_t number;  // tensorflow/core/framework/types.proto
  std::string_view name;
  int bytes;
};
constexpr TensorflowDtype kTensorflowDtypes[] = {
    {1, "F32", 4},   {2, "F64", 8},   {3, "I32", 4},  {4, "U8", 1},
    {5, "I16", 2},   {6, "I8", 1},    {8, "C64", 8},  {9, "I64", 8},
    {10, "BOOL", 1}, {14, "BF16", 2}, {17, "U16", 2}, {18, "C128", 16},
    {19, "F16", 2},  {22, "U32", 4},  {23, "U64", 8}, {7, "STRING", 0},
};

enum class Wire : std::uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

// A field of a protocol buffer.
struct Field {
  std::uint64_t number = 0;
  Wire wire = Wire::Varint;
  std::uint64_t value = 0;  // Varint, Fixed32, Fixed64
  std::string_view bytes;   // Bytes
};

// Takes the next field off the front; nothing when it is damaged.
std::optional<Field> take_field(std::string_view* in) {
  const auto tag = take_varint(in);
  if (!tag || *tag >> 3U == 0 || *tag > std::numeric_limits<std::uint32_t>::max()) {
    return std::nullopt;
  }
  Field field;
  field.number = *tag >> 3U;
  field.wire = static_cast<Wire>(*tag & 7U);
  const auto fixed = [&](std::size_t size) {
    if (in->size() < size) return false;
    std::memcpy(&field.value, in->data(), size);
    in->remove_prefix(size);
    return true;
  };
  switch (field.wire) {
    case Wire::Varint:
    case Wire::Bytes: {
      const auto value = take_varint(in);
      if (!value) return std::nullopt;
      field.value = *value;
      if (field.wire == Wire::Varint) return field;
      if (*value > in->size()) return std::nullopt;
      field.bytes = in->substr(0, static_cast<std::size_t>(*value));
      in->remove_prefix(static_cast<std::size_t>(*value));
      return field;
    }
    case Wire::Fixed64:
      return fixed(8) ? std::optional(field) : std::nullopt;
    case Wire::Fixed32:
      return fixed(4) ? std::optional(field) : std::nullopt;
  }
  return std::nullopt;  // groups, which nobody writes any more
}

// One message: its fields in turn, those that may stand once checked for it. Errors name the place.
class Message {
 public:
  Message(std::string_view bytes, std::string where) : rest_(bytes), where_(std::move(where)) {}

  // The next field, nothing at the end.
  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    auto field = take_field(&rest_);
    require(field.has_value(), "is not a protocol buffer; the file is damaged");
    return field;
  }
  void once(const Field& field, const std::string& what) {
    require(seen_.insert(field.number).second, "has two fields for its " + what);
  }
  // A number of 0 to `most`.
  std::uint64_t number(const Field& field, const std::string& what, std::uint64_t most) {
    once(field, what);
    require(field.wire == Wire::Varint, "has a " + what + " that is not a number");
    require(field.value <= most, "has an impossible " + what + ", " +
                                     std::to_string(static_cast<std::int64_t>(field.value)));
    return field.value;
  }
  std::string_view bytes(const Field& field, const std::string& what) const {
    require(field.wire == Wire::Bytes, "has a " + what + " that is not a message");
    return field.bytes;
  }
  void require(bool good, const std::string& what) const {
    if (!good) throw base::Error(base::Code::User, where_ + " " + what);
  }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  std::string_view rest_;
  std::string where_;
  std::set<std::uint64_t> seen_;
};

// BundleHeaderProto: 1 num_shards, 2 endianness (0 little, 1 big), 3 version {1 producer, 2
// min_consumer, 3 bad_consumers}.
int parse_header(std::string_view bytes, const std::string& source) {
  Message header(bytes, source + ": header");
  std::uint64_t shards = 0;
  while (const auto field = header.next()) {
    if (field->number == 1) shards = header.number(*field, "number of data files", kMaxShards);
    if (field->number == 2) {
      header.require(header.number(*field, "byte order", kMaxInt64) == 0,
                     "says that the numbers are big-endian, which is not supported; save the "
                     "checkpoint again on a little-endian machine");
    }
    if (field->number == 3) {
      header.once(*field, "version");
      Message version(header.bytes(*field, "version"), source + ": version");
      while (const auto part = version.next()) {
        if (part->number == 2) {
          const auto least = version.number(*part, "least reader", kMaxInt64);
          version.require(least <= kBundleVersion,
                          "asks for a reader of version " + std::to_string(least) +
                              ", this is one of version 1; save the checkpoint with TensorFlow 1");
        }
      }
    }
  }
  header.require(shards >= 1, "names no data file; the file is damaged");
  return static_cast<int>(shards);
}

// TensorShapeProto: 2 dim {1 size, 2 name}, repeated; 3 unknown_rank.
std::vector<std::int64_t> parse_shape(std::string_view bytes, const std::string& where) {
  Message message(bytes, where);
  std::vector<std::int64_t> shape;
  while (const auto field = message.next()) {
    if (field->number == 3) {
      message.require(message.number(*field, "flag of an unknown shape", 1) == 0,
                      "has no known shape");
    }
    if (field->number != 2) continue;
    message.require(shape.size() < kMaxRank, "has more than 16 dimensions");
    Message dimension(message.bytes(*field, "dimension"), where);
    std::uint64_t size = 0;
    while (const auto part = dimension.next()) {
      if (part->number == 1) size = dimension.number(*part, "dimension", kMaxInt64);
    }
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

std::string dtype_name(std::uint64_t number) {
  for (const TensorflowDtype& dtype : kTensorflowDtypes) {
    if (dtype.number == number) return std::string(dtype.name);
  }
  return "type " + std::to_string(number);
}

// BundleEntryProto: 1 dtype, 2 shape, 3 shard_id, 4 offset, 5 size, 6 crc32c (fixed32), 7 slices,
// repeated.
TensorflowTensor parse_entry(std::string_view key, std::string_view bytes, int shards,
                             const std::string& source) {
  Message entry(bytes, source + ": tensor '" + base::printable(key.substr(0, 80)) + "'");
  TensorflowTensor tensor;
  tensor.name = key;
  std::uint64_t dtype = 0;
  while (const auto field = entry.next()) {
    switch (field->number) {
      case 1:
        dtype = entry.number(*field, "type", std::numeric_limits<std::int32_t>::max());
        break;
      case 2:
        entry.once(*field, "shape");
        tensor.shape = parse_shape(entry.bytes(*field, "shape"), entry.where());
        break;
      case 3:
        tensor.shard = static_cast<int>(
            entry.number(*field, "data file", static_cast<std::uint64_t>(shards) - 1));
        break;
      case 4:
        tensor.offset = entry.number(*field, "offset", kMaxInt64);
        break;
      case 5:
        tensor.size = entry.number(*field, "size", kMaxInt64);
        break;
      case 6:
        entry.once(*field, "checksum");
        entry.require(field->wire == Wire::Fixed32, "has a checksum that is not 32 bits");
        tensor.masked_crc32c = static_cast<std::uint32_t>(field->value);
        break;
      case 7:
        tensor.partitioned = true;
        break;
      default:
        break;
    }
  }
  entry.require(dtype != 0, "has no type");
  tensor.dtype = dtype_name(dtype);
  entry.require(tensor.size <= kMaxInt64 - tensor.offset, "ends beyond any file");
  const int element = tensorflow_dtype_bytes(tensor.dtype);
  const auto expected = tensor_bytes(tensor.shape, element == 0 ? 1 : element);
  entry.require(expected.has_value(), "has more elements than any file can hold");
  entry.require(tensor.partitioned || element == 0 || *expected == tensor.size,
                "has " + std::to_string(tensor.size) + " bytes, but its shape and type (" +
                    tensor.dtype + ") take " + std::to_string(*expected));
  return tensor;
}

}  // namespace

int tensorflow_dtype_bytes(std::string_view dtype) {
  for (const TensorflowDtype& known : kTensorflowDtypes) {
    if (known.name == dtype) return known.bytes;
  }
  return 0;
}

TensorflowIndex parse_tensorflow_index(std::string_view bytes, const std::string& source) {
  TensorflowIndex index;
  read_leveldb_table(bytes, source, [&](std::string_view key, std::string_view value) {
    // The empty key comes before all others, so the first entry is the header or there is none.
    if (index.shards == 0) {
      if (!key.empty()) {
        throw base::Error(base::Code::User,
                          source +
                              ": a table without a checkpoint's header; name a .index file "
                              "that TensorFlow's Saver wrote");
      }
      index.shards = parse_header(value, source);
      return;
    }
    TensorflowTensor tensor = parse_entry(key, value, index.shards, source);
    // Keys of slices begin with a zero byte, names of tensors do not.
    if (key.front() == '\0') {
      ++index.slices;
    } else {
      index.tensors.push_back(std::move(tensor));
    }
  });
  if (index.shards == 0) {
    throw base::Error(base::Code::User, source + ": an empty table; the file is damaged");
  }
  return index;
}

}  // namespace regatta::checkpoint
