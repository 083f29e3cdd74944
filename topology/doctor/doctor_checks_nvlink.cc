#include <algorithm>
#include <cmath>

#include "topology/doctor/doctor_checks.h"
#include "topology/graph/figures.h"

namespace regatta::topology::doctor {
namespace {

bool fabric_works(const ClusterView& view, graph::VertexIndex gpu) {
  const std::string state = view.text(gpu, graph::key::kFabricState);
  return state.empty() || state == "completed" || state == "unsupported" ||
         state == "not supported";
}

struct Links {
  std::int64_t count = 0;
  double gb_per_s = 0;
};

Links nvlinks_of(const ClusterView& view, graph::VertexIndex gpu) {
  Links links;
  for (const std::uint32_t link : view.links_of(gpu)) {
    if (view.graph().links()[link].kind != graph::LinkKind::NvLink) continue;
    links.count += view.count(link);
    links.gb_per_s += view.gb_per_s(link);
  }
  return links;
}

constexpr std::int64_t kMostNvlinks = 1000;  // of a GPU, whatever a file claims

// Active NVLinks; nothing when no source says.
std::optional<std::int64_t> active_nvlinks(const ClusterView& view, graph::VertexIndex gpu) {
  if (const auto active = view.integer(gpu, graph::key::kNvlinks)) {
    return std::clamp<std::int64_t>(*active, 0, kMostNvlinks);
  }
  const std::int64_t count = nvlinks_of(view, gpu).count;
  return count > 0 ? std::optional(std::min(count, kMostNvlinks)) : std::nullopt;
}

// How many a GPU of this model should have: as its figures say, or, for cards with bridges and
// models without figures, as most of the cluster have.
std::map<std::string, std::int64_t> expected_nvlinks(const ClusterView& view) {
  std::map<std::string, std::vector<std::int64_t>> seen;
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex gpu : node.gpus) {
      seen[view.text(gpu, graph::key::kModel)].push_back(active_nvlinks(view, gpu).value_or(0));
    }
  }
  std::map<std::string, std::int64_t> expected;
  for (const auto& [model, counts] : seen) {
    const graph::GpuFigures* const figures = graph::gpu_figures(model);
    if (figures != nullptr && figures->form != graph::NvlinkForm::Bridge) {
      expected[model] = figures->nvlinks;
    } else {
      expected[model] = usual(counts).value_or(0);
    }
  }
  return expected;
}

std::int64_t missing_nvlinks(const ClusterView& view, graph::VertexIndex gpu,
                             const std::map<std::string, std::int64_t>& expected) {
  if (!fabric_works(view, gpu)) return 0;  // no link is up then, for one cause
  const std::string model = view.text(gpu, graph::key::kModel);
  const std::int64_t wanted = expected.at(model);
  const std::int64_t down = std::clamp<std::int64_t>(
      view.integer(gpu, graph::key::kNvlinksDown).value_or(0), 0, kMostNvlinks);
  auto active = active_nvlinks(view, gpu);
  // A bridge that is missing leaves no trace but its neighbours'.
  const graph::GpuFigures* const figures = graph::gpu_figures(model);
  if (!active && figures != nullptr && figures->form == graph::NvlinkForm::Bridge && wanted > 0)
    active = 0;
  const std::int64_t fewer = active ? wanted - *active : 0;
  return std::max<std::int64_t>({fewer, down, 0});
}

std::vector<graph::Finding> look_at_missing(const ClusterView& view) {
  Cases cases(view);
  const auto expected = expected_nvlinks(view);
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex gpu : node.gpus) {
      const std::int64_t missing = missing_nvlinks(view, gpu, expected);
      if (missing == 0) continue;
      const std::string model = view.text(gpu, graph::key::kModel);
      const std::int64_t wanted = std::max(expected.at(model), missing);
      const graph::GpuFigures* const figures = graph::gpu_figures(model);
      Case one{gpu,
               {view.id(gpu) + " " + graph::key::kNvlinks,
                std::to_string(wanted - missing) + " of " + std::to_string(wanted)}};
      if (figures != nullptr) {
        one.rates = Rates{figures->gb_per_s_a_nvlink * static_cast<double>(wanted),
                          figures->gb_per_s_a_nvlink * static_cast<double>(wanted - missing)};
      }
      cases.add(std::to_string(missing) + " of " + std::to_string(wanted), std::move(one));
    }
  }
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": " + cause + " NVLinks are not there or not active";
  });
}

