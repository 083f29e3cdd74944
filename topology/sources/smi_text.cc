#include "topology/sources/smi_text.h"

#include "base/text.h"
#include "topology/graph/reader_error.h"
#include "topology/sources/smi_topo.h"

namespace regatta::topology::sources {
namespace {

// Without "ESC [ … letter".
std::string without_escapes(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      plain += line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[') ++i;
    while (i + 1 < line.size() && (line[i + 1] < '@' || line[i + 1] > '~')) ++i;
    ++i;  // the letter
  }
  return plain;
}

}  // namespace

std::vector<std::string> smi_lines(std::string_view text, const std::string& place) {
  if (text.size() > kMostSmiBytes) {
    graph::fail_at(place, 0,
                   "it has " + base::human_bytes(text.size()) + ", too much for nvidia-smi");
  }
  std::vector<std::string> lines;
  for (const std::string& line : base::split(text, '\n')) {
    std::string plain = without_escapes(line);
    while (!plain.empty() && plain.back() == '\r') plain.pop_back();
    lines.push_back(std::move(plain));
  }
  return lines;
}

bool smi_is_cpu_list(std::string_view text) {
  for (const std::string& part : base::split(text, ',')) {
    const std::size_t dash = part.find('-');
    for (const std::string& number :
         {part.substr(0, dash), dash == std::string::npos ? "0" : part.substr(dash + 1)}) {
      if (number.empty() || number.size() > 6 ||
          number.find_first_not_of("0123456789") != std::string::npos) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace regatta::topology::sources
