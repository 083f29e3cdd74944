// Bytes as words of a bash script, and of commands that a person is shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace regatta::base {

// One word that bash reads as exactly `text`, in any locale and wherever a word may stand. It is
// printable ASCII without line breaks, so no byte of `text` can begin a line of the script. Throws
// Code::User for a NUL, which no word can hold.
[[nodiscard]] std::string shell_word(std::string_view text);

// The words with a space between them.
[[nodiscard]] std::string shell_words(const std::vector<std::string>& texts);

// One word as a person may type it, without quotes where no character of it means anything to a
// shell. A NUL, which no command can be given, is shown escaped.
[[nodiscard]] std::string shown_word(std::string_view text);

// A command as a person may type it: `command` as it is, then `operand` as a shown_word(). One that
// could be taken for an option ("-" is none) stands behind "--", unless the command ends with an
// option that takes it.
[[nodiscard]] std::string shown_command(std::string_view command, std::string_view operand);

}  // namespace regatta::base
