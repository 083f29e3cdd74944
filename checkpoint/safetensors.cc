#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"

namespace regatta::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

constexpr std::uint64_t kLengthBytes = 8;
// Our largest model needs a third of a megabyte; the format itself allows 100 MB, which as parsed
// JSON would be gigabytes.
constexpr std::uint64_t kMaxHeader = std::uint64_t{16} << 20U;
constexpr int kMaxHeaderDepth = 4;
constexpr std::size_t kWriteBlock = std::size_t{256} << 10U;
constexpr const char* kMetadataName = "__metadata__";

struct Dtype {
  std::string_view name;
  int bytes;
};
constexpr Dtype kDtypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
    {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8},
};

// Parses JSON into a tree; a key that stands twice in one object is an error, which a tree cannot
// show afterwards.
nlohmann::json parse_unique(std::string_view text, const std::string& source) {
  if (!base::json_depth_at_most(text, kMaxHeaderDepth)) {
    throw base::Error(base::Code::User, source + ": header nested too deeply; the file is damaged");
  }
  std::vector<std::set<std::string>> open;
  std::string twice;
  const auto watch = [&](int /*depth*/, nlohmann::json::parse_event_t event,
                         nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end && !open.empty()) open.pop_back();
    if (event == Event::key && !open.empty()) {
      auto key = parsed.get<std::string>();
      if (!open.back().insert(key).second) twice = std::move(key);
    }
    return true;
  };
  // The parser takes a NUL byte for the end of its input.
  const bool whole = text.find('\0') == std::string_view::npos;
  nlohmann::json tree = whole ? nlohmann::json::parse(text, watch, false) : nlohmann::json();
  if (tree.is_discarded() || !tree.is_object()) {
    throw base::Error(base::Code::User,
                      source + ": header is not a JSON object; the file is damaged");
  }
  if (!twice.empty()) {
    throw base::Error(base::Code::User, source + ": " + short_name(twice) + " stands twice");
  }
  return tree;
}

TensorInfo parse_tensor(const std::string& name, const nlohmann::json& json,
                        const std::string& source) {
  const auto require = [&](bool good, const std::string& what) {
    if (!good) {
      throw base::Error(base::Code::User, source + ": tensor " + short_name(name) + ": " + what);
    }
  };
  require(json.is_object() && json.size() == 3 && json.contains("dtype") &&
              json.contains("shape") && json.contains("data_offsets"),
          "expected exactly dtype, shape and data_offsets");
  TensorInfo tensor;
  tensor.name = name;
  require(json["dtype"].is_string(), "dtype is not text");
  tensor.dtype = json["dtype"].get<std::string>();
  const auto element = dtype_bytes(tensor.dtype);
  require(element.has_value(), "unknown dtype " + short_name(tensor.dtype));

  const nlohmann::json& shape = json["shape"];
  require(shape.is_array() && shape.size() <= kMaxRank, "shape is not a list of at most 16 sizes");
  for (const nlohmann::json& dimension : shape) {
    require(dimension.is_number_unsigned() &&
                dimension.get<std::uint64_t>() <=
                    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
            "a size in shape is not a whole number of 0 to 2^63 - 1");
    tensor.shape.push_back(dimension.get<std::int64_t>());
  }
  const nlohmann::json& offsets = json["data_offsets"];
  require(offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
              offsets[1].is_number_unsigned(),
          "data_offsets is not two whole numbers");
  tensor.begin = offsets[0].get<std::uint64_t>();
  tensor.end = offsets[1].get<std::uint64_t>();
  require(tensor.begin <= tensor.end, "ends before it begins");
  const auto bytes = tensor_bytes(tensor.shape, *element);
  require(bytes.has_value() && *bytes == tensor.end - tensor.begin,
          "holds " + std::to_string(tensor.end - tensor.begin) + " bytes, which is not " +
              tensor.dtype + shape_text(tensor.shape));
  require(tensor.begin % static_cast<std::uint64_t>(*element) == 0,
          "begins at byte " + std::to_string(tensor.begin) + ", which is not a multiple of its " +
              std::to_string(*element) + "-byte elements");
  return tensor;
}

