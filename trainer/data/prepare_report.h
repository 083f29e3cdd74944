// How far a preparation is, what it has made, and how both are told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/corpus_shape.h"

namespace regatta::trainer::data {

// How far a preparation is: in one of its phases, each of which goes over the whole corpus, and in
// all.
struct PrepareProgress {
  const char* phase = "";   // "reading", "counting words", "tokenizing"
  std::uint64_t done = 0;   // of this phase: bytes, as they are stored while reading, else of text
  std::uint64_t total = 0;  // 0: unknown, while standard input is being read
  bool is_end = false;      // of this phase
  // Of the whole preparation, 0 to 1: it never falls, and is 1 at the end of the last phase. A
  // phase counts by its time (README.md); nothing while the total is unknown.
  std::optional<double> share;
};

// The line of a terminal that shows it: one bar for all phases, rewritten ("\r…"), with a line end
// behind the last one only.
[[nodiscard]] std::string progress_line(const PrepareProgress& progress);

struct PrepareReport {
  std::int64_t documents = 0;  // distinct ones
  std::int64_t held_out_documents = 0;
  std::int64_t duplicate_documents = 0;  // repetitions, left out
  std::int64_t empty_documents = 0;      // without a single token, left out
  std::int64_t sentences = 0;
  std::int64_t tokens = 0;
  std::int64_t held_out_tokens = 0;
  std::int64_t unknown_tokens = 0;
  std::uint64_t bytes = 0;             // of text, decompressed
  std::int64_t invalid_sequences = 0;  // ill-formed UTF-8, lone surrogates: replaced by U+FFFD
  std::int64_t broken_records = 0;     // lines of JSON that were left out
  std::string first_broken;            // "FILE:LINE:COLUMN: why"; empty where there is none
  std::int32_t vocabulary_pieces = 0;
  CorpusShape shape;
  std::vector<std::string> warnings;  // where the shape looks wrong: a line each
  double seconds = 0;
  std::string fingerprint;
};

// Counts, lengths with a small histogram, and what was left out: lines for a terminal, without the
// warnings. `output`: the dataset directory, as it was given.
[[nodiscard]] std::string summary_text(const PrepareReport& report, const std::string& output);

}  // namespace regatta::trainer::data
