// Labelled sentences, or pairs of them, from tables and JSON lines: what classification is
// fine-tuned on (the tasks of GLUE: Wang et al., arXiv 1804.07461).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace regatta::trainer::tasks {

// Automatic: by the end of the name, .tsv, .csv, .jsonl or .ndjson, before which .gz, .zst or .zstd
// may be cut (compression itself is recognised by the first bytes). TSV has no quotes.
enum class ExampleFormat { Automatic, Tsv, Csv, JsonLines };

// Absent: the file is to be predicted, and what it may say of labels is not read.
enum class ExampleLabels { Classes, Numbers, Absent };

// A column is a name of the header, or else a number from 1; of JSON lines, a key of the objects.
// Empty: known by its name, whatever the case of the letters:
//   text and second   sentence1 sentence2, premise hypothesis, question1 question2,
//                     question sentence, question passage, "#1 String" "#2 String"
//   text alone        sentence, text, question
//   label             label, gold_label, score, is_duplicate, Quality
// where exactly one of these is there. Names in messages are those of the configuration.
struct ExampleOptions {
  ExampleFormat format = ExampleFormat::Automatic;
  bool header = true;  // of a table; without one columns have numbers, and are to be named
  std::string text_column;
  std::string second_text_column;  // only with text_column; empty with it: no pairs
  std::string label_column;
  ExampleLabels kind = ExampleLabels::Classes;
  // Where no label_column is set and none is known by its name, the file is read as one of Absent
  // labels.
  bool labels_if_there = false;
  // The classes in their order; any other label is an error. Empty: those of the file, at least
  // two. Give those of the training to read what is evaluated.
  std::vector<std::string> labels;
};

// In the order of the file. Texts and labels are valid UTF-8; a text has more than white space.
struct ExampleSet {
  std::vector<std::string> texts;
  std::vector<std::string> second_texts;  // as many, or none
  std::vector<std::int32_t> classes;      // as many, indices into labels; ExampleLabels::Classes
  std::vector<double> values;             // as many, finite as float32; ExampleLabels::Numbers
  // As given, or those of the file: by their bytes, or by value if all are numbers.
  std::vector<std::string> labels;
  std::int64_t invalid_sequences = 0;  // of UTF-8, which became U+FFFD
};

inline constexpr std::size_t kMostClasses = 1024;

// "-" reads `standard_input`, and needs a format. Code::User, with the file, the line and the
// column or field, for all that is wrong in it; Code::NotFound for no file. Takes memory for all
// of the texts.
[[nodiscard]] ExampleSet read_examples(const base::Path& path, int standard_input,
                                       const ExampleOptions& options);

}  // namespace regatta::trainer::tasks
