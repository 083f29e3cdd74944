#include "trainer/data/dataset.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "trainer/data/dataset_writer.h"

namespace regatta::trainer::data {
namespace {

using base::Code;
using base::Error;
using base::Path;

constexpr std::uint64_t kLargestManifest = std::uint64_t{16} << 20U;

[[noreturn]] void throw_damaged(const Path& directory, const std::string& what) {
  throw Error(Code::User,
              "dataset " + directory.string() + " is damaged: " + what + "; run prepare again");
}

[[nodiscard]] std::string digest_of(std::span<const std::byte> bytes) {
  base::Digest digest;
  digest.update(bytes);
  return digest.hex();
}

[[nodiscard]] Manifest load_manifest(const Path& directory) {
  std::error_code unknown;
  if (std::filesystem::exists(directory, unknown) &&
      !std::filesystem::is_directory(directory, unknown)) {
    throw Error(Code::User, directory.string() +
                                " is a file, and a dataset is a folder; make one of text with "
                                "regatta-train prepare, and name that");
  }
  std::string text;
  try {
    text = base::posix_file_system().read(directory / kManifestName, kLargestManifest);
  } catch (const Error& error) {
    if (error.code() == Code::Conflict) throw Error(Code::User, error.what());  // a pipe, a device
    if (error.code() != Code::NotFound) throw;
    throw Error(Code::NotFound, directory.string() + " is not a dataset (no " + kManifestName +
                                    "); make one with regatta-train prepare");
  }
  try {
    return parse_manifest(text);
  } catch (const Error& error) {
    throw_damaged(directory, std::string(kManifestName) + ": " + error.what());
  }
}

// Empty: it is the manifest's. Two digests of the manifest are of this file, so that the one which
// is wrong shows whether the file has changed.
[[nodiscard]] std::string vocabulary_fault(const Vocabulary& vocabulary, const Manifest& manifest) {
  const std::string digest = vocabulary.digest();
  const bool is_listed =
      std::any_of(manifest.files.begin(), manifest.files.end(), [&](const FileManifest& file) {
        return file.name == kVocabularyName && file.digest == digest;
      });
  if (digest != manifest.vocabulary_digest) {
    return is_listed ? "dataset.json: vocabulary.digest is not that of vocab.txt"
                     : "vocab.txt is not the vocabulary that it was prepared with";
  }
  if (vocabulary.size() == manifest.vocabulary_size) return "";
  return "dataset.json: vocabulary.pieces is " + std::to_string(manifest.vocabulary_size) +
         ", and vocab.txt has " + std::to_string(vocabulary.size());
}

[[nodiscard]] Vocabulary load_vocabulary(const Path& directory, const Manifest& manifest) {
  const Path path = directory / kVocabularyName;
  std::string what;
  try {
    Vocabulary vocabulary = Vocabulary::load(path, base::posix_file_system());
    what = vocabulary_fault(vocabulary, manifest);
    if (what.empty()) return vocabulary;
  } catch (const Error& error) {
    throw_damaged(directory, error.what());
  }
  throw_damaged(directory, what);
}

// Of all files but the manifest: other names are of no dataset, and may lead out of it.
[[nodiscard]] std::vector<std::string> names_of_files(const Manifest& manifest) {
  std::vector<std::string> names{kVocabularyName, kLengthsName};
  for (const Split split : kSplits) {
    for (std::size_t i = 0; i < manifest.splits[index_of(split)].shard_tokens.size(); ++i) {
      names.push_back(tokens_name(split, i));
    }
    names.push_back(sentences_name(split));
    names.push_back(documents_name(split));
  }
  return names;
}

}  // namespace

MappedFile::MappedFile(const Path& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) base::throw_errno(errno, "cannot open " + path.string());
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) base::throw_errno(errno, "cannot read " + path.string());
  if (!S_ISREG(status.st_mode)) {  // a pipe without a writer would be waited for
    throw base::Error(base::Code::User, path.string() + " is not a regular file");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* const address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) base::throw_errno(errno, "cannot map " + path.string());
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Dataset Dataset::open(const Path& directory) {
  Manifest manifest = load_manifest(directory);
  Vocabulary vocabulary = load_vocabulary(directory, manifest);
  Dataset dataset(directory, std::move(manifest), std::move(vocabulary));
  dataset.check_fingerprint();
  for (const Split split : kSplits) dataset.map_split(split);
  return dataset;
}

