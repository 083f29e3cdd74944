// Text of ASCII characters, whatever the locale says: bytes above 127 are left as they are.
#pragma once

#include <string>
#include <string_view>

namespace regatta::base {

// `text` without the characters of `blanks` at its beginning and end: a part of `text`.
[[nodiscard]] std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r");

[[nodiscard]] std::string lower_case(std::string_view text);
[[nodiscard]] std::string upper_case(std::string_view text);

// Whether it is one or more of 0 to 9, and nothing else.
[[nodiscard]] bool is_digits(std::string_view text);
// Whether a control character (0 to 31, 127) is in it.
[[nodiscard]] bool has_control(std::string_view text);

// Two lower-case hexadecimal digits for each byte.
[[nodiscard]] std::string hex(std::string_view bytes);

}  // namespace regatta::base
