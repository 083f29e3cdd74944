#include "orchestrator/slurm/node_table.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/host.h"
#include "base/memory.h"
#include "base/text.h"
#include "topology/graph/hostlist.h"

namespace regatta::orchestrator::slurm {
namespace {

// The driver keeps a directory for each GPU, and in it a file with the line "Model: <tab> NAME".
std::optional<Gpus> gpus_of(const base::Path& proc) {
  Gpus gpus;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(proc / "driver" / "nvidia" / "gpus", error)) {
    ++gpus.count;
    std::ifstream lines(entry.path() / "information");
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("Model:", 0) != 0) continue;
      const std::size_t begin = line.find_first_not_of(" \t", 6);
      if (begin != std::string::npos) ++gpus.by_type[line.substr(begin)];
    }
  }
  return error ? std::nullopt : std::optional(gpus);
}

// The most that one node of a partition has, and how many nodes a request leaves.
struct Offer {
  int nodes = 0;
  int left = 0;
  std::optional<std::int64_t> gpus, cpus, memory_mib;
};

std::set<std::string> excluded_by(const trainer::contract::SlurmResources& wanted) {
  std::set<std::string> excluded;
  for (const std::string& list : wanted.exclude) {
    try {
      const auto names = topology::graph::expand_hostlist(list);
      excluded.insert(names.begin(), names.end());
    } catch (const base::Error&) {  // Slurm says what is wrong with it when it is asked
    }
  }
  return excluded;
}

bool has_word(const std::vector<std::string>& words, const std::string& word) {
  return word.empty() || std::find(words.begin(), words.end(), word) != words.end();
}

Offer offer_of(const NodeSnapshot& nodes, const trainer::contract::SlurmResources& wanted) {
  constexpr double kMebibyte = 1 << 20U;
  const std::set<std::string> excluded = excluded_by(wanted);
  Offer offer;
  for (const NodeRow& node : nodes.rows) {
    if (!has_word(node.partitions, wanted.partition)) continue;
    ++offer.nodes;
    if (excluded.count(node.name) == 0) ++offer.left;
    if (node.gpus) {
      const auto& types = node.gpus->by_type;
      const auto of_type = types.find(wanted.gpu_type);
      const std::int64_t count = wanted.gpu_type.empty()  ? node.gpus->count
                                 : of_type == types.end() ? 0
                                                          : of_type->second;
      offer.gpus = std::max(offer.gpus.value_or(0), count);
    }
    if (node.cpus) offer.cpus = std::max(offer.cpus.value_or(0), *node.cpus);
    if (!node.memory_bytes) continue;
    const auto mebibytes = static_cast<std::int64_t>(*node.memory_bytes / kMebibyte);
    offer.memory_mib = std::max(offer.memory_mib.value_or(0), mebibytes);
  }
  return offer;
}

}  // namespace

void NodeTable::fill(Nodes nodes, double asked_utc) {
  std::sort(nodes.rows.begin(), nodes.rows.end(),
            [](const NodeRow& a, const NodeRow& b) { return a.name < b.name; });
  const std::scoped_lock lock(mutex_);
  known_.rows = NodeRows(std::move(nodes.rows));
  ++known_.answer;
  known_.whole = nodes.damaged == 0;
  known_.taken_utc = asked_utc;
  known_.trouble = nodes.damaged == 0 ? ""
                                      : std::to_string(nodes.damaged) +
                                            " of Slurm's nodes could not be read; 'scontrol show "
                                            "nodes' shows them";
}

void NodeTable::fail(const std::string& message) {
  const std::scoped_lock lock(mutex_);
  known_.trouble = message;
}

void NodeTable::set_reservations(std::vector<Reservation> reservations) {
  std::sort(reservations.begin(), reservations.end(),
            [](const auto& a, const auto& b) { return a.start < b.start; });
  const std::scoped_lock lock(mutex_);
  known_.reservations = std::move(reservations);
}

void NodeTable::set_jobs(std::map<std::string, std::string> jobs) {
  const std::scoped_lock lock(mutex_);
  known_.jobs = std::move(jobs);
}

NodeSnapshot NodeTable::snapshot() const {
  const std::scoped_lock lock(mutex_);
  return known_;
}

