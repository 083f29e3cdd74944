#include "trainer/data/dataset_writer.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace regatta::trainer::data {
namespace {

static_assert(std::endian::native == std::endian::little, "dataset files are little-endian");

constexpr std::size_t kBufferBytes = std::size_t{1} << 20U;

template <typename T>
[[nodiscard]] std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

void append_number(DigestedFile& file, std::int64_t number) { file.append(bytes_of(number)); }

[[nodiscard]] FileHeader header_of(FileKind kind) {
  FileHeader header;
  header.kind = kind;
  return header;
}

}  // namespace

DigestedFile::DigestedFile(base::FileSystem& files, const base::Path& directory, std::string name)
    : file_(files.open(directory / name, base::FileSystem::Open::CreateNew)) {
  manifest_.name = std::move(name);
}

void DigestedFile::append(std::span<const std::byte> bytes) {
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (buffer_.size() >= kBufferBytes) flush();
}

void DigestedFile::flush() {
  file_->append(buffer_);
  digest_.update(buffer_);
  manifest_.bytes += static_cast<std::int64_t>(buffer_.size());
  buffer_.clear();
}

FileManifest DigestedFile::finish() {
  flush();
  file_->sync();
  file_.reset();
  manifest_.digest = digest_.hex();
  return manifest_;
}

void LengthHistogram::add_sentence(std::size_t tokens) {
  if (sentences.size() <= tokens) sentences.resize(tokens + 1, 0);
  ++sentences[tokens];
}

void LengthHistogram::add_document(std::size_t tokens) {
  const std::size_t bin = tokens == 0 ? 0 : (tokens - 1) / kDocumentBin;
  ++documents[std::min(bin, kDocumentBins - 1)];
}

SplitWriter::SplitWriter(base::FileSystem& files, base::Path directory, Split split,
                         std::int64_t shard_tokens, TokenId unknown)
    : file_system_(files),
      directory_(std::move(directory)),
      split_(split),
      shard_limit_(shard_tokens),
      unknown_(unknown),
      sentences_(files, directory_, sentences_name(split)),
      documents_(files, directory_, documents_name(split)) {
  sentences_.append(bytes_of(header_of(FileKind::Sentences)));
  documents_.append(bytes_of(header_of(FileKind::Documents)));
}

void SplitWriter::add(std::span<const TokenId> ids,
                      std::span<const std::uint32_t> sentence_tokens) {
  if (!tokens_) {
    tokens_.emplace(file_system_, directory_, tokens_name(split_, manifest_.shard_tokens.size()));
    tokens_->append(bytes_of(header_of(FileKind::Tokens)));
  }
  tokens_->append(std::as_bytes(ids));
  append_number(documents_, manifest_.sentences);
  std::int64_t token = manifest_.tokens;
  for (const std::uint32_t length : sentence_tokens) {
    append_number(sentences_, token);
    token += length;
    lengths_.add_sentence(length);
  }
  lengths_.add_document(ids.size());
  manifest_.documents += 1;
  manifest_.sentences += static_cast<std::int64_t>(sentence_tokens.size());
  manifest_.tokens += static_cast<std::int64_t>(ids.size());
  manifest_.unknown_tokens += std::count(ids.begin(), ids.end(), unknown_);
  in_shard_ += static_cast<std::int64_t>(ids.size());
  if (in_shard_ >= shard_limit_) close_shard();
}

void SplitWriter::close_shard() {
  finished_.push_back(tokens_->finish());
  manifest_.shard_tokens.push_back(in_shard_);
  tokens_.reset();
  in_shard_ = 0;
}

SplitManifest SplitWriter::finish(std::vector<FileManifest>& files) {
  if (tokens_) close_shard();
  append_number(documents_, manifest_.sentences);
  append_number(sentences_, manifest_.tokens);
  finished_.push_back(sentences_.finish());
  finished_.push_back(documents_.finish());
  files.insert(files.end(), finished_.begin(), finished_.end());
  return manifest_;
}

std::string to_json(const std::array<const LengthHistogram*, 2>& lengths) {
  nlohmann::ordered_json json;
  json["document_bin"] = LengthHistogram::kDocumentBin;
  for (const Split split : kSplits) {
    const LengthHistogram& histogram = *lengths[index_of(split)];
    json[std::string(name_of(split))] = {{"sentences_by_tokens", histogram.sentences},
                                         {"documents_by_bin", histogram.documents}};
  }
  return base::json_text(json) + "\n";
}

}  // namespace regatta::trainer::data
