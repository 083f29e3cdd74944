#include "orchestrator/runs/node_bench.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace regatta::orchestrator::runs {
namespace {

constexpr std::size_t kMostNodeBytes = 255;
constexpr std::size_t kIdBytes = 12;

bool is_node_name(const std::string& name) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kMostNodeBytes && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_part);
}

}  // namespace

NodeBench node_bench_of(const std::string& node, const trainer::contract::PlatformBench& bench) {
  if (!is_node_name(node)) {
    throw base::Error(base::Code::User,
                      "'" + base::printable(node.substr(0, kMostNodeBytes)) +
                          "' is no name of a node; use up to 255 of A-Z a-z 0-9 . _ -");
  }
  NodeBench kept;
  kept.node = node;
  kept.utc = bench.utc;
  kept.kind = trainer::contract::machine_kind(bench);
  kept.workload = bench.workload;
  kept.text = base::json_text(trainer::contract::to_json(bench));
  kept.id = base::digest_of(kept.text).substr(0, kIdBytes);
  return kept;
}

}  // namespace regatta::orchestrator::runs
