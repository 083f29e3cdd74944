// `regatta-train prepare`: text to a dataset directory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/file_system.h"
#include "trainer/data/corpus_reader.h"
#include "trainer/data/prepare_report.h"
#include "trainer/data/staging.h"

namespace regatta::trainer::data {

struct PrepareOptions : ReadOptions {
  // Files, directories (every file below), "-" for standard input; gzip and Zstandard are
  // recognised by their first bytes, formats by the ending of the name. A blank line separates
  // documents of text; a line of JSON, or a row of CSV or TSV, is one.
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
  std::int64_t shard_tokens = std::int64_t{1} << 28U;  // 1 GiB
  std::size_t spill_bytes = std::size_t{256} << 10U;   // buffer of each of 256 partitions
  std::size_t batch_bytes = std::size_t{32} << 20U;    // text tokenized between two writes
};

// Called now and then from the calling thread. An exception that it throws ends the preparation and
// leaves nothing behind.
using PrepareProgressCallback = std::function<void(const PrepareProgress&)>;

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
