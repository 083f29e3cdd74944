// Any bytes may stand in a capture, and NVML's child may have been killed in the middle of a line:
// nothing crashes, what was read can be written and read again, and findings are printable. The
// first byte chooses the parser.
#include "topology/sources/capture.h"

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "topology/sources/nvml.h"
#include "topology/sources/sysfs.h"

using namespace regatta::topology;
using regatta::base::check;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'n') {
    const graph::Graph graph = sources::read_nvml(text, "n1");
    check(graph.find("n1") != graph::kNoVertex, "the machine itself is there");
    (void)sources::nvml_timeouts(text);
    (void)sources::nvml_missing(text);
    return 0;
  }
  if (data[0] == 's') {
    (void)sources::switches_above(std::string(text));
    return 0;
  }
  try {
    const sources::Capture capture = sources::parse_capture(std::string(text), "c");
    const std::string written = sources::to_json(capture);
    check(sources::to_json(sources::parse_capture(written, "w")) == written,
          "a capture is read back as written");
    for (const graph::Finding& finding : sources::replay(capture).findings) {
      check(!finding.id.empty() && !finding.remedy.empty(), "a finding says what to do");
    }
  } catch (const regatta::base::Error&) {
  }
  return 0;
}
