#include "topology/sources/topology_file.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace regatta::topology::sources {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kMostKept = 4096;  // devices and CPUs; NCCL reads 256 elements

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The value of an attribute in the text of a tag; empty: it has none.
std::string attribute(std::string_view tag, std::string_view name) {
  const std::string wanted = std::string(name) + "=";
  std::size_t at = 0;
  while ((at = tag.find(wanted, at)) != std::string_view::npos) {
    const std::size_t open = at + wanted.size();
    if (at > 0 && is_blank(tag[at - 1]) && open < tag.size() && tag[open] == '"') {
      const std::size_t close = tag.find('"', open + 1);
      if (close == std::string_view::npos) return "";
      return std::string(tag.substr(open + 1, close - open - 1));
    }
    at = open;
  }
  return "";
}

class Scanner {
 public:
  Scanner(std::string_view text, const std::string& path) : text_(text) { file_.path = path; }

  doctor::TopologyFile scan() {
    std::size_t at = 0;
    while ((at = text_.find('<', at)) != std::string_view::npos) {
      if (text_.substr(at, 4) == "<!--") {
        at = end_of(at, "-->");
      } else if (text_.substr(at, 2) == "<?" || text_.substr(at, 2) == "<!") {
        at = end_of(at, ">");
      } else {
        const std::size_t end = end_of_tag(at);
        take(text_.substr(at + 1, end - at - 2), at);
        at = end;
      }
    }
    if (!open_.empty()) fail(text_.size(), "ends inside <" + open_.back().name + ">");
    if (!has_system_) fail(0, "has no <system>: it is no NCCL topology file");
    return std::move(file_);
  }

 private:
  struct Element {
    std::string name;
    std::string bus_id;
    bool has_bridge_below = false;
  };

  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(at, text_.size()));
    throw base::Error(base::Code::User,
                      base::printable(file_.path) + ":" +
                          std::to_string(1 + std::count(text_.begin(), end, '\n')) + ": " +
                          base::printable(what));
  }
  [[nodiscard]] std::size_t end_of(std::size_t at, std::string_view mark) const {
    const std::size_t end = text_.find(mark, at);
    if (end == std::string_view::npos) fail(at, "a tag does not end");
    return end + mark.size();
  }
  // Behind the '>' that stands in no attribute.
  [[nodiscard]] std::size_t end_of_tag(std::size_t at) const {
    bool quoted = false;
    for (std::size_t i = at; i < text_.size(); ++i) {
      if (text_[i] == '"') quoted = !quoted;
      if (text_[i] == '>' && !quoted) return i + 1;
    }
    fail(at, "a tag does not end");
  }

  void take(std::string_view tag, std::size_t at) {
    const bool closes = !tag.empty() && tag.front() == '/';
    const bool empty = !tag.empty() && tag.back() == '/';
    if (closes) tag.remove_prefix(1);
    if (empty && !closes) tag.remove_suffix(1);
    const std::string name(tag.substr(
        0, static_cast<std::size_t>(std::find_if(tag.begin(), tag.end(), is_blank) - tag.begin())));
    if (name.empty() || name.size() > 64) fail(at, "a tag has no name");
    if (closes) {
      if (open_.empty() || open_.back().name != name) fail(at, "</" + name + "> ends nothing");
      close();
      return;
    }
    open(name, tag, at);
    if (empty) close();
  }

  void open(const std::string& name, std::string_view tag, std::size_t at) {
    if (open_.size() >= kDeepest) fail(at, "elements nest too deep");
    ++file_.elements;
    has_system_ = has_system_ || name == "system";
    Element element{name, "", false};
    if (name == "pci") {
      element.bus_id = attribute(tag, "busid");
      if (!open_.empty()) open_.back().has_bridge_below = true;
    }
    if (name == "cpu" && file_.cpus.size() < kMostKept) {
      file_.cpus.push_back({attribute(tag, "numaid"), attribute(tag, "affinity")});
    }
    open_.push_back(std::move(element));
  }
  void close() {
    const Element& element = open_.back();
    if (element.name == "pci" && !element.has_bridge_below && file_.devices.size() < kMostKept) {
      // What is no bus id is not in the machine either.
      file_.devices.push_back(graph::normal_bus_id(element.bus_id).value_or(element.bus_id));
    }
    open_.pop_back();
  }

  std::string_view text_;
  doctor::TopologyFile file_;
  std::vector<Element> open_;
  bool has_system_ = false;
};

}  // namespace

doctor::TopologyFile scan_topology_file(std::string_view text, const std::string& path) {
  return Scanner(text, path).scan();
}

}  // namespace regatta::topology::sources
