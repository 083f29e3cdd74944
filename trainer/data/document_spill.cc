#include "trainer/data/document_spill.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/error.h"

namespace regatta::trainer::data {
namespace {

// A record: this, then the text.
struct RecordHeader {
  DocumentKey key;
  std::uint64_t length;
};

[[nodiscard]] auto order(const Document& document) {
  return std::tie(document.key.high, document.key.low, document.text);
}

}  // namespace

DocumentSpill::DocumentSpill(base::FileSystem& files, base::Path directory,
                             std::size_t buffer_bytes)
    : files_(files), directory_(std::move(directory)), buffer_bytes_(buffer_bytes) {}

base::Path DocumentSpill::path(int partition) const {
  return directory_ / ("documents-" + std::to_string(partition));
}

void DocumentSpill::add(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  const RecordHeader header{{hash.high64, hash.low64}, text.size()};
  const int index = static_cast<int>(hash.high64 >> 56U);
  Partition& partition = partitions_[static_cast<std::size_t>(index)];
  const std::lock_guard lock(partition.mutex);
  partition.buffer.append(reinterpret_cast<const char*>(&header), sizeof header);
  partition.buffer.append(text);
  partition.text_bytes += text.size();
  partition.smallest_low = std::min(partition.smallest_low, hash.low64);
  partition.largest_low = std::max(partition.largest_low, hash.low64);
  if (partition.buffer.size() < buffer_bytes_) return;
  // Opened anew for each buffer: 256 open files could exceed the process's limit.
  files_.open(path(index), base::FileSystem::Open::Append)->append(partition.buffer);
  partition.spilled += partition.buffer.size();
  partition.buffer.clear();
}

std::int64_t DocumentSpill::load(int index, std::string& storage,
                                 std::vector<Document>& documents) const {
  const Partition& partition = partitions_[static_cast<std::size_t>(index)];
  if (partition.spilled > 0) storage = files_.read_at(path(index), 0, partition.spilled);
  if (storage.size() != partition.spilled) {
    throw base::Error(base::Code::Operator, path(index).string() +
                                                " changed while the dataset was being prepared; "
                                                "run prepare again");
  }
  storage += partition.buffer;
  std::vector<Document> found;
  for (std::size_t at = 0; at < storage.size();) {
    RecordHeader header;
    std::memcpy(&header, storage.data() + at, sizeof header);
    at += sizeof header;
    found.push_back({header.key, std::string_view(storage).substr(at, header.length)});
    at += header.length;
  }
  std::sort(found.begin(), found.end(),
            [](const Document& a, const Document& b) { return order(a) < order(b); });
  const auto end =
      std::unique(found.begin(), found.end(),
                  [](const Document& a, const Document& b) { return order(a) == order(b); });
  documents.insert(documents.end(), found.begin(), end);
  return found.end() - end;
}

std::uint64_t DocumentSpill::bytes(int partition) const {
  const Partition& data = partitions_[static_cast<std::size_t>(partition)];
  return data.spilled + data.buffer.size();
}

std::uint64_t DocumentSpill::text_bytes() const {
  std::uint64_t total = 0;
  for (const Partition& partition : partitions_) total += partition.text_bytes;
  return total;
}

void DocumentSpill::drop(int index) {
  Partition& partition = partitions_[static_cast<std::size_t>(index)];
  if (partition.spilled > 0) files_.remove_file(path(index));
  partition.spilled = 0;
  partition.buffer = {};
}

std::uint64_t DocumentSpill::smallest_low() const {
  std::uint64_t smallest = ~std::uint64_t{0};
  for (const Partition& partition : partitions_) {
    smallest = std::min(smallest, partition.smallest_low);
  }
  return smallest;
}

std::uint64_t DocumentSpill::largest_low() const {
  std::uint64_t largest = 0;
  for (const Partition& partition : partitions_) {
    largest = std::max(largest, partition.largest_low);
  }
  return largest;
}

}  // namespace regatta::trainer::data