Dataset::Dataset(Path directory, Manifest manifest, Vocabulary vocabulary)
    : directory_(std::move(directory)),
      manifest_(std::move(manifest)),
      vocabulary_(std::move(vocabulary)) {}

// vocab.txt has been compared with its digest, which the fingerprint is over, too.
void Dataset::check_fingerprint() const {
  if (fingerprint_of(manifest_) == manifest_.fingerprint) return;
  Manifest other = manifest_;
  const auto rule = changed_rule(manifest_.tokenizer, [&](const TokenizerOptions& rules) {
    other.tokenizer = rules;
    return fingerprint_of(other) == manifest_.fingerprint;
  });
  damaged("dataset.json: the fingerprint does not fit" +
          (rule ? ": " + *rule
                : ": it, held_out or corpus.digest has changed, or another version made it"));
}

void Dataset::damaged(const std::string& what) const { throw_damaged(directory_, what); }

const FileManifest& Dataset::file(const std::string& name) const {
  for (const FileManifest& file : manifest_.files) {
    if (file.name == name) return file;
  }
  damaged("its manifest does not list " + name);
}

template <typename T>
std::span<const T> Dataset::map(const std::string& name, FileKind kind, std::int64_t count,
                                std::vector<MappedFile>& files) const {
  const FileManifest& expected = file(name);
  try {
    files.emplace_back(directory_ / name);
  } catch (const Error& error) {
    if (error.code() != Code::NotFound) throw;
    damaged(name + " is missing");
  }
  const std::span<const std::byte> bytes = files.back().bytes();
  if (static_cast<std::int64_t>(bytes.size()) != expected.bytes) {
    damaged(name + " has " + std::to_string(bytes.size()) + " bytes instead of " +
            std::to_string(expected.bytes));
  }
  FileHeader wanted;
  wanted.kind = kind;
  FileHeader header;
  if (bytes.size() < sizeof header) damaged(name + " has no header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header != wanted) damaged(name + " begins with a wrong header");
  const std::size_t entries = (bytes.size() - sizeof header) / sizeof(T);
  if (count < 0 || entries != static_cast<std::size_t>(count) ||
      bytes.size() != sizeof header + entries * sizeof(T)) {
    damaged(name + " has " + std::to_string(entries) + " entries instead of " +
            std::to_string(count));
  }
  if (expected.bytes <= kCheckedBytes && digest_of(bytes) != expected.digest) {
    damaged(name + " has changed");
  }
  return {reinterpret_cast<const T*>(bytes.data() + sizeof header), entries};
}

void Dataset::map_split(Split split) {
  SplitData& data = splits_[index_of(split)];
  const SplitManifest& expected = counts(split);
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < expected.shard_tokens.size(); ++i) {
    data.shards.push_back({tokens, map<TokenId>(tokens_name(split, i), FileKind::Tokens,
                                                expected.shard_tokens[i], data.files)});
    tokens += expected.shard_tokens[i];
  }
  data.sentence_begins = map<std::int64_t>(sentences_name(split), FileKind::Sentences,
                                           expected.sentences + 1, data.files);
  data.document_begins = map<std::int64_t>(documents_name(split), FileKind::Documents,
                                           expected.documents + 1, data.files);
  const std::string name(name_of(split));
  if (expected.documents < 1) damaged("it has no " + name + " documents");
  if (tokens != expected.tokens) {
    damaged("the shards of " + name + " do not add up: they have " + std::to_string(tokens) +
            " tokens, and splits." + name + ".tokens of dataset.json is " +
            std::to_string(expected.tokens));
  }
  if (data.sentence_begins.front() != 0 || data.sentence_begins.back() != expected.tokens ||
      data.document_begins.front() != 0 || data.document_begins.back() != expected.sentences) {
    damaged("the index of " + name + " (" + sentences_name(split) + ", " + documents_name(split) +
            ") does not fit its tokens");
  }
}

void Dataset::verify() const {
  const std::vector<std::string> names = names_of_files(manifest_);
  for (const std::string& name : names) verify_file(file(name));
  if (manifest_.files.size() != names.size()) {
    damaged("its manifest lists " + std::to_string(manifest_.files.size()) + " files instead of " +
            std::to_string(names.size()));
  }
  const LengthHistogram training = verify_split(Split::Training);
  const LengthHistogram held_out = verify_split(Split::HeldOut);
  const std::string lengths =
      base::posix_file_system().read(directory_ / kLengthsName, kLargestManifest);
  if (lengths != to_json({&training, &held_out})) {
    damaged(std::string(kLengthsName) + " does not fit the tokens");
  }
}

