#include "orchestrator/site/trainer_environment.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/ascii.h"
#include "orchestrator/batch/batch_script.h"

namespace regatta::orchestrator::site {
namespace {

using View = std::string_view;

constexpr View kNames[] = {
    "PWD", "HOSTNAME", "TMPDIR", "LANGUAGE", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME",
    "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
    // Open MPI: where it lies, and that it may run as root in a container.
    "OPAL_PREFIX", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
    // Of the trainer and its tuner plugin.
    "REGATTA_PLUGIN_DIR", "REGATTA_CACHE_DIR", "REGATTA_MPIRUN", "REGATTA_TUNER",
    // A trainer that was built with a sanitizer.
    "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"};
constexpr View kPrefixes[] = {"CUDA_", "NVIDIA_",   "NCCL_",     "OMP_",      "GOMP_",     "KMP_",
                              "MKL_",  "DNNL_",     "ONEDNN_",   "UCX_",      "OPENBLAS_", "HWLOC_",
                              "FI_",   "OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_", "MALLOC_"};
constexpr View kSecrets[] = {"TOKEN",      "SECRET",     "PASSWORD",    "PASSWD",  "PASSPHRASE",
                             "CREDENTIAL", "ACCESS_KEY", "PRIVATE_KEY", "API_KEY", "APIKEY"};

}  // namespace

bool may_reach_trainer(View variable) {
  const std::string upper = base::upper_case(variable);
  if (std::any_of(std::begin(kSecrets), std::end(kSecrets),
                  [&](View word) { return upper.find(word) != std::string::npos; })) {
    return false;
  }
  if (variable == "SLURM_CONF") return false;
  return batch::may_reach_job(variable) ||
         std::find(std::begin(kNames), std::end(kNames), variable) != std::end(kNames) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](View prefix) { return variable.substr(0, prefix.size()) == prefix; });
}

std::map<std::string, std::string> trainer_environment(
    const std::map<std::string, std::string>& whole) {
  std::map<std::string, std::string> kept;
  for (const auto& variable : whole) {
    if (may_reach_trainer(variable.first)) kept.insert(variable);
  }
  return kept;
}

}  // namespace regatta::orchestrator::site
