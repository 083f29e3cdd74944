#include "topology/sources/nvml_calls.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/ascii.h"
#include "base/json.h"

namespace regatta::topology::sources {
namespace {

using Json = nlohmann::ordered_json;

// No header of NVML is installed where there is no GPU; these are its types, as the reference gives
// them for all releases since R450.
using NvmlDevice = void*;
struct PciInfo {  // nvmlPciInfo_t of the _v3 functions, 68 bytes
  char legacy[16];
  std::uint32_t domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);
struct FieldValue {  // nvmlFieldValue_t
  std::uint32_t field, scope;
  std::int64_t timestamp, latency_us;
  int type, code;
  union {
    double real;
    std::uint32_t u32;
    unsigned long ul;
    std::uint64_t u64;
    std::int64_t i64;
  } value;
};
static_assert(sizeof(FieldValue) == 40);
struct Utilization {  // nvmlUtilization_t: percent of the last sample period
  unsigned gpu, memory;
};
struct FabricInfo {  // nvmlGpuFabricInfo_v2_t
  std::uint32_t version;
  unsigned char cluster[16];
  int status;
  std::uint32_t clique;
  unsigned char state;
  std::uint32_t health;
};

constexpr unsigned kMostDevices = 64;
constexpr unsigned kMostAskedLinks = 36;
constexpr int kNotSupported = 3, kInvalidArgument = 2, kNotFound = 6, kFunctionMissing = 13;
constexpr std::uint32_t kFieldLinkState = 165, kFieldLinkSpeed = 164;
constexpr int kText = 96;

bool is_absent(int code) {
  return code == kNotSupported || code == kInvalidArgument || code == kNotFound ||
         code == kFunctionMissing;
}

class Asker {
 public:
  Asker(void* library, const std::set<std::string>& skip,
        const std::function<void(const std::string&)>& print)
      : library_(library), skip_(skip), print_(print) {}

  int run() {
    if (call("nvmlInit_v2", "", [](auto) { return Json(); }) != 0) return 1;
    std::array<char, kText> text{};
    call(
        "nvmlSystemGetDriverVersion", "", [&](auto) { return Json(text.data()); }, text.data(),
        unsigned{kText});
    unsigned count = 0;
    call(
        "nvmlDeviceGetCount_v2", "", [&](auto) { return Json(count); }, &count);
    for (unsigned index = 0; index < std::min(count, kMostDevices); ++index) ask_device(index);
    call("nvmlShutdown", "", [](auto) { return Json(); });
    return 0;
  }

 private:
  // Prints the two lines and returns NVML's code; −1 when the call is left out.
  template <class Value, class... Arguments>
  int call(const char* function, const std::string& subject, Value&& value,
           Arguments... arguments) {
    const std::string name = std::string(function) + (subject.empty() ? "" : "(" + subject + ")");
    if (skip_.count(name) > 0) return -1;
    print_(base::json_text(Json{{"begin", name}}));
    int code = kFunctionMissing;
    using Function = int (*)(Arguments...);
    if (const auto found = reinterpret_cast<Function>(::dlsym(library_, function))) {
      code = found(arguments...);
    }
    Json line{{"end", name}, {"code", code}};
    if (code == 0) line["value"] = value(0);
    print_(base::json_text(line));
    return code;
  }

  void ask_device(unsigned index) {
    const std::string subject = std::to_string(index);
    NvmlDevice device = nullptr;
    if (call(
            "nvmlDeviceGetHandleByIndex_v2", subject, [](auto) { return Json(); }, index,
            &device) != 0) {
      return;
    }
    PciInfo pci{};
    call(
        "nvmlDeviceGetPciInfo_v3", subject, [&](auto) { return Json(pci.bus_id); }, device, &pci);
    std::array<char, kText> text{};
    for (const char* function : {"nvmlDeviceGetName", "nvmlDeviceGetUUID"}) {
      call(
          function, subject, [&](auto) { return Json(text.data()); }, device, text.data(),
          unsigned{kText});
    }
    int major = 0, minor = 0;
    call(
        "nvmlDeviceGetCudaComputeCapability", subject,
        [&](auto) { return Json(10 * major + minor); }, device, &major, &minor);
    Utilization utilization{};
    call(
        "nvmlDeviceGetUtilizationRates", subject, [&](auto) { return Json(utilization.gpu); },
        device, &utilization);
    for (const char* function :
         {"nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkGeneration",
          "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxPcieLinkWidth",
          "nvmlDeviceGetPcieReplayCounter", "nvmlDeviceGetNumaNodeId"}) {
      unsigned value = 0;
      call(
          function, subject, [&](auto) { return Json(value); }, device, &value);
    }
    FabricInfo fabric{};
    fabric.version = static_cast<std::uint32_t>(sizeof fabric) | (2U << 24);
    call(
        "nvmlDeviceGetGpuFabricInfoV", subject,
        [&](auto) {
          return Json{{"cluster", base::hex({reinterpret_cast<const char*>(fabric.cluster),
                                             sizeof fabric.cluster})},
                      {"clique", fabric.clique},
                      {"status", fabric.status},
                      {"state", fabric.state},
                      {"health", fabric.health}};
        },
        device, &fabric);
    for (unsigned link = 0; link < kMostAskedLinks && ask_link(device, subject, link); ++link) {
    }
  }

  // Whether there may be a further link.
  bool ask_link(NvmlDevice device, const std::string& index, unsigned link) {
    const std::string subject = index + "," + std::to_string(link);
    unsigned active = 0;
    const int code = call(
        "nvmlDeviceGetNvLinkState", subject, [&](auto) { return Json(active); }, device, link,
        &active);
    if (is_absent(code)) return false;
    std::array<FieldValue, 2> fields{};
    fields[0].field = kFieldLinkState;
    fields[1].field = kFieldLinkSpeed;
    for (FieldValue& field : fields) field.scope = link;
    call(
        "nvmlDeviceGetFieldValues", subject,
        [&](auto) {
          Json json = Json::object();
          if (fields[0].code == 0) json["state"] = fields[0].value.u32;
          if (fields[1].code == 0) json["mb_per_s"] = fields[1].value.u32;
          return json;
        },
        device, static_cast<int>(fields.size()), fields.data());
    PciInfo remote{};
    call(
        "nvmlDeviceGetNvLinkRemotePciInfo_v2", subject, [&](auto) { return Json(remote.bus_id); },
        device, link, &remote);
    int type = 0;
    call(
        "nvmlDeviceGetNvLinkRemoteDeviceType", subject, [&](auto) { return Json(type); }, device,
        link, &type);
    return true;
  }

  void* library_;
  const std::set<std::string>& skip_;
  const std::function<void(const std::string&)>& print_;
};

}  // namespace

int ask_nvml(const std::string& library, const std::set<std::string>& skip,
             const std::function<void(const std::string&)>& print) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    print(base::json_text(Json{{"missing", why == nullptr ? library : why}}));
    return 1;
  }
  return Asker(handle, skip, print).run();
}

}  // namespace regatta::topology::sources
