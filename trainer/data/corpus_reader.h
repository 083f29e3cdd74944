// Inputs of every format to spilled documents.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/thread_pool.h"
#include "trainer/data/corpus_shape.h"
#include "trainer/data/delimited_text.h"
#include "trainer/data/document_spill.h"
#include "trainer/data/documents.h"
#include "trainer/data/input_format.h"
#include "trainer/data/text_source.h"

namespace regatta::trainer::data {

struct ReadOptions {
  std::optional<InputFormat> format;  // of all inputs; else each one's name says
  std::string field = "text";         // of JSON Lines
  std::string column = "text";        // of CSV and TSV: a name, or a number from 1
  bool strict = false;                // a broken line is an error

  // For tests.
  int standard_input = 0;                                        // the descriptor that "-" reads
  std::size_t read_block_bytes = std::size_t{4} << 20U;          // text per task
  std::uint64_t longest_line = DocumentSpill::kLongestDocument;  // of JSON, bytes
};

struct ReadCounts {
  std::uint64_t bytes = 0;  // of text, decompressed
  std::int64_t invalid_sequences = 0;
  std::int64_t empty = 0;   // records without text
  std::int64_t broken = 0;  // records left out
  std::string first_broken;
  ReadShape shape;
};

// Blocks of whole records are turned into documents by the threads of the pool, as many at once as
// there are threads; rows of CSV and TSV are found by one thread, as a quote may begin anywhere.
class CorpusReader {
 public:
  // The borrowed arguments must outlive it.
  CorpusReader(const ReadOptions& options, base::ThreadPool& pool, DocumentSpill& spill)
      : options_(options), pool_(pool), spill_(spill) {}

  // All files of list_inputs(), once. `progress` is called now and then with the stored bytes that
  // are done, of `total` (0: unknown).
  // Code::User for what cannot be read (input_format.h, TextSource, DelimitedReader), for a
  // document or line above its bound, and, if strict, for the first broken line.
  using Progress = std::function<void(std::uint64_t done, std::uint64_t total, bool is_end)>;
  void read(const std::vector<base::Path>& inputs, const Progress& progress);
  [[nodiscard]] const ReadCounts& counts() const { return counts_; }

 private:
  // Of one task: text for it to split, or texts that are documents.
  struct Block {
    std::string text;
    std::vector<std::string> texts;
    BlockDocuments made;
  };
  // What is known of the file that is being read.
  struct File {
    const TextSource& source;
    InputFormat format;
    std::function<void()> progress;
    std::int64_t documents = 0;
    std::int64_t lines = 0;
    std::uint64_t bytes = 0;
    TextLines text = {};
  };

  void read_file(TextSource& source, File& file);
  void read_blocks(TextSource& source, File& file);
  void read_rows(TextSource& source, File& file);
  // The offset behind the last whole record of `text`, 0 if there is none.
  [[nodiscard]] std::size_t cut_of(const std::string& text, const File& file) const;
  [[nodiscard]] BlockDocuments split(const Block& block, InputFormat format) const;
  void spill_blocks(std::vector<Block>& blocks, File& file);
  void add(const BlockDocuments& made, File& file);
  void end(const File& file);

  const ReadOptions& options_;
  base::ThreadPool& pool_;
  DocumentSpill& spill_;
  ReadCounts counts_;
};

}  // namespace regatta::trainer::data
