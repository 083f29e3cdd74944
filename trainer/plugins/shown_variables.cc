#include "trainer/plugins/shown_variables.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "base/ascii.h"

namespace regatta::trainer::plugins {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostVariables = 512;
constexpr std::size_t kMostValueBytes = 1024;

constexpr std::array<std::string_view, 17> kShown = {
    "OMP_",      "GOMP_",    "KMP_",       "MKL_",    "OPENBLAS_",     "OMPI_MCA_",
    "PMIX_MCA_", "NCCL_",    "CUDA_",      "UCX_",    "DNNL_",         "ONEDNN_",
    "MALLOC_",   "REGATTA_", "LD_PRELOAD", "CUBLAS_", "GLIBC_TUNABLES"};
// Made anew for each start.
constexpr std::array<std::string_view, 13> kOfOneStart = {
    "OMPI_MCA_orte",     "OMPI_MCA_prte",        "OMPI_MCA_ess",   "OMPI_MCA_pmix",
    "OMPI_MCA_initial",  "OMPI_MCA_plm",         "PMIX_MCA_psec",  "NCCL_COMM_ID",
    "REGATTA_LAUNCH",  // and REGATTA_LAUNCHER
    "REGATTA_EXIT_FILE", "REGATTA_DUMP_REQUEST", "REGATTA_FROZEN", "REGATTA_TUNER_FILE"};
constexpr std::array<std::string_view, 9> kSecret = {
    "token", "key", "passw", "passphrase", "secret", "credential", "auth", "cookie", "session"};

template <std::size_t N>
bool begins_with_one_of(std::string_view name, const std::array<std::string_view, N>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.rfind(prefix, 0) == 0; });
}

bool holds_secret_word(std::string_view text) {
  const std::string lower = base::lower_case(text);
  return std::any_of(kSecret.begin(), kSecret.end(),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

}  // namespace

bool may_be_secret(std::string_view name, std::string_view value) {
  if (holds_secret_word(name) || holds_secret_word(value)) return true;
  // A URL with a user: scheme://user:password@host.
  const std::size_t scheme = value.find("://");
  return scheme != std::string_view::npos && value.find('@', scheme) != std::string_view::npos;
}

Json shown_variables(const std::vector<std::string>& variables) {
  std::map<std::string, Json> shown;
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || shown.size() == kMostVariables) continue;
    const std::string name = variable.substr(0, equals);
    const std::string value = variable.substr(equals + 1);
    if (!begins_with_one_of(name, kShown) || begins_with_one_of(name, kOfOneStart)) continue;
    shown[name] = may_be_secret(name, value) ? Json() : Json(value.substr(0, kMostValueBytes));
  }
  Json json = Json::object();
  for (auto& [name, value] : shown) json[name] = std::move(value);
  return json;
}

}  // namespace regatta::trainer::plugins
