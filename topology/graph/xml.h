// Small XML files as plain trees, with every dimension bounded.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace regatta::topology::graph {

struct XmlElement {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;  // in the order of the file
  std::vector<XmlElement> children;
  std::size_t line = 0;

  [[nodiscard]] const std::string* find(std::string_view attribute) const;  // null: absent
};

inline constexpr std::size_t kMostXmlBytes = std::size_t{4} << 20;
inline constexpr std::size_t kMostXmlElements = 8192;
inline constexpr int kDeepestXml = 64;
inline constexpr std::size_t kMostXmlAttributes = 32;        // of one element
inline constexpr std::size_t kMostXmlAttributeBytes = 4096;  // of a value

// The root element. Comments, declarations and text between elements are left out; entities other
// than XML's own five are not expanded. Code::User "place:line: what" for what is no XML, repeats
// an attribute, or is beyond a bound.
[[nodiscard]] XmlElement parse_xml(std::string_view text, const std::string& place);

// Two blanks per level, one element per line. The caller keeps `"<>&` out of the values.
[[nodiscard]] std::string to_text(const XmlElement& root);

}  // namespace regatta::topology::graph
