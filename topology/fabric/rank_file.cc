#include "topology/fabric/rank_file.h"

#include <map>

#include "base/error.h"
#include "base/text.h"
#include "topology/graph/hostlist.h"

namespace regatta::topology::fabric {
namespace {

[[noreturn]] void refuse(std::size_t rank, const std::string& why) {
  throw base::Error(base::Code::User, "rank " + std::to_string(rank) + ": " + why);
}

// "0-15,32-47": numbers and ranges that grow.
bool is_cpu_list(const std::string& text) {
  for (const std::string& part : base::split(text, ',')) {
    const auto ends = base::split(part, '-');
    const auto first = base::parse_integer(ends[0]);
    const auto last = ends.size() == 2 ? base::parse_integer(ends[1]) : first;
    if (ends.size() > 2 || !first || !last || *first < 0 || *last < *first) return false;
  }
  return true;
}

void check(const std::vector<RankPlace>& places) {
  if (places.empty()) throw base::Error(base::Code::User, "no rank has a place; give at least one");
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const RankPlace& place = places[rank];
    std::vector<std::string> names;
    try {
      names = graph::expand_hostlist(place.node, 1);
    } catch (const base::Error& error) {
      refuse(rank, error.what());
    }
    if (names != std::vector<std::string>{place.node}) {
      refuse(rank, "'" + base::printable(place.node) + "' is not the name of one node");
    }
    if (place.gpu < 0) refuse(rank, "GPU " + std::to_string(place.gpu) + " is none");
    if (!place.cpus.empty() && !is_cpu_list(place.cpus)) {
      refuse(rank, "'" + base::printable(place.cpus) + "' is not a list of CPUs, like 0-15,32-47");
    }
  }
}

}  // namespace

std::string write_open_mpi_ranks(const std::vector<RankPlace>& places) {
  check(places);
  std::map<std::string, int> on_node;
  std::string text;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const RankPlace& place = places[rank];
    const int slot = on_node[place.node]++;
    text += "rank " + std::to_string(rank) + "=" + place.node +
            " slot=" + (place.cpus.empty() ? std::to_string(slot) : place.cpus) + "\n";
  }
  return text;
}

std::string write_slurm_ranks(const std::vector<RankPlace>& places) {
  check(places);
  std::string text;
  for (const RankPlace& place : places) text += place.node + "\n";
  return text;
}

std::optional<std::string> slurm_gpu_map(const std::vector<RankPlace>& places) {
  check(places);
  std::map<std::string, std::vector<std::string>> gpus;
  for (const RankPlace& place : places) gpus[place.node].push_back(std::to_string(place.gpu));
  const auto& first = gpus.begin()->second;
  for (const auto& [node, order] : gpus) {
    if (order != first) return std::nullopt;
  }
  return "map_gpu:" + base::join(first, ",");
}

}  // namespace regatta::topology::fabric
