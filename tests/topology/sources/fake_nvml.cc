// A libnvidia-ml.so.1 of two Hopper GPUs behind one NVSwitch. FAKE_NVML_HANG names the call that
// never returns ("nvmlDeviceGetName:1": of GPU 1), FAKE_NVML_FAIL makes nvmlInit_v2 return its
// number, FAKE_NVML_BUSY lets the GPUs work.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int devices[2];

int index_of(void* device) { return static_cast<int>(static_cast<int*>(device) - devices); }

void may_hang(const char* function, int index) {
  const char* const hang = std::getenv("FAKE_NVML_HANG");
  if (hang != nullptr && std::string(hang) == std::string(function) + ":" + std::to_string(index)) {
    for (;;) ::pause();
  }
}

struct PciInfo {
  char legacy[16];
  std::uint32_t domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
};
struct FieldValue {
  std::uint32_t field, scope;
  std::int64_t timestamp, latency_us;
  int type, code;
  std::uint64_t value;
};
struct FabricInfo {
  std::uint32_t version;
  unsigned char cluster[16];
  int status;
  std::uint32_t clique;
  unsigned char state;
  std::uint32_t health;
};

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const char* const fail = std::getenv("FAKE_NVML_FAIL");
  return fail == nullptr ? 0 : std::atoi(fail);
}
int nvmlShutdown() { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "570.86.15");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return 2;
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%dB:00.0", index_of(device) + 1);
  return 0;
}
int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  may_hang("nvmlDeviceGetName", index_of(device));
  std::snprintf(text, size, "NVIDIA H100 80GB HBM3");
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-%d", index_of(device));
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* percents) {
  percents[0] = percents[1] = std::getenv("FAKE_NVML_BUSY") == nullptr ? 0 : 97;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* value) { return *value = 1, 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* value) { return *value = 5, 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* value) { return *value = 16, 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* value) { return *value = 16, 0; }
int nvmlDeviceGetGpuFabricInfoV(void* device, FabricInfo* info) {
  may_hang("nvmlDeviceGetGpuFabricInfoV", index_of(device));
  info->state = 3;
  info->clique = 7;
  std::memset(info->cluster, 0xab, sizeof info->cluster);
  return 0;
}
int nvmlDeviceGetNvLinkState(void*, unsigned link, unsigned* active) {
  if (link >= 18) return 2;
  *active = 1;
  return 0;
}
// Link 17 of GPU 1 is down, which only the field tells.
int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* fields) {
  for (int i = 0; i < count; ++i) {
    const bool down = index_of(device) == 1 && fields[i].scope == 17;
    fields[i].code = 0;
    fields[i].value = fields[i].field == 165 ? (down ? 0U : 1U) : 26562U;
  }
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, PciInfo* info) {
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:C1:00.0");
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int* type) { return *type = 2, 0; }

}  // extern "C"
