// Bytes as words of a bash script.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace regatta::orchestrator::batch {

// One word that bash reads as exactly `text`, in any locale and wherever a word may stand. It is
// printable ASCII without line breaks, so no byte of `text` can begin a line of the script. Throws
// Code::User for a NUL, which no word can hold.
[[nodiscard]] std::string shell_word(std::string_view text);

// The words with a space between them.
[[nodiscard]] std::string shell_words(const std::vector<std::string>& texts);

}  // namespace regatta::orchestrator::batch
