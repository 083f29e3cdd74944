// What the machines really are: one graph of cluster, fabrics, nodes and what is in them. Every
// figure keeps where it came from; sources that disagree are findings, never a silent choice.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "topology/graph/finding.h"

namespace regatta::topology::graph {

// Where a fact was read. The order is the order of trust when a figure is needed and sources
// disagree: what was measured or said by the user on purpose comes first.
enum class Source : std::uint8_t {
  Measured,
  User,
  Sysfs,
  Nvml,
  NvidiaSmi,
  NcclXml,
  NcclGraph,
  Ibnetdiscover,
  Slurm,
  Derived,  // computed from other facts (the figures of an architecture, a rail from the cabling)
};
[[nodiscard]] const char* name_of(Source source);  // "measured", "nvidia-smi", …
[[nodiscard]] std::optional<Source> parse_source(std::string_view name);

struct Provenance {
  Source source = Source::User;
  std::string place;  // file, host or command
  bool operator==(const Provenance&) const = default;
};

enum class Kind : std::uint8_t {
  Fabric,        // one network: InfiniBand subnet, rail plane, Ethernet; each is a root
  FabricSwitch,  // of a fabric
  NvlinkDomain,  // NVLink beyond one node (fabric.clusterUuid.cliqueId); a root
  Node,          // a machine; a root
  Numa,          // NUMA domain with its CPUs, in a node
  PciSwitch,     // PCIe bridge or switch, below a NUMA domain, a node or another one
  Gpu,           // below a PCIe switch, a NUMA domain or a node
  Nic,           // an HCA or network card, likewise; has ports as facts
  NvSwitch,      // in a node or an NVLink domain
};
[[nodiscard]] const char* name_of(Kind kind);  // "fabric", "fabric_switch", …
[[nodiscard]] std::optional<Kind> parse_kind(std::string_view name);
[[nodiscard]] inline bool is_device(Kind kind) { return kind == Kind::Gpu || kind == Kind::Nic; }

enum class LinkKind : std::uint8_t {
  Pcie,    // a device and what it hangs below
  NvLink,  // GPU – GPU, or GPU – NVSwitch
  C2c,     // GPU – NUMA domain (Grace)
  Xgmi,    // GPU – GPU (AMD)
  Smp,     // NUMA domain – NUMA domain
  Fabric,  // NIC – switch, switch – switch
};
[[nodiscard]] const char* name_of(LinkKind kind);  // "pcie", "nvlink", …
[[nodiscard]] std::optional<LinkKind> parse_link_kind(std::string_view name);

using Value = std::variant<std::int64_t, double, std::string>;

// Keys are words of `key` below, or attributes of a source that are kept for writing it again
// ("xml.class"). A key may have several facts, one per source at most.
struct Fact {
  std::string key;
  Value value;
  std::uint32_t source = 0;  // Graph::sources()
};

// An index into Graph::vertices(); stays valid while the graph lives.
using VertexIndex = std::uint32_t;
inline constexpr VertexIndex kNoVertex = 0xFFFFFFFF;

struct Vertex {
  Kind kind = Kind::Node;
  // Unique and stable: "node01", "node01/gpu:0000:3b:00.0", "node01/nic:mlx5_0", "switch:0x…".
  std::string id;
  VertexIndex parent = kNoVertex;  // what contains it
  std::vector<Fact> facts;
};

struct Link {
  LinkKind kind = LinkKind::Pcie;
  VertexIndex a = kNoVertex, b = kNoVertex;  // a < b
  std::vector<Fact> facts;
};

// Names of facts. Bandwidth: GB/s (10^9 bytes), one direction, all lanes and cables of the link
// together. Latency: microseconds, one way.
namespace key {
inline constexpr const char* kParent = "parent";         // where sources disagree on it: an id
inline constexpr const char* kName = "name";             // as its owner calls it: "mlx5_0"
inline constexpr const char* kIndex = "index";           // GPU: NVML's; NIC: NCCL's "dev"
inline constexpr const char* kBusId = "bus_id";          // 0000:3b:00.0
inline constexpr const char* kModel = "model";           // "NVIDIA H100 80GB HBM3", "MT4129"
inline constexpr const char* kUuid = "uuid";             // of a GPU
inline constexpr const char* kGuid = "guid";             // 0x…, of a switch or an HCA's node
inline constexpr const char* kPortGuid = "port_guid";    // 0x…, of a NIC's first port
inline constexpr const char* kComputeCapability = "sm";  // 90 for 9.0
inline constexpr const char* kVendor = "vendor";         // of a CPU: "GenuineIntel"
inline constexpr const char* kNuma = "numa";             // number of the NUMA domain; -1: unknown
inline constexpr const char* kCpus = "cpus";             // list: "0-31,64-95"
inline constexpr const char* kBandwidth = "gb_per_s";    // of a link
inline constexpr const char* kLatency = "latency_us";    // of a link
inline constexpr const char* kCount = "count";           // NVLinks or cables of a link
inline constexpr const char* kPcieSpeed = "pcie_gt_s";   // now, GT/s per lane
inline constexpr const char* kPcieMaxSpeed = "pcie_max_gt_s";
inline constexpr const char* kPcieWidth = "pcie_width";  // now, lanes
inline constexpr const char* kPcieMaxWidth = "pcie_max_width";
inline constexpr const char* kSpeed = "mbit_per_s";      // of a NIC's port
inline constexpr const char* kLanes = "lanes";           // of a network port or cable: 1, 2, 4, …
inline constexpr const char* kPort = "port";             // of a NIC
inline constexpr const char* kState = "state";           // of a port: "active", "down", …
inline constexpr const char* kLinkLayer = "link_layer";  // "InfiniBand", "Ethernet"
inline constexpr const char* kGdr = "gdr";               // 1: GPUDirect RDMA works, 0: not
inline constexpr const char* kNvlinks = "nvlinks";       // active NVLinks of a GPU
inline constexpr const char* kNvlinksDown = "nvlinks_down";
inline constexpr const char* kFabricState = "fabric_state";  // "completed", "in progress", …
inline constexpr const char* kPath = "path.";                // + id of a peer: "NV18", "PIX", "SYS"
inline constexpr const char* kRail = "rail";                 // of a NIC or a leaf switch
inline constexpr const char* kLevel = "level";               // of a switch: 0 = leaf
inline constexpr const char* kVirtual = "virtual_machine";   // 1
inline constexpr const char* kDriver = "driver";             // of a node's GPUs
// Of fabrics.
inline constexpr const char* kDescription = "description";  // as the source has it, for people
inline constexpr const char* kLid = "lid";                  // of a switch or a NIC's first port
inline constexpr const char* kPorts = "ports";              // of a switch
inline constexpr const char* kPortsUnlinked = "ports_unlinked";  // of these: down or without cable
inline constexpr const char* kSharp = "sharp";    // 1: the switch reduces (SHARP aggregation node)
inline constexpr const char* kRate = "rate";      // of a link: "4xNDR"; of unlike cables: a list
inline constexpr const char* kCables = "cables";  // of a link: "35-32 4xNDR, 36-31 4xNDR", the port
                                                  // first of the end whose id sorts first
inline constexpr const char* kTopology = "topology";       // of a fabric: "tree", "block", "flat"
inline constexpr const char* kBlockSizes = "block_sizes";  // of a fabric: "4,8,16"
// Of nodes, as the scheduler counts them.
inline constexpr const char* kGpuCount = "gpu_count";
inline constexpr const char* kGpuType = "gpu_type";  // "h100"; several: a list
inline constexpr const char* kCpuCount = "cpu_count";
inline constexpr const char* kMemory = "memory_bytes";
inline constexpr const char* kFeatures = "features";           // list: "ib,nvlink"
inline constexpr const char* kNodeState = "node_state";        // "IDLE+DRAIN"
inline constexpr const char* kNvlinkRate = "nvlink_gb_per_s";  // the slowest one's, as signalled
inline constexpr const char* kGpuNuma = "gpu_numa";            // domain that is a GPU's own memory

inline constexpr const char* kFabricHealth = "fabric_health";  // NVML's healthMask of a GPU
inline constexpr const char* kBusy = "busy";  // 1: the device worked while its PCIe speed was read
inline constexpr const char* kAcs = "acs";    // of a PCIe switch: 1 when a port of it redirects,
inline constexpr const char* kAcsPorts = "acs_ports";  // and which: "0000:12:00.0 0000:12:01.0"
inline constexpr const char* kPcieGen = "pcie_gen";    // of a GPU, now; NVML's
inline constexpr const char* kPcieMaxGen = "pcie_max_gen";  // with this slot and system
// What lets NICs reach GPU memory, of a node: "nvidia_peermem", "dma-buf", "none".
inline constexpr const char* kPeerMemory = "peer_memory";
}  // namespace key

class Graph {
 public:
  [[nodiscard]] const std::vector<Vertex>& vertices() const { return vertices_; }
  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  [[nodiscard]] const std::vector<Provenance>& sources() const { return sources_; }
  [[nodiscard]] const Vertex& vertex(VertexIndex index) const { return vertices_.at(index); }

