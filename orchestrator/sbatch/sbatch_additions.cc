#include "orchestrator/sbatch/sbatch_additions.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "orchestrator/slurm/node_suspicion.h"

namespace regatta::orchestrator::sbatch {
namespace {

using View = std::string_view;

// With these it cannot be told which nodes, or without --nodes how many, the job can start on.
constexpr View kChoosesNodes[] = {"constraint", "reservation",        "clusters", "switches",
                                  "nodelist",   "nodefile",           "exclude",  "prefer",
                                  "gres",       "cluster-constraint", "batch"};
constexpr View kCountsNodes[] = {"ntasks",         "cpus-per-task", "gpus",   "gpus-per-task",
                                 "ntasks-per-gpu", "tres-per-job",  "mincpus"};

bool has(const std::vector<GivenOption>& options, View name) {
  return find_option(options, name) != nullptr;
}

// Whether each job, and each task of an array, writes files of its own.
bool has_own_log(const std::vector<GivenOption>& options) {
  for (const View name : {"output", "error"}) {
    const GivenOption* const option = find_option(options, name);
    if (option == nullptr || option->value.empty()) continue;
    const bool own = option->value.find("%j") != std::string::npos ||
                     option->value.find("%J") != std::string::npos ||
                     option->value.find("%A") != std::string::npos;
    if (!own) return false;
  }
  return true;
}

// The nodes that the job needs at least; nothing where that cannot be told.
std::optional<std::size_t> nodes_wanted(const std::vector<GivenOption>& options) {
  const auto given = [&](View name) { return has(options, name); };
  if (std::any_of(std::begin(kChoosesNodes), std::end(kChoosesNodes), given)) return std::nullopt;
  const GivenOption* const nodes = find_option(options, "nodes");
  if (nodes == nullptr) {
    if (std::any_of(std::begin(kCountsNodes), std::end(kCountsNodes), given)) return std::nullopt;
    return 1;
  }
  const auto least = base::parse_integer(nodes->value.substr(0, nodes->value.find('-')));
  if (!least || *least < 1) return std::nullopt;
  return static_cast<std::size_t>(*least);
}

bool is_in(const KnownNode& node, const std::set<std::string>& partitions) {
  return partitions.empty() ||
         std::any_of(node.partitions.begin(), node.partitions.end(),
                     [&](const std::string& name) { return partitions.count(name) > 0; });
}

void avoid_suspects(const std::vector<GivenOption>& options, const std::vector<KnownNode>& nodes,
                    SbatchAdditions* out) {
  const auto wanted = nodes_wanted(options);
  std::set<std::string> partitions;
  if (const GivenOption* const partition = find_option(options, "partition")) {
    for (const std::string& name : base::split(partition->value, ',')) partitions.insert(name);
  }
  std::vector<const KnownNode*> suspects;
  std::size_t usable = 0;
  for (const KnownNode& node : nodes) {
    if (!node.usable || !is_in(node, partitions)) continue;
    ++usable;
    if (node.suspicion >= slurm::SuspicionPolicy{}.threshold) suspects.push_back(&node);
  }
  std::sort(suspects.begin(), suspects.end(),
            [](const auto* a, const auto* b) { return a->suspicion > b->suspicion; });
  std::vector<std::string> left_out;
  for (const KnownNode* const node : suspects) {
    const bool avoided = wanted && usable > *wanted;
    if (avoided) {
      left_out.push_back(node->name);
      --usable;
    }
    const std::string name = base::printable(node->name);
    const bool chosen = avoided || has(options, "exclude") || has(options, "nodelist");
    out->notes.push_back((avoided ? "keeps off " : "may start on ") + name +
                         ", which is suspected (" + base::printable(node->why) + ")" +
                         (chosen ? "" : "; --exclude=" + name + " would keep it off"));
  }
  if (left_out.empty()) return;
  out->avoids = true;
  out->arguments.push_back("--exclude=" + base::join(left_out, ","));
}

}  // namespace

SbatchAdditions sbatch_additions(const std::vector<GivenOption>& options, View token,
                                 const std::vector<KnownNode>& nodes) {
  SbatchAdditions out;
  if (!has(options, "comment")) {
    out.comment = "regatta-sbatch:" + std::string(token);
    out.arguments.push_back("--comment=" + out.comment);
  }
  if (!has(options, "open-mode") && !has(options, "no-requeue") && has_own_log(options)) {
    out.arguments.emplace_back("--open-mode=append");
  }
  avoid_suspects(options, nodes, &out);
  return out;
}

}  // namespace regatta::orchestrator::sbatch