std::string header_text(std::span<const NamedTensor> tensors,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json[kMetadataName] = metadata;
  std::uint64_t begin = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::uint64_t end = begin + tensor.bytes.size();
    json[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception&) {  // a name that is not UTF-8
    throw base::Error(base::Code::Developer, "a tensor name is not UTF-8; rename the tensor");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

std::string short_name(const std::string& name) {
  return "'" + base::printable(name.substr(0, 80)) + "'";
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> parts;
  for (const std::int64_t dimension : shape) parts.push_back(std::to_string(dimension));
  return "[" + base::join(parts, ", ") + "]";
}

std::optional<std::uint64_t> tensor_bytes(const std::vector<std::int64_t>& shape, int element) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  auto bytes = static_cast<std::uint64_t>(element);
  for (const std::int64_t dimension : shape) {
    const auto factor = static_cast<std::uint64_t>(dimension);
    if (factor != 0 && bytes > kMost / factor) return std::nullopt;
    bytes *= factor;
  }
  return bytes;
}

std::optional<int> dtype_bytes(std::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) return known.bytes;
  }
  return std::nullopt;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& source) {
  if (json.empty() || json.front() != '{') {
    throw base::Error(base::Code::User,
                      source + ": header does not begin with '{'; the file is damaged");
  }
  const nlohmann::json tree = parse_unique(json, source);
  SafetensorsHeader header;
  for (const auto& [name, value] : tree.items()) {
    if (name != kMetadataName) {
      header.tensors.push_back(parse_tensor(name, value, source));
      continue;
    }
    bool texts = value.is_object();
    for (const auto& [key, text] : value.items()) {
      texts = texts && text.is_string();
      if (texts) header.metadata[key] = text.get<std::string>();
    }
    if (!texts)
      throw base::Error(base::Code::User, source + ": __metadata__ must map text to text");
  }
  // Empty tensors share their begin with the next one, so the end decides among equals.
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) {
              return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
            });
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.begin != header.data_bytes) {
      const bool overlap = tensor.begin < header.data_bytes;
      throw base::Error(base::Code::User,
                        source + ": tensor " + short_name(tensor.name) +
                            (overlap ? " overlaps the one before it" : " leaves a gap before it") +
                            " at byte " + std::to_string(tensor.begin) + " of the data");
    }
    header.data_bytes = tensor.end;
  }
  return header;
}

SafetensorsReader::SafetensorsReader(base::FileSystem& files, base::Path path,
                                     SafetensorsHeader header, std::uint64_t data_begin)
    : files_(&files), path_(std::move(path)), header_(std::move(header)), data_begin_(data_begin) {
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) by_name_[header_.tensors[i].name] = i;
}

SafetensorsFront read_safetensors_front(base::FileSystem& files, const base::Path& path) {
  const std::string source = path.string();
  const std::string length_bytes = files.read_at(path, 0, kLengthBytes);
  if (length_bytes.size() < kLengthBytes) {
    throw base::Error(base::Code::User, source + ": shorter than 8 bytes; the file is damaged");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, length_bytes.data(), kLengthBytes);
  if (length > kMaxHeader) {
    throw base::Error(base::Code::User, source + ": says its header is " + std::to_string(length) +
                                            " bytes long; at most " + std::to_string(kMaxHeader) +
                                            " are accepted");
  }
  SafetensorsFront front;
  front.json = files.read_at(path, kLengthBytes, length);
  if (front.json.size() < length) {
    throw base::Error(base::Code::User, source + ": ends within its header; the file is damaged");
  }
  front.header = parse_safetensors_header(front.json, source);
  front.data_begin = kLengthBytes + length;
  return front;
}