  // The source's number for set(); the same place is listed once.
  std::uint32_t add_source(Source source, std::string place);
  // The vertex with this id, made when there is none. Code::User when it has another kind. A parent
  // that differs from before replaces it when it lies below the old one, or the old one is unknown;
  // else the old one stays.
  VertexIndex add(Kind kind, const std::string& id, VertexIndex parent = kNoVertex);
  [[nodiscard]] VertexIndex find(std::string_view id) const;  // kNoVertex: none
  // The link between two different vertices, made when there is none. Its number stays valid.
  std::uint32_t connect(LinkKind kind, VertexIndex a, VertexIndex b);
  [[nodiscard]] std::optional<std::uint32_t> find_link(LinkKind kind, VertexIndex a,
                                                       VertexIndex b) const;
  // Replaces what the same source said of the key before.
  void set(VertexIndex vertex, std::string_view key, Value value, std::uint32_t source);
  void set_link(std::uint32_t link, std::string_view key, Value value, std::uint32_t source);

  // Takes in everything of `other`; vertices with one id become one. GPUs and NICs of one node that
  // have the same bus id, or else the same index (GPU) or name (NIC), are the same also when their
  // ids differ (nvidia-smi's matrix knows no bus ids): the one with the bus id keeps its id. NICs
  // with one GUID and port (of two graphs; without a port: the first one) are the same, too, when
  // they are of one node or the node of one of them is not known. What the two disagree on stays as
  // facts of both; check_graph() reports it.
  void merge(const Graph& other);

