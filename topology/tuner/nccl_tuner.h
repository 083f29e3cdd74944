// NCCL's interface to tuner plug-ins, versions 2 to 5, as far as it is needed; declared here, since
// NCCL installs no header of it. After NVIDIA/nccl, tuner_v2.h to tuner_v5.h
// in its src/include/plugin/tuner; 2.28 looks for ncclTunerPlugin_v5, then _v4, _v3, _v2, newer
// ones for _v6 first.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

using NcclLogger = void (*)(int level, unsigned long flags, const char* file, int line,
                            const char* format, ...);

struct NcclNvlDomainInfoV5 {
  int domains, least_ranks, most_ranks;
};
static_assert(sizeof(NcclNvlDomainInfoV5) == 12);

struct NcclTunerConstantsV5 {
  double base_us[7][3];
  double hop_us[3][7][3];
  double ll_gb_per_s[4][3], ring_ll128_gb_per_s[4][3], tree_ll128_gb_per_s[4][3];
  double tree_gb_per_s[4][3], nvls_tree_gb_per_s[4][3];
};
static_assert(sizeof(NcclTunerConstantsV5) == (7 * 3 + 3 * 7 * 3 + 5 * 4 * 3) * sizeof(double));

// `costs` is not what its type says: a float[algorithms][protocols], the predicted µs; negative
// where NCCL has no such way. NCCL takes the least that is not negative. *channels stays 0 for
// NCCL's own number. Any result but 0 fails the call in 2.28. `bytes`: the greater of what a rank
// sends and receives, of all calls of a group together.
using NcclGetCollInfoV2 = int (*)(void* context, int function, std::size_t bytes, int collnet,
                                  int nvls, int pipelined, int* algorithm, int* protocol,
                                  int* channels);
using NcclGetCollInfoV3 = int (*)(void* context, int function, std::size_t bytes, int pipelined,
                                  float** costs, int algorithms, int protocols, int* channels);
using NcclGetCollInfoV4 = int (*)(void* context, int function, std::size_t bytes, int pipelined,
                                  float** costs, int algorithms, int protocols, int registered,
                                  int* channels);
using NcclTunerInitV2 = int (*)(std::size_t ranks, std::size_t nodes, NcclLogger log,
                                void** context);
using NcclTunerInitV5 = int (*)(void** context, std::uint64_t id, std::size_t ranks,
                                std::size_t nodes, NcclLogger log, NcclNvlDomainInfoV5* domains,
                                NcclTunerConstantsV5* constants);
using NcclTunerEnd = int (*)(void* context);

struct NcclTunerV2 {
  const char* name;
  NcclTunerInitV2 init;
  NcclGetCollInfoV2 get_coll_info;
  NcclTunerEnd destroy;
};
struct NcclTunerV3 {
  const char* name;
  NcclTunerInitV2 init;
  NcclGetCollInfoV3 get_coll_info;
  NcclTunerEnd destroy;
};
struct NcclTunerV4 {
  const char* name;
  NcclTunerInitV2 init;
  NcclGetCollInfoV4 get_coll_info;
  NcclTunerEnd destroy;
};
struct NcclTunerV5 {
  const char* name;
  NcclTunerInitV5 init;
  NcclGetCollInfoV4 get_coll_info;
  NcclTunerEnd finalize;
};
static_assert(sizeof(NcclTunerV2) == 4 * sizeof(void*));
static_assert(sizeof(NcclTunerV5) == 4 * sizeof(void*));
static_assert(offsetof(NcclTunerV2, get_coll_info) == 2 * sizeof(void*));
static_assert(offsetof(NcclTunerV5, get_coll_info) == 2 * sizeof(void*));

// What libnccl-tuner-regatta.so exports.
[[gnu::visibility("default")]] extern const NcclTunerV2 ncclTunerPlugin_v2;
[[gnu::visibility("default")]] extern const NcclTunerV3 ncclTunerPlugin_v3;
[[gnu::visibility("default")]] extern const NcclTunerV4 ncclTunerPlugin_v4;
[[gnu::visibility("default")]] extern const NcclTunerV5 ncclTunerPlugin_v5;

// Asked by regatta-train before it lets NCCL load the plug-in (trainer/plugins/tuner_agreement.cc):
// the build that it is of, and what is wrong with a plan.tuner (null: nothing, and the rest is
// filled in), in the judgement of the very code that will read it.
[[gnu::visibility("default")]] const char* regatta_tuner_version();
[[gnu::visibility("default")]] const char* regatta_tuner_complaint(const void* file,
                                                                   std::size_t size, int* ranks,
                                                                   int* nccl_version);
}
