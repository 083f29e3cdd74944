// Text to documents, lines and sentences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::trainer::data {

// The offset behind the last blank line of `text`, which begins at the start of a line; 0 if there
// is none. A blank line holds nothing but ASCII white space and ends with a line feed.
[[nodiscard]] std::size_t last_document_break(std::string_view text);

// What the lines of a text look like, for warnings.
struct TextLines {
  std::int64_t lines = 0;  // that are not blank
  std::int64_t blank = 0;
  std::int64_t braced = 0;  // begin with '{', as JSON objects do
};

// The documents of `text`, separated by blank lines. Each is its lines joined by line feeds, every
// line trimmed of ASCII white space, ill-formed UTF-8 replaced by U+FFFD. Appends to `documents`,
// adds to `lines` where it is given, and returns how many ill-formed sequences there were.
std::int64_t split_documents(std::string_view text, std::vector<std::string>& documents,
                             TextLines* lines = nullptr);

// The same for a text that is one document, whatever blank lines it has: those are left out.
// `document` must be empty, and stays so if `text` is blank.
std::int64_t append_document(std::string_view text, std::string& document);

// A record (a line of JSON, a row) that no document can be made of.
struct BrokenRecord {
  std::int64_t line = 0;    // from 1, in the block or file
  std::int64_t column = 0;  // from 1, in code points
  std::string what;         // "no field 'text'"
};

// What is made of one block of an input: whole records of its format.
struct BlockDocuments {
  std::vector<std::string> documents;
  std::int64_t invalid_sequences = 0;  // replaced by U+FFFD
  std::int64_t empty = 0;              // records without text
  std::int64_t broken = 0;             // records left out
  std::optional<BrokenRecord> first_broken;
  std::int64_t lines = 0;  // line feeds; not counted in text
  TextLines text;          // of text
};

// Cuts a line behind the ends of its sentences. The parts are the line without the white space
// between them, and tokenizing them gives the same ids as tokenizing the line.
// A sentence ends with . ! or ? and closing quotes or brackets, before white space and something
// other than a lower-case ASCII letter; or with an ideographic full stop, exclamation or question
// mark. A full stop behind a single letter, an inner full stop (e.g., U.S.) or a title (Mr., Dr.)
// ends none.
void split_sentences(std::string_view line, std::vector<std::string_view>& sentences);

}  // namespace regatta::trainer::data
