// JSON Lines to documents: of each line, the text of one field.
#pragma once

#include <string_view>

#include "trainer/data/documents.h"

namespace regatta::trainer::data {

// An object that holds more levels than this (itself the first) is broken.
inline constexpr int kDeepestJson = 64;

// The documents of whole lines of JSON (RFC 8259), each an object whose member `field` is a text;
// of members with one name the last counts, as in most libraries. A text becomes a document as
// append_document() makes it, so its own blank lines do not split it. Blank lines are nothing, a
// carriage return before the line feed neither. Surrogates without their other half become U+FFFD
// and count as ill-formed, as ill-formed UTF-8 of the text does. A line that is no JSON, no object,
// too deep, or without that text is broken; the others still count. Throws nothing.
[[nodiscard]] BlockDocuments split_json_lines(std::string_view text, std::string_view field);

}  // namespace regatta::trainer::data
