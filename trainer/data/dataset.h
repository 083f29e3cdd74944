// Reading a dataset directory: memory-mapped, so opening is quick and memory is the page cache's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "trainer/data/dataset_format.h"
#include "trainer/data/vocabulary.h"

namespace regatta::trainer::data {

struct LengthHistogram;

// A file mapped for reading.
class MappedFile {
 public:
  // Throws base::Error naming the path.
  explicit MappedFile(const base::Path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Immutable: any thread may read. Spans stay valid as long as the dataset.
class Dataset {
 public:
  using Split = data::Split;

  // Code::NotFound if `directory` has no manifest; Code::User, with the advice to run prepare
  // again, if a file is absent, was cut short or changed: sizes and headers of all files are
  // checked, and the digests of files up to kCheckedBytes.
  [[nodiscard]] static Dataset open(const base::Path& directory);
  static constexpr std::int64_t kCheckedBytes = std::int64_t{64} << 20U;
  // Reads every file, whatever its size, and checks digests, every index entry and id, and that
  // the figures of manifest and lengths.json are those of the tokens. open() has compared the
  // fingerprint with fingerprint_of() what it is over. Code::User for the first damage. What
  // nothing else tells is believed: the corpus digest, and the manifest's bytes, repetitions and
  // ill-formed sequences of the text.
  void verify() const;

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  // 32 hexadecimal digits over tokenizer rules, vocabulary, split and documents.
  [[nodiscard]] const std::string& fingerprint() const { return manifest_.fingerprint; }
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const base::Path& directory() const { return directory_; }

  [[nodiscard]] std::int64_t documents(Split split) const { return counts(split).documents; }
  // Over all documents.
  [[nodiscard]] std::int64_t sentences(Split split) const { return counts(split).sentences; }
  [[nodiscard]] std::int64_t tokens(Split split) const { return counts(split).tokens; }

  // Sentences of one document, at least 1. An index outside is a programmer's error.
  [[nodiscard]] std::int64_t sentences(Split split, std::int64_t document) const;
  // Its tokens, without special ones, at least 1; the sentences one after another.
  [[nodiscard]] std::span<const TokenId> document(Split split, std::int64_t document) const;
  [[nodiscard]] std::span<const TokenId> sentence(Split split, std::int64_t document,
                                                  std::int64_t sentence) const;

 private:
  struct Shard {
    std::int64_t begin;  // first token
    std::span<const TokenId> ids;
  };
  struct SplitData {
    std::vector<MappedFile> files;
    std::vector<Shard> shards;
    std::span<const std::int64_t> sentence_begins;  // sentences + 1 token offsets
    std::span<const std::int64_t> document_begins;  // documents + 1 sentence offsets
  };

  Dataset(base::Path directory, Manifest manifest, Vocabulary vocabulary);
  [[nodiscard]] const SplitManifest& counts(Split split) const {
    return manifest_.splits[index_of(split)];
  }
  [[nodiscard]] const FileManifest& file(const std::string& name) const;
  template <typename T>
  [[nodiscard]] std::span<const T> map(const std::string& name, FileKind kind, std::int64_t count,
                                       std::vector<MappedFile>& files) const;
  void check_fingerprint() const;
  void map_split(Split split);
  void verify_file(const FileManifest& expected) const;
  // The lengths of its sentences and documents.
  [[nodiscard]] LengthHistogram verify_split(Split split) const;
  [[nodiscard]] std::span<const TokenId> tokens_between(Split split, std::int64_t begin,
                                                        std::int64_t end) const;
  [[noreturn]] void damaged(const std::string& what) const;

  base::Path directory_;
  Manifest manifest_;
  Vocabulary vocabulary_;
  std::array<SplitData, 2> splits_;
};

}  // namespace regatta::trainer::data
