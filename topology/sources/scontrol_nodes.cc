// What Slurm says of its nodes (slurm_topology.h).
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "topology/graph/hostlist.h"
#include "topology/sources/slurm_topology.h"

namespace regatta::topology::sources {
namespace {

using View = std::string_view;

constexpr std::size_t kMostShown = 80;

// The value of the first " Key=", up to a space. What people write (Reason, Comment, Extra) stands
// behind all that is read here, so that it cannot speak for a key before it.
View value_of(View line, View key) {
  for (std::size_t at = line.find(key); at != View::npos; at = line.find(key, at + 1)) {
    const bool starts = at == 0 || line[at - 1] == ' ';
    const std::size_t equals = at + key.size();
    if (!starts || equals >= line.size() || line[equals] != '=') continue;
    const View value = line.substr(equals + 1);
    return value.substr(0, value.find(' '));
  }
  return {};
}

bool says_nothing(View value) {
  return value.empty() || value == "(null)" || value == "N/A" || value == "None";
}

// "gpu:h100:8(S:0-1),gpu:a100:1,shard:16" by commas outside of brackets.
struct Gpus {
  std::int64_t count = 0;
  std::set<std::string> types;
};
std::optional<Gpus> parse_gres(View gres) {
  Gpus gpus;
  bool any = false;
  while (!gres.empty()) {
    std::size_t end = 0;
    for (int depth = 0; end < gres.size() && (gres[end] != ',' || depth > 0); ++end) {
      depth += gres[end] == '(' ? 1 : gres[end] == ')' ? -1 : 0;
    }
    View one = gres.substr(0, end);
    gres.remove_prefix(std::min(end + 1, gres.size()));
    one = one.substr(0, one.find('('));
    const auto parts = base::split(one, ':');
    if (parts.empty() || parts[0] != "gpu") continue;
    const auto count = parts.size() == 1 ? std::int64_t{1} : base::parse_integer(parts.back());
    if (!count || *count < 0 || *count > 1'000'000 || parts.size() > 3) return std::nullopt;
    gpus.count += *count;
    any = true;
    if (parts.size() == 3) gpus.types.insert(base::printable(parts[1]));
  }
  return any ? std::optional(gpus) : std::nullopt;
}

}  // namespace

graph::Graph read_scontrol_nodes(std::string_view text, const std::string& place) {
  graph::Graph graph;
  const std::uint32_t source = graph.add_source(graph::Source::Slurm, place);
  std::size_t number = 0;
  for (const std::string& line : base::split(text, '\n')) {
    ++number;
    if (line.empty() || line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto refuse = [&](const std::string& why) {
      throw base::Error(base::Code::User, place + ":" + std::to_string(number) + ": " + why);
    };
    const std::string name(value_of(line, "NodeName"));
    if (line.rfind("NodeName=", 0) != 0 || name.empty()) {
      refuse("is not a line of scontrol show node -o: '" +
             base::printable(View(line).substr(0, kMostShown)) + "'");
    }
    std::vector<std::string> names;
    try {
      names = graph::expand_hostlist(name, 1);
    } catch (const base::Error& error) {
      refuse(error.what());
    }
    if (names != std::vector<std::string>{name}) refuse("names several nodes in one line");
    if (value_of(line, "State").empty())
      refuse("node " + name + " has no State; the line is cut off");
    if (graph.find(name) != graph::kNoVertex) refuse("a second line for node " + name);
    const graph::VertexIndex node = graph.add(graph::Kind::Node, name);
    graph.set(node, graph::key::kNodeState, base::printable(value_of(line, "State")), source);
    const auto set_number = [&](const char* from, const char* to, std::int64_t times) {
      const auto value = base::parse_integer(value_of(line, from));
      constexpr std::int64_t kMost = std::int64_t{1} << 42;  // times a megabyte is below 2^63
      if (value && *value >= 0 && *value < kMost) graph.set(node, to, *value * times, source);
    };
    set_number("CPUTot", graph::key::kCpuCount, 1);
    set_number("RealMemory", graph::key::kMemory, std::int64_t{1} << 20);
    const View features = value_of(line, "ActiveFeatures");
    if (!says_nothing(features))
      graph.set(node, graph::key::kFeatures, base::printable(features), source);
    const View gres = value_of(line, "Gres");
    if (says_nothing(gres)) continue;
    const auto gpus = parse_gres(gres);
    if (!gpus) continue;
    graph.set(node, graph::key::kGpuCount, gpus->count, source);
    if (!gpus->types.empty()) {
      graph.set(node, graph::key::kGpuType,
                base::join({gpus->types.begin(), gpus->types.end()}, ","), source);
    }
  }
  if (number == 0 || graph.vertices().empty()) {
    throw base::Error(base::Code::User, place + ": names no node; give scontrol show node -o");
  }
  return graph;
}

}  // namespace regatta::topology::sources
