// A small checkpoint whose every byte follows from its step, so that a test can tell which one it
// got.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/store.h"

namespace regatta::tests {

inline constexpr const char* kModelPrint = "model-0";
inline constexpr const char* kDataPrint = "data-0";

// Owns the memory that `contents` borrows.
struct SampleCheckpoint {
  std::vector<float> weight;
  std::vector<float> bias;
  checkpoint::Contents contents;

  explicit SampleCheckpoint(std::int64_t step, const std::string& execution = "00c0ffee00c0ffee") {
    for (int i = 0; i < 6; ++i) weight.push_back(static_cast<float>(step * 100 + i));
    for (int i = 0; i < 3; ++i) bias.push_back(static_cast<float>(-step * 100 - i));
    const auto tensor = [](const std::string& name, const std::vector<float>& values,
                           std::vector<std::int64_t> shape) {
      return checkpoint::NamedTensor{name, "F32", std::move(shape),
                                     std::as_bytes(std::span(values))};
    };
    contents.model = {tensor("layer.bias", bias, {3}), tensor("layer.weight", weight, {2, 3})};
    for (const char* prefix : {checkpoint::kFirstMoment, checkpoint::kSecondMoment}) {
      contents.optimizer.push_back(tensor(prefix + std::string("layer.bias"), bias, {3}));
      contents.optimizer.push_back(tensor(prefix + std::string("layer.weight"), weight, {2, 3}));
    }
    checkpoint::Manifest& manifest = contents.manifest;
    manifest.run = "sample";
    manifest.execution = execution;
    manifest.epoch = 1;
    manifest.step = step;
    manifest.samples = step * 32;
    manifest.model_fingerprint = kModelPrint;
    manifest.data_fingerprint = kDataPrint;
    manifest.metric = "mlm_accuracy";
    manifest.value = 0.25;
    manifest.utc_seconds = 1.5e9;
    manifest.versions = {{"regatta", "test"}};
  }
  SampleCheckpoint(const SampleCheckpoint&) = delete;
  SampleCheckpoint& operator=(const SampleCheckpoint&) = delete;

  [[nodiscard]] std::string name() const {
    return checkpoint::CheckpointName{contents.manifest.step, contents.manifest.execution}.text();
  }
};

// Whether an open checkpoint holds exactly what SampleCheckpoint(its step) wrote.
inline bool holds_sample(const checkpoint::OpenCheckpoint& open) {
  const SampleCheckpoint sample(open.manifest.step, open.manifest.execution);
  const auto same = [](const checkpoint::SafetensorsReader& reader,
                       const std::vector<checkpoint::NamedTensor>& expected) {
    if (reader.tensors().size() != expected.size()) return false;
    for (const checkpoint::NamedTensor& tensor : expected) {
      std::vector<std::byte> bytes(tensor.bytes.size());
      reader.read(tensor.name, tensor.dtype, tensor.shape, bytes);
      if (std::memcmp(bytes.data(), tensor.bytes.data(), bytes.size()) != 0) return false;
    }
    return true;
  };
  return same(open.model, sample.contents.model) && same(open.optimizer, sample.contents.optimizer);
}

inline bool always() { return true; }

}  // namespace regatta::tests
