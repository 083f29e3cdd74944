// Text for troff, which reads backslashes, quotes, dashes and dots at the beginning of a line as
// its own. What is not ASCII becomes an escape.
#pragma once

#include <string>

namespace regatta::orchestrator::cli {

// What people type, as it is: every dash is the keyboard's.
[[nodiscard]] std::string roff_code(const std::string& text);
// The same in bold, or in italics for a place that they fill in.
[[nodiscard]] std::string roff_bold(const std::string& code);
[[nodiscard]] std::string roff_italic(const std::string& code);

// Prose: what is in backticks is bold, and a word that begins with a dash is code.
[[nodiscard]] std::string roff_text(const std::string& text);

// A whole line of what the functions above made; a dot at its beginning is no request.
[[nodiscard]] std::string roff_line(const std::string& roff);

}  // namespace regatta::orchestrator::cli
