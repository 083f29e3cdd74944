#include "topology/graph/xml.h"

#include <algorithm>
#include <pugixml.hpp>

#include "base/text.h"
#include "topology/graph/reader_error.h"

namespace regatta::topology::graph {
namespace {

class Converter {
 public:
  Converter(std::string_view text, const std::string& place) : place_(place) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') line_ends_.push_back(i);
    }
  }

  XmlElement convert(const pugi::xml_node& node, int depth) {
    XmlElement element;
    element.name = node.name();
    element.line = line_of(node.offset_debug());
    if (++elements_ > kMostXmlElements) {
      fail_at(place_, element.line,
              "there are more than " + std::to_string(kMostXmlElements) + " elements");
    }
    if (depth > kDeepestXml) {
      fail_at(place_, element.line,
              "elements lie in each other more than " + std::to_string(kDeepestXml) + " deep");
    }
    for (const pugi::xml_attribute& attribute : node.attributes()) add(attribute, &element);
    for (const pugi::xml_node& child : node.children()) {
      if (child.type() == pugi::node_element) element.children.push_back(convert(child, depth + 1));
    }
    return element;
  }

  [[nodiscard]] std::size_t line_of(std::ptrdiff_t offset) const {
    if (offset < 0) return 0;
    const auto at =
        std::lower_bound(line_ends_.begin(), line_ends_.end(), static_cast<std::size_t>(offset));
    return static_cast<std::size_t>(at - line_ends_.begin()) + 1;
  }

 private:
  void add(const pugi::xml_attribute& attribute, XmlElement* element) const {
    const std::string name = attribute.name();
    const std::string value = attribute.value();
    if (value.size() > kMostXmlAttributeBytes || name.size() > kMostXmlAttributeBytes) {
      fail_at(place_, element->line,
              "an attribute of <" + element->name.substr(0, 40) + "> has more than " +
                  std::to_string(kMostXmlAttributeBytes) + " bytes");
    }
    if (element->find(name) != nullptr) {
      fail_at(place_, element->line,
              "<" + element->name.substr(0, 40) + "> has '" + name.substr(0, 40) + "' twice");
    }
    if (element->attributes.size() == kMostXmlAttributes) {
      fail_at(place_, element->line,
              "<" + element->name.substr(0, 40) + "> has more than " +
                  std::to_string(kMostXmlAttributes) + " attributes");
    }
    element->attributes.emplace_back(name, value);
  }

  const std::string& place_;
  std::vector<std::size_t> line_ends_;
  std::size_t elements_ = 0;
};

void append(const XmlElement& element, std::size_t depth, std::string* text) {
  *text += std::string(2 * depth, ' ') + "<" + element.name;
  for (const auto& [name, value] : element.attributes) *text += " " + name + "=\"" + value + "\"";
  if (element.children.empty()) {
    *text += "/>\n";
    return;
  }
  *text += ">\n";
  for (const XmlElement& child : element.children) append(child, depth + 1, text);
  *text += std::string(2 * depth, ' ') + "</" + element.name + ">\n";
}

}  // namespace

const std::string* XmlElement::find(std::string_view attribute) const {
  for (const auto& [own, value] : attributes) {
    if (own == attribute) return &value;
  }
  return nullptr;
}

XmlElement parse_xml(std::string_view text, const std::string& place) {
  if (text.size() > kMostXmlBytes) {
    fail_at(place, 0,
            "it has " + base::human_bytes(text.size()) + "; at most " +
                base::human_bytes(kMostXmlBytes) + " are read");
  }
  Converter converter(text, place);
  pugi::xml_document document;
  const pugi::xml_parse_result result =
      document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result) {
    fail_at(place, converter.line_of(result.offset),
            std::string("it is no XML: ") + result.description());
  }
  const pugi::xml_node root = document.document_element();
  if (root.next_sibling()) {
    fail_at(place, converter.line_of(root.next_sibling().offset_debug()),
            "there is something behind the root element");
  }
  return converter.convert(root, 0);
}

std::string to_text(const XmlElement& root) {
  std::string text;
  append(root, 0, &text);
  return text;
}

}  // namespace regatta::topology::graph