void NodeTable::want(double now) {
  const std::scoped_lock lock(mutex_);
  wanted_ = std::max(wanted_.value_or(0), now);
  looked_ = true;
}

void NodeTable::follow(double now, double seconds) {
  const std::scoped_lock lock(mutex_);
  wanted_ = std::max(wanted_.value_or(0), now + seconds);
}

bool NodeTable::take_look() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(looked_, false);
}

bool NodeTable::is_wanted(double now) const {
  const std::scoped_lock lock(mutex_);
  return wanted_ && now - *wanted_ < kWantedSeconds;
}

std::optional<std::vector<std::string>> usable_nodes(
    const NodeSnapshot& nodes, const trainer::contract::SlurmResources& wanted) {
  if (wanted.constraint.find_first_of("&|*[](),") != std::string::npos) return std::nullopt;
  const std::set<std::string> excluded = excluded_by(wanted);
  std::vector<std::string> names;
  for (const NodeRow& node : nodes.rows) {
    if (can_work(node.state) && has_word(node.partitions, wanted.partition) &&
        has_word(node.features, wanted.constraint) && excluded.count(node.name) == 0) {
      names.push_back(node.name);
    }
  }
  return names;
}

std::vector<std::string> dead_nodes(const NodeSnapshot& nodes) {
  std::vector<std::string> names;
  for (const NodeRow& node : nodes.rows) {
    if (node.state.base == NodeBase::Down || node.state.has(NodeFlag::NotResponding)) {
      names.push_back(node.name);
    }
  }
  return names;
}

std::string why_no_node(const NodeSnapshot& nodes,
                        const trainer::contract::SlurmResources& wanted) {
  const Offer offer = offer_of(nodes, wanted);
  const std::string place =
      wanted.partition.empty() ? "the cluster" : "partition " + base::printable(wanted.partition);
  if (offer.nodes == 0) return "";
  if (offer.left < wanted.min_nodes) {
    return "slurm.exclude leaves " + std::to_string(offer.left) + " of the " +
           std::to_string(offer.nodes) + " nodes of " + place + ", and the run asks for " +
           std::to_string(wanted.min_nodes) + "; exclude fewer";
  }
  const auto more = [&](const std::string& what, std::int64_t asked,
                        std::optional<std::int64_t> most, const auto& text) {
    if (!most || asked <= *most) return std::string();
    return "the run asks for " + text(asked) + " " + what + " a node, and no node of " + place +
           " has more than " + text(*most) + "; ask for less";
  };
  const auto count = [](std::int64_t number) { return std::to_string(number); };
  const auto bytes = [](std::int64_t mebibytes) {
    return base::human_bytes(static_cast<std::uint64_t>(mebibytes) << 20U);
  };
  const std::int64_t ranks = wanted.ranks_per_node;
  for (const std::string& each :
       {more(wanted.gpu_type.empty() ? "GPUs" : base::printable(wanted.gpu_type) + " GPUs",
             ranks * wanted.gpus_per_rank, offer.gpus, count),
        more("CPUs", ranks * wanted.cpus_per_rank, offer.cpus, count),
        more("of memory", wanted.memory_per_node_mib.value_or(0), offer.memory_mib, bytes)}) {
    if (!each.empty()) return each;
  }
  for (const std::string& option : wanted.options) {
    if (option.rfind("--tmp", 0) != 0) continue;
    return "slurm.options asks for temporary disk (" + base::printable(option) +
           "), and no node has so much; `scontrol show nodes` shows it as TmpDisk";
  }
  return "";
}

NodeRow this_machine(const base::Path& proc) {
  NodeRow node;
  node.name = base::host_name();
  if (node.name.empty()) node.name = "localhost";
  node.state = parse_node_state("IDLE");
  const unsigned cpus = std::thread::hardware_concurrency();
  if (cpus > 0) node.cpus = cpus;
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    node.memory_bytes = static_cast<double>(pages) * static_cast<double>(page_bytes);
  }
  const auto free = base::available_memory();
  if (free) node.memory_free_bytes = static_cast<double>(*free);
  node.gpus = gpus_of(proc);
  return node;
}

}  // namespace regatta::orchestrator::slurm
