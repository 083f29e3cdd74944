#include "trainer/interchange/hugging_face_weights.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "trainer/device/half_types.h"
#include "trainer/interchange/hugging_face.h"

namespace regatta::trainer::interchange {
namespace {

using checkpoint::short_name;

constexpr char kWeightsFile[] = "model.safetensors";
constexpr char kFormat[] = "format";

checkpoint::SafetensorsReader open_weights(base::FileSystem& files, const base::Path& directory) {
  const base::Path path = directory / kWeightsFile;
  if (files.exists(path)) return checkpoint::SafetensorsReader::open(files, path);
  const std::string where = base::printable(directory.string());
  if (files.exists(directory / "model.safetensors.index.json")) {
    throw base::Error(base::Code::User, where + ": the model is in several files; save it with " +
                                            "save_pretrained(max_shard_size=\"100GB\")");
  }
  if (files.exists(directory / "pytorch_model.bin")) {
    throw base::Error(base::Code::User,
                      where +
                          ": pytorch_model.bin is a pickle, which can run code and is not read; " +
                          "save the model with save_pretrained(safe_serialization=True)");
  }
  throw base::Error(base::Code::NotFound,
                    where + ": has no model.safetensors; name the directory of a BERT model");
}

bool is_tied_copy(const std::string& name) {
  return name == "cls.predictions.decoder.weight" || name == "cls.predictions.decoder.bias";
}

}  // namespace

HuggingFaceWeights::HuggingFaceWeights(base::FileSystem& files, const base::Path& directory,
                                       std::int64_t rows)
    : path_(directory / kWeightsFile), rows_(rows), reader_(open_weights(files, directory)) {
  const auto format = reader_.metadata().find(kFormat);
  if (format != reader_.metadata().end() && format->second != "pt") {
    fail("is of format " + short_name(format->second) +
         ", whose names and layouts differ; save it " + "from PyTorch");
  }
}

void HuggingFaceWeights::fail(const std::string& what) const {
  throw base::Error(base::Code::User, base::printable(path_.string()) + ": " + what);
}

HuggingFaceWeights::Stored HuggingFaceWeights::find(const contract::TensorEntry& entry) const {
  std::vector<std::string> names;
  std::vector<std::string> copies;
  for (const std::string& name : imported_names(entry.name)) {
    if (reader_.find(name) == nullptr) continue;
    (is_tied_copy(name) ? copies : names).push_back(name);
  }
  if (names.empty()) std::swap(names, copies);
  if (names.size() > 1) fail("has both " + short_name(names[0]) + " and " + short_name(names[1]));
  std::vector<std::int64_t> shape = entry.shape;
  if (is_per_piece(entry.name)) shape.front() = rows_;
  return {names.empty() ? "" : names.front(), copies, shape};
}

bool HuggingFaceWeights::has_name(const std::string& tensor) const {
  const std::vector<std::string> names = imported_names(tensor);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return reader_.find(name) != nullptr; });
}

bool HuggingFaceWeights::has(const contract::TensorEntry& entry) const {
  const Stored stored = find(entry);
  if (stored.name.empty()) return false;
  (void)weights_of(stored.name, stored.shape);
  for (const std::string& copy : stored.copies) (void)weights_of(copy, stored.shape);
  return true;
}

void HuggingFaceWeights::read(const contract::TensorEntry& entry, std::span<float> values) {
  const Stored stored = find(entry);
  used_.insert(stored.name);
  const std::vector<float> found = read_all(stored.name, stored.shape);
  for (const std::string& copy : stored.copies) {
    used_.insert(copy);
    if (read_all(copy, stored.shape) == found) continue;
    fail("tensor " + short_name(copy) + " is not " + short_name(stored.name) +
         "; only models with tied weights can be imported");
  }
  base::check(
      values.size() == static_cast<std::size_t>(entry.size) && values.size() <= found.size(),
      "a tensor is read into its own size");
  std::copy_n(found.begin(), values.size(), values.begin());
}

const checkpoint::TensorInfo& HuggingFaceWeights::weights_of(
    const std::string& name, const std::vector<std::int64_t>& shape) const {
  const std::string& dtype = reader_.find(name)->dtype;
  const bool half = dtype == "F16" || dtype == "BF16";
  if (!half && dtype != "F32") {
    fail("tensor " + short_name(name) + " is " + dtype + "; weights are F32, F16 or BF16");
  }
  return reader_.expect(name, dtype, shape);
}

std::vector<float> HuggingFaceWeights::read_all(const std::string& name,
                                                const std::vector<std::int64_t>& shape) const {
  const checkpoint::TensorInfo& info = weights_of(name, shape);
  const bool half = info.dtype != "F32";
  // The file's size bounds what is allocated, whatever config.json says.
  const std::size_t bytes = info.end - info.begin;
  std::vector<float> values(bytes / (half ? 2 : 4));
  if (half) {
    std::vector<std::uint16_t> bits(values.size());
    reader_.read(name, info.dtype, shape, std::as_writable_bytes(std::span(bits)));
    std::transform(bits.begin(), bits.end(), values.begin(),
                   info.dtype == "F16" ? device::float_from_fp16 : device::float_from_bf16);
  } else {
    reader_.read(name, "F32", shape, std::as_writable_bytes(std::span(values)));
  }
  return values;
}

std::vector<std::string> HuggingFaceWeights::unused() const {
  std::vector<std::string> names;
  for (const checkpoint::TensorInfo& tensor : reader_.tensors()) {
    const bool position_ids = tensor.name.find("position_ids") != std::string::npos;
    if (!position_ids && used_.count(tensor.name) == 0) names.push_back(tensor.name);
  }
  return names;
}

}  // namespace regatta::trainer::interchange
