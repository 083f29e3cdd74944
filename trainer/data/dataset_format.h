// The dataset directory on disk; README.md of this folder describes it in prose.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/word_piece.h"

namespace regatta::trainer::data {

inline constexpr int kDatasetVersion = 1;
inline constexpr char kManifestName[] = "dataset.json";
inline constexpr char kTaskManifestName[] = "task.json";  // of a dataset of a task (../tasks)
inline constexpr char kVocabularyName[] = "vocab.txt";
inline constexpr char kLengthsName[] = "lengths.json";

enum class Split { Training, HeldOut };
inline constexpr std::array<Split, 2> kSplits = {Split::Training, Split::HeldOut};
[[nodiscard]] std::string_view name_of(Split split);  // "training", "held_out"
[[nodiscard]] inline std::size_t index_of(Split split) { return static_cast<std::size_t>(split); }

// At the start of each binary file; little-endian numbers follow.
enum class FileKind : std::uint32_t { Tokens = 1, Sentences = 2, Documents = 3 };
struct FileHeader {
  std::array<char, 8> magic{'R', 'E', 'G', 'A', 'T', 'T', 'A', 'D'};
  std::uint32_t version = kDatasetVersion;
  FileKind kind{};
  friend bool operator==(const FileHeader&, const FileHeader&) = default;
};
static_assert(sizeof(FileHeader) == 16);

[[nodiscard]] std::string tokens_name(Split split, std::size_t shard);
[[nodiscard]] std::string sentences_name(Split split);
[[nodiscard]] std::string documents_name(Split split);

struct SplitManifest {
  std::int64_t documents = 0;
  std::int64_t sentences = 0;
  std::int64_t tokens = 0;
  std::int64_t unknown_tokens = 0;
  std::vector<std::int64_t> shard_tokens;  // of each token file
};

struct FileManifest {
  std::string name;
  std::int64_t bytes = 0;
  std::string digest;  // XXH3-128
};

struct Manifest {
  std::string fingerprint;
  TokenizerOptions tokenizer;
  std::int64_t vocabulary_size = 0;
  std::string vocabulary_digest;
  double held_out = 0;
  std::int64_t duplicate_documents = 0;
  std::int64_t text_bytes = 0;
  std::int64_t invalid_sequences = 0;
  std::string corpus_digest;
  std::array<SplitManifest, 2> splits;  // by index_of(Split)
  std::vector<FileManifest> files;      // sorted by name; all but the manifest
};

[[nodiscard]] std::string to_json(const Manifest& manifest);
// Throws Code::User with what is wrong ("… is not a number"), without naming the file.
[[nodiscard]] Manifest parse_manifest(std::string_view text);

// What makes two datasets the same: format, tokenizer rules, vocabulary, split and documents.
[[nodiscard]] std::string fingerprint_of(const Manifest& manifest);

// Of a manifest whose fingerprint does not fit: the tokenizer's rule that someone has changed, if
// `fits` says that it does with another value of one of them ("tokenizer.word_limit is 100, and was
// 200"). Of the limit of words likely values are tried, as each costs a digest.
[[nodiscard]] std::optional<std::string> changed_rule(
    const TokenizerOptions& now, const std::function<bool(const TokenizerOptions&)>& fits);

}  // namespace regatta::trainer::data
