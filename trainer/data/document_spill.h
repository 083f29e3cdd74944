// All documents of a corpus, whatever its size, in an order that depends on their text alone.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"

namespace regatta::trainer::data {

// XXH3-128 of a document's text.
struct DocumentKey {
  std::uint64_t high;
  std::uint64_t low;
};

struct Document {
  DocumentKey key;
  std::string_view text;
};

// Collects documents in partitions by the top byte of their key; a partition that outgrows its
// buffer goes to a file. So memory holds at most 256 buffers while documents come in, and one
// partition (1/256 of the corpus) when they are read back.
class DocumentSpill {
 public:
  static constexpr int kPartitions = 256;

  // `directory` must exist. `buffer_bytes`: of one partition.
  DocumentSpill(base::FileSystem& files, base::Path directory, std::size_t buffer_bytes);

  // Any thread. `text` is at most kLongestDocument bytes.
  void add(std::string_view text);
  static constexpr std::uint64_t kLongestDocument = std::uint64_t{1} << 30U;

  // After the last add():
  // Appends the distinct documents of the partition to `documents`, sorted by key (and text, should
  // keys collide); their texts point into `storage`, which must be empty and stay alive. Returns
  // the number of repeated documents left out.
  std::int64_t load(int partition, std::string& storage, std::vector<Document>& documents) const;
  [[nodiscard]] std::uint64_t bytes(int partition) const;
  // Bytes of the texts of all documents, repeated ones included.
  [[nodiscard]] std::uint64_t text_bytes() const;
  // Frees the partition's memory and file.
  void drop(int partition);

  // The smallest and the largest key.low; meaningful once there is a document.
  [[nodiscard]] std::uint64_t smallest_low() const;
  [[nodiscard]] std::uint64_t largest_low() const;

 private:
  struct Partition {
    mutable std::mutex mutex;
    std::string buffer;
    std::uint64_t spilled = 0;  // bytes in the file
    std::uint64_t text_bytes = 0;
    std::uint64_t smallest_low = ~std::uint64_t{0};
    std::uint64_t largest_low = 0;
  };

  [[nodiscard]] base::Path path(int partition) const;

  base::FileSystem& files_;
  base::Path directory_;
  std::size_t buffer_bytes_;
  std::array<Partition, kPartitions> partitions_;
};

}  // namespace regatta::trainer::data