  // Children in order of id.
  [[nodiscard]] std::vector<VertexIndex> children(VertexIndex parent) const;
  [[nodiscard]] std::vector<VertexIndex> of_kind(Kind kind) const;
  // All of a kind below `ancestor`, however deep.
  [[nodiscard]] std::vector<VertexIndex> below(VertexIndex ancestor, Kind kind) const;
  // The node that contains it; kNoVertex for what is in none.
  [[nodiscard]] VertexIndex node_of(VertexIndex vertex) const;

 private:
  class Merge;
  void set_in(std::vector<Fact>* facts, std::string_view key, Value value, std::uint32_t source);
  void move_below(VertexIndex vertex, VertexIndex parent);
  void rename(VertexIndex vertex, const std::string& id);
  [[nodiscard]] bool is_below(VertexIndex vertex, VertexIndex ancestor) const;

  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
  std::vector<Provenance> sources_;
  std::vector<std::vector<VertexIndex>> children_;  // by vertex
  std::map<std::string, VertexIndex, std::less<>> by_id_;
  std::map<std::tuple<LinkKind, VertexIndex, VertexIndex>, std::uint32_t> by_ends_;
  std::map<std::string, std::vector<VertexIndex>, std::less<>> nics_by_guid_;  // its ports
};

// The fact of the most trusted source; null: none.
[[nodiscard]] const Fact* fact_of(const Graph& graph, const std::vector<Fact>& facts,
                                  std::string_view key);
// The same as a value: nothing when absent or of another type (a whole number is a number, too).
[[nodiscard]] std::optional<double> number_of(const Graph& graph, const std::vector<Fact>& facts,
                                              std::string_view key);
[[nodiscard]] std::optional<std::int64_t> integer_of(const Graph& graph,
                                                     const std::vector<Fact>& facts,
                                                     std::string_view key);
[[nodiscard]] std::string text_of(const Graph& graph, const std::vector<Fact>& facts,
                                  std::string_view key);  // empty: absent

// Sources that disagree on a fact (figures by more than 2 %), loops of containment, links without
// ends in the same cluster: id "graph.conflict" or "graph.shape".
[[nodiscard]] std::vector<Finding> check_graph(const Graph& graph);

// graph.json (docs/formats/topology.md). parse throws Code::User naming `source` and what is wrong.
[[nodiscard]] std::string to_json(const Graph& graph);
[[nodiscard]] Graph parse_graph(const std::string& text, const std::string& source);

// 32 hexadecimal digits that depend on what is there and how it is connected (kinds, models,
// counts, bandwidths), and on no name, number, bus id or order.
[[nodiscard]] std::string fingerprint(const Graph& graph);
// The same of these nodes and of the NVLink domains that connect them. Fabrics are left out: which
// leaf switches a job gets is not known before.
[[nodiscard]] std::string fingerprint(const Graph& graph, const std::vector<VertexIndex>& nodes);

// "0000:3b:00.0" of "00000000:3B:00.0", "3b:00.0", "0000:3b:00"; nothing for what is no bus id.
[[nodiscard]] std::optional<std::string> normal_bus_id(std::string_view text);

}  // namespace regatta::topology::graph
