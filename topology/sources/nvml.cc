#include "topology/sources/nvml.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"
#include "base/text.h"

namespace regatta::topology::sources {
namespace {

using Json = nlohmann::ordered_json;

// The unit of field 164 (speed of a link, one direction), as `nvidia-smi nvlink -s` prints it.
constexpr double kMegabytesPerGigabyte = 1000;
constexpr std::int64_t kMostNumbered = 64;  // GPUs, and links of one
constexpr int kRemoteSwitch = 2;
constexpr std::int64_t kPercentAtWork = 50;  // of up to a second; less may be over already

struct Call {
  std::string function;
  std::vector<std::int64_t> arguments;
  int code = 0;
  Json value;
};

// "nvmlDeviceGetNvLinkState(0,3)"
std::optional<Call> parse_call(const std::string& text) {
  Call call;
  const std::size_t open = text.find('(');
  call.function = text.substr(0, open);
  if (open == std::string::npos) return call;
  if (text.back() != ')') return std::nullopt;
  for (const std::string& part :
       base::split(std::string_view(text).substr(open + 1, text.size() - open - 2), ',')) {
    const auto number = base::parse_integer(part);
    if (!number || *number < 0) return std::nullopt;
    call.arguments.push_back(*number);
  }
  return call;
}

template <class Take>
void for_each_line(std::string_view lines, Take&& take) {
  for (const std::string& line : base::split(lines, '\n')) {
    const Json json = base::parse_json<Json>(line);
    if (json.is_object()) take(json);
  }
}

std::vector<Call> calls_of(std::string_view lines) {
  std::vector<Call> calls;
  for_each_line(lines, [&](const Json& json) {
    if (!json.contains("end") || !json["end"].is_string()) return;
    auto call = parse_call(json["end"].get<std::string>());
    if (!call || !json.contains("code") || !json["code"].is_number_integer()) return;
    call->code = json["code"].get<int>();
    call->value = json.value("value", Json());
    calls.push_back(std::move(*call));
  });
  return calls;
}

struct NvLink {
  bool active = false;
  std::optional<double> megabytes_per_second;
  std::string remote;  // bus id, may be none
  std::optional<std::int64_t> remote_type;
};
struct Gpu {
  std::string bus_id, name, uuid;
  std::optional<std::int64_t> sm, utilization, generation, most_generation, width, most_width,
      replays, numa;
  Json fabric;
  std::map<std::int64_t, NvLink> links;
};

std::optional<std::int64_t> whole(const Json& value) {
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}
std::string words(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

void take_link_call(const Call& call, NvLink* link) {
  if (call.function == "nvmlDeviceGetNvLinkState") {
    link->active = whole(call.value) == 1;
  } else if (call.function == "nvmlDeviceGetFieldValues" && call.value.is_object()) {
    // Since Hopper this one counts: 0 inactive, 1 active, 2 asleep.
    if (const auto state = whole(call.value.value("state", Json()))) link->active = *state != 0;
    if (const auto speed = whole(call.value.value("mb_per_s", Json()))) {
      link->megabytes_per_second = static_cast<double>(*speed);
    }
  } else if (call.function == "nvmlDeviceGetNvLinkRemotePciInfo_v2") {
    link->remote = words(call.value);
  } else if (call.function == "nvmlDeviceGetNvLinkRemoteDeviceType") {
    link->remote_type = whole(call.value);
  }
}

void take_gpu_call(const Call& call, Gpu* gpu) {
  const std::map<std::string, std::optional<std::int64_t> Gpu::*> numbers{
      {"nvmlDeviceGetCudaComputeCapability", &Gpu::sm},
      {"nvmlDeviceGetUtilizationRates", &Gpu::utilization},
      {"nvmlDeviceGetCurrPcieLinkGeneration", &Gpu::generation},
      {"nvmlDeviceGetMaxPcieLinkGeneration", &Gpu::most_generation},
      {"nvmlDeviceGetCurrPcieLinkWidth", &Gpu::width},
      {"nvmlDeviceGetMaxPcieLinkWidth", &Gpu::most_width},
      {"nvmlDeviceGetPcieReplayCounter", &Gpu::replays},
      {"nvmlDeviceGetNumaNodeId", &Gpu::numa}};
  if (const auto found = numbers.find(call.function); found != numbers.end()) {
    gpu->*(found->second) = whole(call.value);
  } else if (call.function == "nvmlDeviceGetPciInfo_v3") {
    gpu->bus_id = words(call.value);
  } else if (call.function == "nvmlDeviceGetName") {
    gpu->name = words(call.value);
  } else if (call.function == "nvmlDeviceGetUUID") {
    gpu->uuid = words(call.value);
  } else if (call.function == "nvmlDeviceGetGpuFabricInfoV") {
    gpu->fabric = call.value;
  }
}

class NvmlBuilder {
 public:
  explicit NvmlBuilder(const std::string& host)
      : host_(host),
        source_(graph_.add_source(graph::Source::Nvml, host)),
        node_(graph_.add(graph::Kind::Node, host)) {}

  graph::Graph build(const std::map<std::int64_t, Gpu>& gpus, const std::string& driver) {
    if (!driver.empty()) set(node_, graph::key::kDriver, driver);
    for (const auto& [index, gpu] : gpus) add_gpu(index, gpu);
    for (const auto& [index, gpu] : gpus) add_links(index, gpu);
    return std::move(graph_);
  }

 private:
  void set(graph::VertexIndex vertex, std::string_view name, graph::Value value) {
    graph_.set(vertex, name, std::move(value), source_);
  }
  void set_if(graph::VertexIndex vertex, const char* name,
              const std::optional<std::int64_t>& value) {
    if (value) set(vertex, name, *value);
  }
  [[nodiscard]] std::string id_of(std::int64_t index, const Gpu& gpu) const {
    const auto bus = graph::normal_bus_id(gpu.bus_id);
    return host_ + (bus ? "/gpu:" + *bus : "/gpu#" + std::to_string(index));
  }

  void add_gpu(std::int64_t index, const Gpu& gpu) {
    const graph::VertexIndex vertex = graph_.add(graph::Kind::Gpu, id_of(index, gpu), node_);
    set(vertex, graph::key::kIndex, index);
    if (const auto bus = graph::normal_bus_id(gpu.bus_id)) set(vertex, graph::key::kBusId, *bus);
    if (!gpu.name.empty()) set(vertex, graph::key::kModel, gpu.name);
    if (!gpu.uuid.empty()) set(vertex, graph::key::kUuid, gpu.uuid);
    set_if(vertex, graph::key::kComputeCapability, gpu.sm);
    set_if(vertex, graph::key::kPcieWidth, gpu.width);
    set_if(vertex, graph::key::kPcieMaxWidth, gpu.most_width);
    set_if(vertex, graph::key::kPcieGen, gpu.generation);
    set_if(vertex, graph::key::kPcieMaxGen, gpu.most_generation);
    if (gpu.utilization) {
      set(vertex, graph::key::kBusy, std::int64_t{*gpu.utilization >= kPercentAtWork ? 1 : 0});
    }
    set_if(vertex, "pcie_replays", gpu.replays);
    if (gpu.fabric.is_object()) add_fabric(vertex, gpu.fabric);
  }

  void add_fabric(graph::VertexIndex gpu, const Json& fabric) {
    constexpr const char* kStates[] = {"not supported", "not started", "in progress", "completed"};
    const auto state = whole(fabric.value("state", Json()));
    if (!state || *state < 0 || *state > 3) return;
    set(gpu, graph::key::kFabricState, kStates[*state]);
    set_if(gpu, "fabric_status", whole(fabric.value("status", Json())));
    set_if(gpu, "fabric_health", whole(fabric.value("health", Json())));
    const std::string cluster = words(fabric.value("cluster", Json()));
    const auto clique = whole(fabric.value("clique", Json()));
    // All zeros: the NVLinks do not leave the node.
    if (cluster.find_first_not_of('0') == std::string::npos || !clique) return;
    const std::string domain = cluster + "." + std::to_string(*clique);
    set(gpu, "nvlink_domain", domain);
    (void)graph_.add(graph::Kind::NvlinkDomain, "nvlink_domain:" + domain);
  }

  void add_links(std::int64_t index, const Gpu& gpu) {
    const graph::VertexIndex own = graph_.find(id_of(index, gpu));
    std::int64_t active = 0;
    std::map<graph::VertexIndex, std::pair<std::int64_t, double>> by_peer;  // links, MB/s
    for (const auto& [number, link] : gpu.links) {
      if (!link.active) continue;
      ++active;
      const graph::VertexIndex peer = peer_of(link);
      if (peer == own) continue;
      auto& [count, speed] = by_peer[peer];
      ++count;
      speed += link.megabytes_per_second.value_or(0);
    }
    if (gpu.links.empty()) return;
    set(own, graph::key::kNvlinks, active);
    set(own, graph::key::kNvlinksDown, static_cast<std::int64_t>(gpu.links.size()) - active);
    for (const auto& [peer, sum] : by_peer) {
      const auto link = graph_.connect(graph::LinkKind::NvLink, own, peer);
      graph_.set_link(link, graph::key::kCount, sum.first, source_);
      if (sum.second > 0) {
        graph_.set_link(link, graph::key::kBandwidth, sum.second / kMegabytesPerGigabyte, source_);
      }
    }
  }

  graph::VertexIndex peer_of(const NvLink& link) {
    const auto bus = graph::normal_bus_id(link.remote);
    if (bus) {
      const graph::VertexIndex gpu = graph_.find(host_ + "/gpu:" + *bus);
      if (gpu != graph::kNoVertex) return gpu;
    }
    // In a virtual machine, and on Hopper's switches of other nodes, the bus id means nothing.
    const bool named = bus && link.remote_type == kRemoteSwitch && bus->rfind("ffff", 0) != 0 &&
                       *bus != "0000:00:00.0";
    return graph_.add(graph::Kind::NvSwitch, host_ + (named ? "/nvswitch:" + *bus : "/nvswitch#0"),
                      node_);
  }

  std::string host_;
  graph::Graph graph_;
  std::uint32_t source_;
  graph::VertexIndex node_;
};

}  // namespace

graph::Graph read_nvml(std::string_view lines, const std::string& host) {
  std::map<std::int64_t, Gpu> gpus;
  std::string driver;
  for (const Call& call : calls_of(lines)) {
    if (call.code != 0) continue;
    if (call.function == "nvmlSystemGetDriverVersion") driver = words(call.value);
    if (call.arguments.empty() || call.arguments[0] >= kMostNumbered) continue;
    Gpu& gpu = gpus[call.arguments[0]];
    if (call.arguments.size() == 1) {
      take_gpu_call(call, &gpu);
    } else if (call.arguments[1] < kMostNumbered) {
      take_link_call(call, &gpu.links[call.arguments[1]]);
    }
  }
  return NvmlBuilder(host).build(gpus, driver);
}

std::vector<std::string> nvml_timeouts(std::string_view lines) {
  std::vector<std::string> open;
  for_each_line(lines, [&](const Json& json) {
    if (json.contains("begin") && json["begin"].is_string()) {
      open.push_back(json["begin"].get<std::string>());
    } else if (json.contains("end") && !open.empty() && json["end"] == open.back()) {
      open.pop_back();
    }
  });
  return open;
}

std::string nvml_missing(std::string_view lines) {
  std::string why;
  for_each_line(lines, [&](const Json& json) {
    if (json.contains("missing")) why = words(json["missing"]);
  });
  return why;
}

}  // namespace regatta::topology::sources
