// `regatta-train prepare`: text to a dataset directory.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace regatta::trainer::data {

// What a preparation has made so far beside its output, for a thread that ends the process: either
// that removes it, or it becomes the dataset, whole and with nothing left of the one before.
class PartialDataset {
 public:
  enum class End { NothingWasBegun, Removed, WasMade };
  // From then on the preparation stands still where it would touch the output. Once; throws
  // nothing.
  End end();

  // For the preparation: the folder, then the swap of folders by `take_place`, which returns the
  // former dataset's folder, or an empty path.
  void begin(const base::Path& folder);
  void publish(const std::function<base::Path()>& take_place);
  [[nodiscard]] base::Path folder() const;  // empty: not begun

 private:
  mutable std::mutex mutex_;
  base::Path folder_, former_;
  bool is_made_ = false;
};

struct PrepareOptions {
  // Text files, directories (every file below), "-" for standard input; gzip and Zstandard are
  // recognised by their first bytes. A blank line separates documents.
  std::vector<base::Path> inputs;
  base::Path output;         // the dataset directory to make
  base::Path vocabulary;     // a vocab.txt; or
  int train_vocabulary = 0;  // train one of at most so many pieces from the corpus
  bool lower_case = true;
  int word_limit = 200;               // code points; longer words become [UNK]
  int threads = 0;                    // 0: the cores this process may use
  double held_out = 0.05;             // share of the documents, in (0, 1)
  bool force = false;                 // replace `output` if it is a dataset
  PartialDataset* partial = nullptr;  // for whoever has to end a preparation from outside

  // For tests.
  int standard_input = 0;                                // the descriptor that "-" reads
  std::int64_t shard_tokens = std::int64_t{1} << 28U;    // 1 GiB
  std::size_t spill_bytes = std::size_t{256} << 10U;     // buffer of each of 256 partitions
  std::size_t read_block_bytes = std::size_t{4} << 20U;  // text per task
  std::size_t batch_bytes = std::size_t{32} << 20U;      // text tokenized between two writes
};

// How far a preparation is in one of its phases, each of which goes over the whole corpus.
struct PrepareProgress {
  const char* phase = "";   // "reading", "counting words", "tokenizing"
  std::uint64_t done = 0;   // bytes, as they are stored while reading, else of text
  std::uint64_t total = 0;  // 0: unknown, while standard input is being read
  bool is_end = false;      // of this phase
};
// Called now and then from the calling thread. An exception that it throws ends the preparation and
// leaves nothing behind.
using PrepareProgressCallback = std::function<void(const PrepareProgress&)>;

struct PrepareReport {
  std::int64_t documents = 0;  // distinct ones
  std::int64_t held_out_documents = 0;
  std::int64_t duplicate_documents = 0;  // repetitions, left out
  std::int64_t empty_documents = 0;      // without a single token, left out
  std::int64_t sentences = 0;
  std::int64_t tokens = 0;
  std::int64_t unknown_tokens = 0;
  std::uint64_t bytes = 0;             // of text, decompressed
  std::int64_t invalid_sequences = 0;  // ill-formed UTF-8, replaced by U+FFFD
  std::int32_t vocabulary_pieces = 0;
  double seconds = 0;
  std::string fingerprint;
};

// The bytes of the dataset depend on the set of distinct documents, the vocabulary and the rules
// only: not on threads, the order or the names of files, or the sizes for tests above but
// shard_tokens. (The manifest also counts bytes, repetitions and ill-formed sequences.)
// Nothing is at `output` until the dataset is complete; a failure leaves nothing behind, and what
// one that was killed left beside `output` is removed, or put back if it is the dataset that was to
// be replaced, and told, by the next.
// base::Error: Conflict if `output` exists, by the end, too (and is no dataset, with force);
// NotFound for an absent input; User for an option out of range, a binary file, damaged compressed
// data, a faulty vocabulary, or a corpus with fewer than two distinct documents; Operator for a
// full disk.
[[nodiscard]] PrepareReport prepare(const PrepareOptions& options, base::FileSystem& files,
                                    const PrepareProgressCallback& progress = {});

}  // namespace regatta::trainer::data
