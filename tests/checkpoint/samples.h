// A small checkpoint whose every byte follows from its step, so that a test can tell which one it
// got.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/shards.h"
#include "checkpoint/store.h"

namespace regatta::tests {

inline constexpr const char* kModelPrint = "model-0";
inline constexpr const char* kDataPrint = "data-0";

// Owns the memory that `contents` borrows.
struct SampleCheckpoint {
  std::vector<float> weight;  // [rows, 3]
  std::vector<float> bias;    // [3]
  checkpoint::Contents contents;

  explicit SampleCheckpoint(std::int64_t step, const std::string& execution = "00c0ffee00c0ffee",
                            std::int64_t rows = 2) {
    for (int i = 0; i < 3 * rows; ++i) weight.push_back(static_cast<float>(step * 100 + i));
    for (int i = 0; i < 3; ++i) bias.push_back(static_cast<float>(-step * 100 - i));
    const auto tensor = [](const std::string& name, const std::vector<float>& values,
                           std::vector<std::int64_t> shape) {
      return checkpoint::NamedTensor{name, "F32", std::move(shape),
                                     std::as_bytes(std::span(values))};
    };
    contents.model = {tensor("layer.bias", bias, {3}), tensor("layer.weight", weight, {rows, 3})};
    for (const char* prefix : {checkpoint::kFirstMoment, checkpoint::kSecondMoment}) {
      contents.optimizer.push_back(tensor(prefix + std::string("layer.bias"), bias, {3}));
      contents.optimizer.push_back(tensor(prefix + std::string("layer.weight"), weight, {rows, 3}));
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

  [[nodiscard]] checkpoint::CheckpointName id() const {
    return {contents.manifest.step, contents.manifest.execution};
  }
  [[nodiscard]] std::string name() const { return id().text(); }

  // The optimizer's elements, one tensor behind the other, cut into `shards` parts of sizes as near
  // as may be, wherever that cuts a tensor; the names of whole tensors and of ranges.
  [[nodiscard]] std::vector<checkpoint::NamedTensor> optimizer_shard(std::int64_t shard,
                                                                     std::int64_t shards) const {
    constexpr std::int64_t kElement = sizeof(float);
    std::int64_t total = 0;
    for (const auto& tensor : contents.optimizer) total += std::ssize(tensor.bytes) / kElement;
    const std::int64_t first = total * shard / shards;
    const std::int64_t last = total * (shard + 1) / shards;
    std::vector<checkpoint::NamedTensor> part;
    std::int64_t at = 0;
    for (const checkpoint::NamedTensor& tensor : contents.optimizer) {
      const std::int64_t size = std::ssize(tensor.bytes) / kElement;
      const std::int64_t begin = std::clamp<std::int64_t>(first - at, 0, size);
      const std::int64_t end = std::clamp<std::int64_t>(last - at, 0, size);
      at += size;
      if (begin == end) continue;
      if (end - begin == size) {
        part.push_back(tensor);
        continue;
      }
      part.push_back({checkpoint::range_name({tensor.name, begin, end}),
                      "F32",
                      {end - begin},
                      tensor.bytes.subspan(static_cast<std::size_t>(begin * kElement),
                                           static_cast<std::size_t>((end - begin) * kElement))});
    }
    return part;
  }
};

inline bool always() { return true; }

// Writes shard `file` of the sample; "model.safetensors" or one of the optimizer's.
inline checkpoint::WrittenShard write_sample_shard(checkpoint::CheckpointStore store,
                                                   const SampleCheckpoint& sample,
                                                   const std::string& file) {
  const auto name = checkpoint::parse_shard_file(file).value();
  return store.write_shard(sample.id(), file,
                           name.kind == checkpoint::kModel
                               ? sample.contents.model
                               : sample.optimizer_shard(name.shard, name.shards),
                           base::system_clock());
}

// "model.safetensors" and `shards` of the optimizer.
inline std::vector<std::string> sample_files(int shards) {
  std::vector<std::string> files{checkpoint::kModelFile};
  for (int i = 0; i < shards; ++i) {
    files.push_back(checkpoint::shard_file(checkpoint::kOptimizer, i, shards));
  }
  return files;
}

// The sample with its optimizer in so many shards, one written after the other.
inline checkpoint::Written write_sample(checkpoint::CheckpointStore store,
                                        const SampleCheckpoint& sample, int shards) {
  for (const std::string& file : sample_files(shards)) write_sample_shard(store, sample, file);
  return store.commit(sample.contents.manifest, sample_files(shards), always, base::system_clock());
}

struct LoadedSample {
  std::optional<std::int64_t> step;  // nothing: no checkpoint
  bool whole = false;                // every element and field is what was written at that step
  std::vector<checkpoint::Skipped> skipped;
};

// What load_latest makes of a store that holds samples of so many rows.
inline LoadedSample load_sample(const checkpoint::CheckpointStore& store, std::int64_t rows = 2) {
  std::deque<std::vector<float>> memory;
  const auto places = [&](const std::vector<checkpoint::NamedTensor>& tensors) {
    std::vector<checkpoint::TensorPlace> list;
    for (const checkpoint::NamedTensor& tensor : tensors) {
      memory.emplace_back(tensor.bytes.size() / sizeof(float), 7.0F);
      const auto bytes = std::as_writable_bytes(std::span(memory.back()));
      list.push_back({tensor.name, tensor.dtype, tensor.shape, bytes});
    }
    return list;
  };
  const SampleCheckpoint any(0, "any", rows);
  const auto model = places(any.contents.model);
  const auto optimizer = places(any.contents.optimizer);
  checkpoint::LatestLoaded latest = store.load_latest(kModelPrint, kDataPrint, model, optimizer);
  LoadedSample loaded;
  loaded.skipped = std::move(latest.skipped);
  if (!latest.checkpoint) return loaded;

  const checkpoint::Manifest& manifest = latest.checkpoint->manifest;
  SampleCheckpoint expected(manifest.step, manifest.execution, rows);
  expected.contents.manifest.files = manifest.files;
  const auto same = [](const std::vector<checkpoint::TensorPlace>& got,
                       const std::vector<checkpoint::NamedTensor>& tensors) {
    return std::equal(got.begin(), got.end(), tensors.begin(), tensors.end(),
                      [](const auto& a, const auto& b) {
                        return std::memcmp(a.bytes.data(), b.bytes.data(), b.bytes.size()) == 0;
                      });
  };
  loaded.step = manifest.step;
  loaded.whole = same(model, expected.contents.model) &&
                 same(optimizer, expected.contents.optimizer) &&
                 checkpoint::to_json(manifest) == checkpoint::to_json(expected.contents.manifest) &&
                 latest.checkpoint->name == expected.name() && latest.checkpoint->absent.empty();
  return loaded;
}

}  // namespace regatta::tests
