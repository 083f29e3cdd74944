// Text to documents, lines and sentences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::trainer::data {

// The offset behind the last blank line of `text`, which begins at the start of a line; 0 if there
// is none. A blank line holds nothing but ASCII white space and ends with a line feed.
[[nodiscard]] std::size_t last_document_break(std::string_view text);

// The documents of `text`, separated by blank lines. Each is its lines joined by line feeds, every
// line trimmed of ASCII white space, ill-formed UTF-8 replaced by U+FFFD. Appends to `documents`
// and returns how many ill-formed sequences there were.
std::int64_t split_documents(std::string_view text, std::vector<std::string>& documents);

// Cuts a line behind the ends of its sentences. The parts are the line without the white space
// between them, and tokenizing them gives the same ids as tokenizing the line.
// A sentence ends with . ! or ? and closing quotes or brackets, before white space and something
// other than a lower-case ASCII letter; or with an ideographic full stop, exclamation or question
// mark. A full stop behind a single letter, an inner full stop (e.g., U.S.) or a title (Mr., Dr.)
// ends none.
void split_sentences(std::string_view line, std::vector<std::string_view>& sentences);

}  // namespace regatta::trainer::data
