// Any bytes are an NCCL topology file, a graph, or variables: something that the doctor can look
// at, or one clear error.
#include "topology/sources/topology_file.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "topology/doctor/doctor.h"
#include "topology/sources/read_any.h"

using regatta::base::check;
using namespace regatta::topology;

namespace {

template <class Try>
void expect_clear_error(Try&& attempt) {
  try {
    attempt();
  } catch (const regatta::base::Error& error) {
    check(error.code() == regatta::base::Code::User, "a bad file is the user's to change");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "one line");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  expect_clear_error([text] {
    const doctor::TopologyFile file = sources::scan_topology_file(text, "f");
    check(file.devices.size() <= file.elements, "devices are elements");
    (void)doctor::diagnose({graph::Graph(), {}, {}, {file}});
  });
  expect_clear_error([text] {
    const graph::Graph graph = graph::parse_graph(std::string(text), "f");
    (void)doctor::diagnose({graph});
    (void)graph::fingerprint(graph);
  });
  // Descriptions have a target of their own, which leaves out what is slow.
  if (text.find("nodes") == std::string_view::npos) {
    expect_clear_error([text] {
      const sources::Reading reading = sources::read_any(text, "f");
      (void)doctor::diagnose({reading.graph, reading.settings, {}, reading.topology_files});
    });
  }
  return 0;
}
