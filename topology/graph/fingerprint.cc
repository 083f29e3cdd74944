// The fingerprint of a graph: every vertex gets a colour from what it is, then again and again from
// the colours around it (Weisfeiler and Leman), and the sorted colours are digested. Graphs that
// this cannot distinguish are alike for every purpose here.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/digest.h"
#include "topology/graph/graph.h"

namespace regatta::topology::graph {
namespace {

// Farther apart than this, two parts of a machine are not distinguished by each other.
constexpr int kRounds = 6;

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  // The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), over both.
  std::uint64_t x = a * 0x9E3779B97F4A7C15 + std::rotl(b, 31) + 0xD1B54A32D192ED03;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return value;
}

// Sources round: 3 significant digits.
std::uint64_t hash(double number) {
  if (number == 0 || !std::isfinite(number)) return 0;
  const double scale = std::pow(10, 2 - std::floor(std::log10(std::abs(number))));
  return static_cast<std::uint64_t>(std::llround(number * scale)) * 1000 +
         static_cast<std::uint64_t>(std::ilogb(scale) + 500);
}

// What a vertex or a link is, without its names.
constexpr const char* kTelling[] = {key::kModel, key::kComputeCapability, key::kVendor,
                                    key::kLinkLayer};
constexpr const char* kFigures[] = {key::kBandwidth, key::kLatency, key::kCount, key::kSpeed,
                                    key::kGdr};

std::uint64_t colour_of(const Graph& graph, std::uint64_t kind, const std::vector<Fact>& facts) {
  std::uint64_t colour = mix(kind, 1);
  for (const char* name : kTelling) {
    if (const Fact* fact = fact_of(graph, facts, name)) {
      const auto* text = std::get_if<std::string>(&fact->value);
      colour = mix(colour, text != nullptr ? hash(*text) : 0);
    }
    colour = mix(colour, 2);
  }
  if (const auto sm = number_of(graph, facts, key::kComputeCapability)) {
    colour = mix(colour, hash(*sm));
  }
  for (const char* name : kFigures) {
    colour = mix(colour, hash(number_of(graph, facts, name).value_or(0)));
  }
  return colour;
}

std::string fingerprint_of(const Graph& graph, const std::vector<bool>& counts) {
  const std::size_t count = graph.vertices().size();
  std::vector<std::uint64_t> colours(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Vertex& vertex = graph.vertices()[i];
    colours[i] = colour_of(graph, static_cast<std::uint64_t>(vertex.kind), vertex.facts);
  }
  // (colour of the way, other end), both ways; containment is a way of its own, up and down.
  struct Way {
    std::uint64_t colour;
    VertexIndex to;
  };
  std::vector<std::vector<Way>> ways(count);
  for (VertexIndex i = 0; i < count; ++i) {
    const VertexIndex parent = graph.vertex(i).parent;
    if (parent == kNoVertex || !counts[i] || !counts[parent]) continue;
    ways[i].push_back({3, parent});
    ways[parent].push_back({4, i});
  }
  for (const Link& link : graph.links()) {
    if (!counts[link.a] || !counts[link.b]) continue;
    const std::uint64_t colour =
        colour_of(graph, 100 + static_cast<std::uint64_t>(link.kind), link.facts);
    ways[link.a].push_back({colour, link.b});
    ways[link.b].push_back({colour, link.a});
  }
  std::vector<std::uint64_t> around;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::uint64_t> next(count);
    for (std::size_t i = 0; i < count; ++i) {
      around.clear();
      for (const Way& way : ways[i]) around.push_back(mix(way.colour, colours[way.to]));
      std::sort(around.begin(), around.end());
      next[i] = mix(colours[i], 5);
      for (const std::uint64_t each : around) next[i] = mix(next[i], each);
    }
    colours = std::move(next);
  }
  std::vector<std::uint64_t> counted;
  for (std::size_t i = 0; i < count; ++i) {
    if (counts[i]) counted.push_back(colours[i]);
  }
  std::sort(counted.begin(), counted.end());
  base::Digest digest;
  for (const std::uint64_t colour : counted) {
    // Little-endian by hand: the fingerprint is stored and compared across machines.
    char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(colour >> (8 * i));
    digest.update(std::string_view(bytes, sizeof bytes));
  }
  return digest.hex();
}

}  // namespace

std::string fingerprint(const Graph& graph) {
  return fingerprint_of(graph, std::vector<bool>(graph.vertices().size(), true));
}

std::string fingerprint(const Graph& graph, const std::vector<VertexIndex>& nodes) {
  std::vector<bool> counts(graph.vertices().size());
  const auto add = [&](auto&& self, VertexIndex vertex) -> void {
    counts[vertex] = true;
    for (const VertexIndex child : graph.children(vertex)) self(self, child);
  };
  for (const VertexIndex node : nodes) add(add, node);
  std::vector<VertexIndex> domains;
  for (const Link& link : graph.links()) {
    if (link.kind != LinkKind::NvLink || counts[link.a] == counts[link.b]) continue;
    VertexIndex top = counts[link.a] ? link.b : link.a;
    while (graph.vertex(top).parent != kNoVertex) top = graph.vertex(top).parent;
    if (graph.vertex(top).kind == Kind::NvlinkDomain) domains.push_back(top);
  }
  for (const VertexIndex domain : domains) {
    if (!counts[domain]) add(add, domain);
  }
  return fingerprint_of(graph, counts);
}

}  // namespace regatta::topology::graph