std::vector<graph::Finding> look_at_asymmetry(const ClusterView& view) {
  Cases cases(view);
  const auto expected = expected_nvlinks(view);
  for (const NodeView& node : view.nodes()) {
    std::map<std::string, std::vector<graph::VertexIndex>> by_model;
    for (const graph::VertexIndex gpu : node.gpus)
      by_model[view.text(gpu, graph::key::kModel)].push_back(gpu);
    for (const auto& [model, gpus] : by_model) {
      double best = 0;
      for (const graph::VertexIndex gpu : gpus)
        best = std::max(best, nvlinks_of(view, gpu).gb_per_s);
      for (const graph::VertexIndex gpu : gpus) {
        const Links links = nvlinks_of(view, gpu);
        if (links.gb_per_s == 0 || links.gb_per_s >= best * 0.98) continue;
        if (missing_nvlinks(view, gpu, expected) > 0) continue;
        cases.add("", {gpu,
                       {view.id(gpu) + " nvlink " + graph::key::kBandwidth,
                        figure(links.gb_per_s) + " of " + figure(best)},
                       Rates{best, links.gb_per_s}});
      }
    }
  }
  return cases.findings([](const std::string& who, const std::string&) {
    return who + ": NVLink is slower than that of the other GPUs, with no link missing";
  });
}

std::vector<graph::Finding> look_at_fabric_state(const ClusterView& view) {
  Cases cases(view);
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex gpu : node.gpus) {
      if (fabric_works(view, gpu)) continue;
      const std::string state = view.text(gpu, graph::key::kFabricState);
      cases.add(state, {gpu, {view.id(gpu) + " " + graph::key::kFabricState, state}});
    }
  }
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": not registered with the NVLink fabric, which is '" + cause + "'";
  });
}

// NVML's healthMask: fields of two bits (1: so, 2: not so), and one of four for the configuration
// (1: fine, above: what is wrong).
std::string complaints(std::int64_t mask) {
  struct Field {
    int shift;
    const char* words;
  };
  constexpr Field kFields[] = {{0, "degraded bandwidth"},
                               {2, "a route is being recovered"},
                               {4, "a route is unhealthy"},
                               {6, "access timeouts are being recovered"}};
  constexpr const char* kConfigurations[] = {
      "wrong system GUID", "wrong chassis serial number", "no partition",
      "too few NVLinks",   "GPU firmware does not fit",   "wrong location"};
  std::string words;
  for (const Field& field : kFields) {
    if (((mask >> field.shift) & 3) == 1)
      words += (words.empty() ? "" : ", ") + std::string(field.words);
  }
  const std::int64_t configuration = (mask >> 8) & 15;
  if (configuration >= 2) {
    const auto at = static_cast<std::size_t>(configuration - 2);
    words +=
        (words.empty() ? "" : ", ") +
        std::string(at < std::size(kConfigurations) ? kConfigurations[at] : "wrong configuration");
  }
  return words;
}

std::vector<graph::Finding> look_at_health(const ClusterView& view) {
  Cases cases(view);
  for (const NodeView& node : view.nodes()) {
    for (const graph::VertexIndex gpu : node.gpus) {
      const auto mask = view.integer(gpu, graph::key::kFabricHealth);
      const std::string words = mask ? complaints(*mask) : "";
      if (words.empty()) continue;
      cases.add(words,
                {gpu, {view.id(gpu) + " " + graph::key::kFabricHealth, std::to_string(*mask)}});
    }
  }
  return cases.findings([](const std::string& who, const std::string& cause) {
    return who + ": the NVLink fabric reports " + cause;
  });
}

}  // namespace

std::vector<Check> nvlink_checks() {
  return {
      {{"nvlink.asymmetric", graph::Severity::Warning,
        "a GPU's NVLinks are slower than its neighbours'",
        "the slowest GPU sets the pace of every collective",
        "compare `nvidia-smi nvlink -s` over the GPUs; reset the node's GPUs, and have the board "
        "looked at when it stays"},
       look_at_asymmetry},
      {{"nvlink.fabric_state", graph::Severity::Error,
        "GPUs are not registered with the NVLink fabric",
        "CUDA does not start on them, or sees no NVLink",
        "start the fabric manager in the driver's version (`systemctl restart "
        "nvidia-fabricmanager`; of a rack: its NVLink switch trays' service) and look at "
        "`nvidia-smi -q | grep -A4 Fabric`"},
       look_at_fabric_state},
      {{"nvlink.health", graph::Severity::Error, "the NVLink fabric reports bad health of a GPU",
        "NVLink is slower, or breaks off in the middle of a run",
        "drain the node and reset its GPUs (`nvidia-smi -r`); if `nvidia-smi -q | grep -A8 "
        "Fabric` still shows it, have board or switch tray looked at"},
       look_at_health},
      {{"nvlink.missing", graph::Severity::Error, "NVLinks of a GPU are missing or not active",
        "the GPU with the fewest links sets the pace of every collective",
        "look at `nvidia-smi nvlink -s` and the kernel's log for Xid 74; drain the node, reset "
        "its GPUs, and have board or bridge changed when it stays"},
       look_at_missing},
  };
}

}  // namespace regatta::topology::doctor
