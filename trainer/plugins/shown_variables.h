// Which variables of the environment decide how a run computes: section `variables` of
// environment.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace regatta::trainer::plugins {

// Of "NAME=value" those that OpenMP, MPI, NCCL, CUDA, UCX, oneDNN, the allocator, the loader and
// Regatta read, by name: sorted; null instead of the value where it may be a secret. What a
// launcher makes anew for each start (addresses, identifiers, paths of its own files) is left out,
// so that equal starts have equal sections.
[[nodiscard]] nlohmann::ordered_json shown_variables(const std::vector<std::string>& variables);

// Whether a variable's value may be a secret, by its name or by what the value looks like.
[[nodiscard]] bool may_be_secret(std::string_view name, std::string_view value);

}  // namespace regatta::trainer::plugins