SafetensorsReader SafetensorsReader::open(base::FileSystem& files, const base::Path& path) {
  SafetensorsFront front = read_safetensors_front(files, path);
  // The file must end exactly where the data does: one byte before the end, none after it.
  const std::uint64_t data_bytes = front.header.data_bytes;
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool huge = data_bytes > kMost - front.data_begin;
  if (huge || files.read_at(path, front.data_begin + data_bytes - 1, 2).size() != 1) {
    throw base::Error(
        base::Code::User,
        path.string() + ": is shorter or longer than its header says; " + "the file is damaged");
  }
  return {files, path, std::move(front.header), front.data_begin};
}

const TensorInfo* SafetensorsReader::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &header_.tensors[it->second];
}

const TensorInfo& SafetensorsReader::expect(const std::string& name, const std::string& dtype,
                                            const std::vector<std::int64_t>& shape) const {
  const TensorInfo* const tensor = find(name);
  if (tensor == nullptr) {
    throw base::Error(base::Code::User, path_.string() + ": has no tensor " + short_name(name));
  }
  if (tensor->dtype != dtype || tensor->shape != shape) {
    throw base::Error(base::Code::User, path_.string() + ": tensor " + short_name(name) + " is " +
                                            tensor->dtype + shape_text(tensor->shape) +
                                            ", expected " + dtype + shape_text(shape));
  }
  return *tensor;
}

void SafetensorsReader::read(const std::string& name, const std::string& dtype,
                             const std::vector<std::int64_t>& shape,
                             std::span<std::byte> out) const {
  const TensorInfo* const tensor = &expect(name, dtype, shape);
  base::check(out.size() == tensor->end - tensor->begin, "a tensor is read into its own size");
  std::uint64_t done = 0;
  while (done < out.size()) {
    const std::uint64_t wanted = std::min<std::uint64_t>(kReadBlock, out.size() - done);
    const std::span<std::byte> block = out.subspan(done, wanted);
    if (files_->read_into(path_, data_begin_ + tensor->begin + done, block) != wanted) {
      throw base::Error(base::Code::User, path_.string() + ": ends within tensor " +
                                              short_name(name) + "; the file is damaged");
    }
    done += wanted;
  }
}

std::uint64_t safetensors_bytes(std::span<const NamedTensor> tensors,
                                const std::map<std::string, std::string>& metadata) {
  std::uint64_t bytes = kLengthBytes + header_text(tensors, metadata).size();
  for (const NamedTensor& tensor : tensors) bytes += tensor.bytes.size();
  return bytes;
}

WrittenFile write_safetensors(base::FileSystem& files, const base::Path& path,
                              std::span<const NamedTensor> tensors,
                              const std::map<std::string, std::string>& metadata,
                              const base::Clock& clock) {
  const double start = clock.monotonic_seconds();
  const std::string header = header_text(tensors, metadata);
  try {
    // What the reader would refuse is refused before a byte is written; names twice collapse.
    const SafetensorsHeader parsed = parse_safetensors_header(header, "the tensors to write");
    if (parsed.tensors.size() != tensors.size() || header.size() > kMaxHeader) {
      throw base::Error(base::Code::User, "the tensors to write: a name stands twice, or too many");
    }
  } catch (const base::Error& error) {
    throw base::Error(base::Code::Developer, error.what());
  }
  const auto file = files.open(path, base::FileSystem::Open::CreateNewDirect);
  WrittenFile written;
  base::Digest digest;
  const auto put = [&](std::span<const std::byte> bytes) {
    written.bytes += bytes.size();
    while (!bytes.empty()) {  // what was digested is still in the cache when it is copied
      const auto block = bytes.first(std::min(bytes.size(), kWriteBlock));
      digest.update(block);
      file->append(block);
      bytes = bytes.subspan(block.size());
    }
  };
  const std::uint64_t length = header.size();
  put(std::as_bytes(std::span(&length, 1)));
  put(std::as_bytes(std::span(header)));
  for (const NamedTensor& tensor : tensors) put(tensor.bytes);
  written.digest = digest.hex();
  const double appended = clock.monotonic_seconds();
  written.write_seconds = appended - start;
  file->sync();
  written.sync_seconds = clock.monotonic_seconds() - appended;
  return written;
}

}  // namespace regatta::checkpoint
