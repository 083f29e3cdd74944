// JSON text into a tree and back, compiled once: where a file has its own, it costs a second and a
// half of compile time and 60 kB of code. Json: nlohmann::ordered_json, or nlohmann::json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace regatta::base {

// A discarded value where `text` is no JSON. Of text from elsewhere look at its depth before
// (json_depth_at_most).
template <typename Json>
[[nodiscard]] Json parse_json(std::string_view text);

// The first key that stands twice in one object, of which a tree keeps the last, with what it is
// in: "a.b", "a[0].b". Nothing where none does, or where `text` is no JSON. Depth as parse_json().
[[nodiscard]] std::optional<std::string> repeated_key(std::string_view text);

// On one line, or with `indent` spaces for each level. What is no UTF-8 becomes U+FFFD.
template <typename Json>
[[nodiscard]] std::string json_text(const Json& json, int indent = -1);
// The same in ASCII, with other characters as \u escapes.
template <typename Json>
[[nodiscard]] std::string ascii_json_text(const Json& json, int indent = -1);

}  // namespace regatta::base
