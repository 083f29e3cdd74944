// A large cluster's graph: every node's own graph merged into one, checked and digested.
//   topology_bench [NODES [DESCRIPTION]]      one JSON on stdout
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "topology/doctor/doctor.h"
#include "topology/sources/cluster_file.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace regatta;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Megabytes (10^6 bytes) that the process had at most.
double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024 / 1e6;
  }
  return 0;
}

int run(int nodes, const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw base::Error(base::Code::NotFound, file + " is not there");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  topology::sources::ClusterDescription cluster =
      topology::sources::with_nodes(topology::sources::parse_cluster(text, file), nodes);
  const double before = peak_megabytes();

  topology::graph::Graph whole = topology::sources::fabric_graph(cluster);
  double generate_seconds = 0, merge_seconds = 0;
  for (std::size_t i = 0; i < cluster.node_count(); ++i) {
    auto start = Clock::now();
    cluster.source = cluster.kinds[0].hosts[i];  // as captured on that host
    const topology::graph::Graph node = topology::sources::node_graph(cluster, i);
    generate_seconds += seconds_since(start);
    start = Clock::now();
    whole.merge(node);
    merge_seconds += seconds_since(start);
  }
  auto start = Clock::now();
  const std::size_t conflicts = topology::graph::check_graph(whole).size();
  const double check_seconds = seconds_since(start);
  start = Clock::now();
  const std::size_t findings = topology::doctor::diagnose({whole}).size();
  const double doctor_seconds = seconds_since(start);
  start = Clock::now();
  const std::string print = topology::graph::fingerprint(whole);
  const double fingerprint_seconds = seconds_since(start);

  std::printf(
      "{\n  \"benchmark\": \"topology\",\n  \"nodes\": %d,\n  \"vertices\": %zu,\n"
      "  \"links\": %zu,\n  \"generate_seconds\": %.3f,\n  \"merge_seconds\": %.3f,\n"
      "  \"check_seconds\": %.3f,\n  \"doctor_seconds\": %.3f,\n  \"fingerprint_seconds\": %.3f,\n"
      "  \"seconds\": %.3f,\n  \"processor_seconds\": %.3f,\n  \"peak_megabytes\": %.1f,\n  "
      "\"peak_megabytes_before\": %.1f,\n"
      "  \"conflicts\": %zu,\n  \"findings\": %zu,\n  \"fingerprint\": \"%s\"\n}\n",
      nodes, whole.vertices().size(), whole.links().size(), generate_seconds, merge_seconds,
      check_seconds, doctor_seconds, fingerprint_seconds,
      merge_seconds + check_seconds + doctor_seconds + fingerprint_seconds,
      // Of the whole process, reading and generating included; waiting for others is not.
      static_cast<double>(std::clock()) / CLOCKS_PER_SEC, peak_megabytes(), before, conflicts,
      findings, print.c_str());
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const auto nodes = base::parse_integer(count > 1 ? arguments[1] : "1024");
    if (!nodes || *nodes < 1 || *nodes > 8192) {
      std::fprintf(stderr, "usage: topology_bench [NODES (1 to 8192) [DESCRIPTION]]\n");
      return 2;
    }
    return run(static_cast<int>(*nodes),
               count > 2 ? arguments[2] : "topology/examples/dgx-h100.yaml");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
