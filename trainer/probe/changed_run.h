// A run file with some of its keys changed, for a replay.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/contract/run_config.h"

namespace regatta::trainer::probe {

struct KeyValue {
  std::string key;    // dotted, as in the run file: "optimizer.beta2"
  std::string value;  // JSON, or a text as it is; null: as if the key was left out
};
// Of "KEY=VALUE"; Code::User for anything else.
[[nodiscard]] KeyValue parse_key_value(std::string_view text);

struct ChangedRun {
  contract::RunConfig config;
  // Keys whose value has become another one, with that one as canonical JSON.
  std::vector<std::pair<std::string, std::string>> changed;
  bool data_changed = false;  // one of them is data's: the run has other data than it trained on
};
// `config`, with these values in turn, checked as a run file is. Throws Code::User, naming `source`
// and the key.
[[nodiscard]] ChangedRun change_run(const contract::RunConfig& config,
                                    const std::vector<KeyValue>& changes,
                                    const std::string& source);

}  // namespace regatta::trainer::probe
