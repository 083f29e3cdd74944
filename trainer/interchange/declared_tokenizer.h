// What the files of a tokenizer say of it: Hugging Face's tokenizer.json (as the program
// `tokenizers` writes it), tokenizer_config.json, or a vocab.txt.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"

namespace regatta::trainer::interchange {

inline constexpr char kTokenizerFile[] = "tokenizer.json";

// A rule without a value is not declared.
struct DeclaredTokenizer {
  std::string file;                 // as messages have it
  std::vector<std::string> pieces;  // by id; "" where an id has none
  // BertNormalizer's keys, those of tokenizer_config.json by the same names.
  std::optional<bool> clean_text, handle_chinese_chars, lowercase, strip_accents;
  std::optional<std::string> continuing_prefix;
  std::optional<int> word_limit;  // code points; longer words are the unknown piece
  // Of the roles "unknown", "classify", "separator", "pad" and "mask": the piece, where it is told.
  std::vector<std::pair<std::string, std::string>> special;
  // Pieces that are looked for in the text before any rule, other than BERT's five.
  std::vector<std::string> added;
  // Rules that this program has nothing for, in words: "model of type BPE". With one of them nobody
  // knows which tokens a text would get.
  std::vector<std::string> not_followed;
};

// Of a tokenizer.json, a vocab.txt (and the tokenizer_config.json beside it, if there is one), or a
// directory that has the one or the other; with both, transformers reads the first. Pieces are read
// of a WordPiece model only.
// Code::NotFound where there is nothing; Code::User, in one line that names the file, for more than
// 64 MiB, what is not JSON or nests deeper than 32 levels, and what no tokenizer can have (two
// pieces with one id, an id below 0, more than 2^20 pieces, a value of another kind).
[[nodiscard]] DeclaredTokenizer read_tokenizer(base::FileSystem& files, const base::Path& path);

}  // namespace regatta::trainer::interchange
