// Writing the files of a dataset directory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/file_system.h"
#include "trainer/data/dataset_format.h"
#include "trainer/data/vocabulary.h"

namespace regatta::trainer::data {

// One file, written once from front to back through a buffer; knows its size and digest.
class DigestedFile {
 public:
  DigestedFile(base::FileSystem& files, const base::Path& directory, std::string name);
  void append(std::span<const std::byte> bytes);
  // Syncs. Nothing may be appended afterwards.
  [[nodiscard]] FileManifest finish();

 private:
  void flush();

  std::unique_ptr<base::WritableFile> file_;
  base::Digest digest_;
  FileManifest manifest_;
  std::string buffer_;
};

// Counts of sentences and documents by their tokens.
struct LengthHistogram {
  static constexpr std::size_t kDocumentBin = 64;
  static constexpr std::size_t kDocumentBins = 128;     // the last one has all longer documents too
  std::vector<std::int64_t> sentences;                  // by tokens, from 0
  std::array<std::int64_t, kDocumentBins> documents{};  // bin b: b·64 < tokens ≤ (b + 1)·64

  void add_sentence(std::size_t tokens);
  void add_document(std::size_t tokens);
};

// The token shards and indexes of one split.
class SplitWriter {
 public:
  // A shard is closed with the document that makes it `shard_tokens` or longer.
  SplitWriter(base::FileSystem& files, base::Path directory, Split split, std::int64_t shard_tokens,
              TokenId unknown);
  // The tokens of one document and the lengths of its sentences, which add up to them.
  void add(std::span<const TokenId> ids, std::span<const std::uint32_t> sentence_tokens);
  // Adds this split's files to `files`.
  [[nodiscard]] SplitManifest finish(std::vector<FileManifest>& files);
  [[nodiscard]] const LengthHistogram& lengths() const { return lengths_; }
  [[nodiscard]] std::int64_t documents() const { return manifest_.documents; }

 private:
  void close_shard();

  base::FileSystem& file_system_;
  base::Path directory_;
  Split split_;
  std::int64_t shard_limit_;
  TokenId unknown_;
  SplitManifest manifest_;
  LengthHistogram lengths_;
  std::vector<FileManifest> finished_;
  std::optional<DigestedFile> tokens_;
  std::int64_t in_shard_ = 0;
  DigestedFile sentences_;
  DigestedFile documents_;
};

// The text of lengths.json.
[[nodiscard]] std::string to_json(const std::array<const LengthHistogram*, 2>& lengths);

}  // namespace regatta::trainer::data
