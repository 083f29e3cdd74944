// The run file's section `input`: how samples are made while steps run. No bit of a run depends on
// it, so that it may change from attempt to attempt.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace regatta::base {
class Table;
}

namespace regatta::trainer::contract {

inline constexpr int kMostInputWorkers = 64;
inline constexpr int kMostPrefetch = 64;

struct InputConfig {
  int workers = 0;   // threads of a rank that make samples; 0: tried (samples/input_tuner.h)
  int prefetch = 0;  // steps that are made ahead at most; 0: tried
  friend bool operator==(const InputConfig&, const InputConfig&) = default;
};

void read_input(base::Table& root, InputConfig* input);
[[nodiscard]] nlohmann::ordered_json input_json(const InputConfig& input);

}  // namespace regatta::trainer::contract