void Dataset::verify_file(const FileManifest& expected) const {
  try {
    const MappedFile mapped(directory_ / expected.name);
    if (digest_of(mapped.bytes()) != expected.digest) damaged(expected.name + " has changed");
    if (static_cast<std::int64_t>(mapped.bytes().size()) == expected.bytes) return;
  } catch (const Error& error) {
    if (error.code() != Code::NotFound) throw;
    damaged(expected.name + " is missing");
  }
  damaged("its manifest has a wrong size of " + expected.name);
}

LengthHistogram Dataset::verify_split(Split split) const {
  const SplitData& data = splits_[index_of(split)];
  const std::string name(name_of(split));
  const auto increasing = [](std::span<const std::int64_t> begins) {
    return std::adjacent_find(begins.begin(), begins.end(), std::greater_equal<>()) == begins.end();
  };
  if (!increasing(data.sentence_begins) || !increasing(data.document_begins)) {
    damaged("the index of " + name + " is not in order");
  }
  LengthHistogram lengths;
  for (std::int64_t i = 0; i < documents(split); ++i) {
    lengths.add_document(document(split, i).size());
    for (std::int64_t s = 0; s < sentences(split, i); ++s) {
      lengths.add_sentence(sentence(split, i, s).size());
    }
  }
  std::int64_t unknown = 0;
  for (const Shard& shard : data.shards) {
    const bool fits = std::all_of(shard.ids.begin(), shard.ids.end(), [this](TokenId id) {
      return id >= 0 && id < vocabulary_.size();
    });
    if (!fits) damaged("a token of " + name + " is not in the vocabulary");
    unknown += std::count(shard.ids.begin(), shard.ids.end(), vocabulary_.special().unknown);
  }
  if (unknown != counts(split).unknown_tokens) {
    damaged(name + " has " + std::to_string(unknown) + " unknown tokens instead of " +
            std::to_string(counts(split).unknown_tokens));
  }
  return lengths;
}

std::int64_t Dataset::sentences(Split split, std::int64_t document) const {
  base::check(document >= 0 && document < documents(split), "the document is in the dataset");
  const auto& begins = splits_[index_of(split)].document_begins;
  const auto i = static_cast<std::size_t>(document);
  return begins[i + 1] - begins[i];
}

std::span<const TokenId> Dataset::document(Split split, std::int64_t document) const {
  base::check(document >= 0 && document < documents(split), "the document is in the dataset");
  const SplitData& data = splits_[index_of(split)];
  const std::int64_t first = data.document_begins[static_cast<std::size_t>(document)];
  const std::int64_t last = data.document_begins[static_cast<std::size_t>(document) + 1];
  if (first < 0 || first >= last || last > counts(split).sentences) damaged("its index is wrong");
  return tokens_between(split, data.sentence_begins[static_cast<std::size_t>(first)],
                        data.sentence_begins[static_cast<std::size_t>(last)]);
}

std::span<const TokenId> Dataset::sentence(Split split, std::int64_t document,
                                           std::int64_t sentence) const {
  base::check(sentence >= 0 && sentence < sentences(split, document),
              "the sentence is in its document");
  const SplitData& data = splits_[index_of(split)];
  const std::int64_t index = data.document_begins[static_cast<std::size_t>(document)] + sentence;
  if (index < 0 || index >= counts(split).sentences) damaged("its index is wrong");
  return tokens_between(split, data.sentence_begins[static_cast<std::size_t>(index)],
                        data.sentence_begins[static_cast<std::size_t>(index) + 1]);
}

// A document lies within one shard.
std::span<const TokenId> Dataset::tokens_between(Split split, std::int64_t begin,
                                                 std::int64_t end) const {
  const std::vector<Shard>& shards = splits_[index_of(split)].shards;
  const auto next = std::upper_bound(shards.begin(), shards.end(), begin,
                                     [](std::int64_t at, const Shard& s) { return at < s.begin; });
  if (begin < 0 || next == shards.begin()) damaged("its index is wrong");
  const Shard& shard = *std::prev(next);
  const std::int64_t offset = begin - shard.begin;
  if (end <= begin || end - shard.begin > static_cast<std::int64_t>(shard.ids.size())) {
    damaged("its index is wrong");
  }
  return shard.ids.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(end - begin));
}

}  // namespace regatta::trainer::data
