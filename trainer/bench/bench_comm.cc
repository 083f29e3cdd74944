#include "trainer/bench/bench_comm.h"

#include <link.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trainer/model/input_feed.h"
#include "trainer/ranks/node_layout.h"
#include "trainer/run/stop_signals.h"

namespace regatta::trainer::bench {
namespace {

using Json = nlohmann::ordered_json;
using model::kCompute;
using topology::nccl::Collective;

constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;
constexpr double kSecondsOfCalls = 5e-3;
constexpr int kMostCalls = 20;
constexpr std::size_t kMostSizes = 1024;
// Elements are whole numbers below this: sums of 65,000 ranks fit float32's 24 bits.
constexpr std::int64_t kNumbers = 251;

float number_of(std::int64_t rank, std::int64_t element) {
  return static_cast<float>((31 * rank + 7 * element) % kNumbers);
}

// Sums over all ranks, by element modulo kNumbers.
std::vector<float> sums_of(int ranks) {
  std::vector<float> sums(kNumbers, 0.0F);
  for (std::int64_t i = 0; i < kNumbers; ++i) {
    for (int rank = 0; rank < ranks; ++rank)
      sums[static_cast<std::size_t>(i)] += number_of(rank, i);
  }
  return sums;
}

// One collective, in one piece of memory that all sizes share.
class Calls {
 public:
  Calls(device::Device& device, ranks::Communicator& communicator, const base::Clock& clock,
        Collective collective, std::int64_t most_bytes)
      : device_(device),
        communicator_(communicator),
        clock_(clock),
        collective_(collective),
        memory_(device, most_bytes / kElementBytes, device::Dtype::Float32),
        host_(device, most_bytes) {}

  // How many elements of this rank are wrong.
  [[nodiscard]] std::int64_t wrong_elements(std::int64_t bytes) {
    const device::View view = view_of(bytes);
    const bool gathers = collective_ == Collective::AllGather;
    float* numbers = host_.floats();
    // All-gather: every part has what its elements' places say, so the answer is known.
    const int rank = gathers ? 0 : communicator_.rank();
    for (std::int64_t i = 0; i < view.size; ++i) numbers[i] = number_of(rank, i);
    const std::int64_t begin = communicator_.part_begin(view.size);
    const std::int64_t end = begin + communicator_.part_count(view.size);
    if (gathers) {
      std::fill(numbers, numbers + begin, -1.0F);
      std::fill(numbers + end, numbers + view.size, -1.0F);
    }
    device_.copy_to_device(kCompute, view, numbers);
    call(view);
    device_.copy_to_host(kCompute, numbers, view);
    device_.wait_host(device_.record(kCompute));
    const std::vector<float> sums = sums_of(gathers ? 1 : communicator_.ranks());
    const bool scatters = collective_ == Collective::ReduceScatter;
    std::int64_t wrong = 0;
    for (std::int64_t i = scatters ? begin : 0; i < (scatters ? end : view.size); ++i) {
      if (numbers[i] != sums[static_cast<std::size_t>(i % kNumbers)]) ++wrong;
    }
    device_.fill_zero(kCompute, view);  // further sums stay zero, whatever their number
    return wrong;
  }

  // Of one of `calls` calls in a row, on this rank.
  [[nodiscard]] double seconds(std::int64_t bytes, int calls) {
    const device::View view = view_of(bytes);
    device_.wait_host(device_.record(kCompute));
    communicator_.host().barrier();
    const double start = clock_.monotonic_seconds();
    for (int i = 0; i < calls; ++i) call(view);
    device_.wait_host(device_.record(kCompute));
    return (clock_.monotonic_seconds() - start) / calls;
  }

 private:
  [[nodiscard]] device::View view_of(std::int64_t bytes) const {
    return memory_.view().slice(0, bytes / kElementBytes);
  }
  void call(device::View view) {
    const ranks::Pending pending = collective_ == Collective::AllReduce
                                       ? communicator_.all_reduce_sum(kCompute, view)
                                   : collective_ == Collective::ReduceScatter
                                       ? communicator_.reduce_scatter_sum(kCompute, view)
                                       : communicator_.all_gather(kCompute, view);
    communicator_.finish(kCompute, pending);
  }

  device::Device& device_;
  ranks::Communicator& communicator_;
  const base::Clock& clock_;
  Collective collective_;
  device::DeviceMemory memory_;
  device::HostMemory host_;
};

// The largest of all ranks; throws on all of them when one was asked to stop.
double agreed_largest(ranks::HostCollectives& host, double mine) {
  struct Local {
    double value, stop;
  };
  const Local local{mine, run::take_requests().stop ? 1.0 : 0.0};
  std::vector<Local> all(static_cast<std::size_t>(host.ranks()));
  host.all_gather(&local, sizeof local, all.data());
  double largest = mine;
  for (const Local& rank : all) {
    if (rank.stop > 0) throw base::Error(base::Code::User, "stopped by a signal");
    largest = std::max(largest, rank.value);
  }
  return largest;
}

// busbw ÷ algbw: what of the bytes crosses a rank's link at least (nccl-tests' PERFORMANCE.md).
double bus_factor(Collective collective, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  return collective == Collective::AllReduce ? 2 * share : share;
}

// What nccl-tests has in a row.
struct NcclTestsRow {
  std::int64_t bytes = 0, count = 0;
  double us = 0, algbw = 0, busbw = 0;  // GB/s
};

std::vector<NcclTestsRow> rows_of(const CommReport& report) {
  const int ranks = static_cast<int>(report.hosts.size());
  std::vector<NcclTestsRow> rows;
  for (const CommRow& measured : report.rows) {
    NcclTestsRow row;
    row.bytes = measured.bytes;
    row.count = measured.bytes / kElementBytes;
    if (report.collective != Collective::AllReduce) row.count /= ranks;
    const double seconds = base::median(measured.seconds);
    row.us = seconds / kMicro;
    row.algbw = static_cast<double>(row.bytes) / seconds / kGiga;
    row.busbw = row.algbw * bus_factor(report.collective, ranks);
    rows.push_back(row);
  }
  return rows;
}

const char* operation_of(Collective collective) {
  return collective == Collective::AllGather ? "none" : "sum";
}

double mean_busbw(const std::vector<NcclTestsRow>& rows) {
  double sum = 0;
  for (const NcclTestsRow& row : rows) sum += row.busbw;
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

// The file of the library whose name begins with `name` that this process has loaded.
std::string loaded_library(const std::string& name) {
  struct Search {
    const std::string& name;
    std::string found;
  } search{name, ""};
  const auto look = [](dl_phdr_info* info, std::size_t, void* data) {
    auto& wanted = *static_cast<Search*>(data);
    const std::filesystem::path path(info->dlpi_name);
    if (path.filename().string().rfind(wanted.name, 0) != 0) return 0;
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(path, error);
    wanted.found = (error ? path : real).filename().string();
    return 1;
  };
  dl_iterate_phdr(look, &search);
  return search.found;
}

// "libnccl.so.2.28.9" → 22809; 0 for anything else.
std::int64_t nccl_version_of(const std::string& library) {
  int major = 0, minor = 0, patch = 0;
  if (std::sscanf(library.c_str(), "libnccl.so.%d.%d.%d", &major, &minor, &patch) != 3) return 0;
  return 10000 * major + 100 * minor + patch;
}

std::vector<std::string> host_names(ranks::HostCollectives& host) {
  const ranks::HostName mine = ranks::this_host_name();
  std::vector<ranks::HostName> all(static_cast<std::size_t>(host.ranks()));
  host.all_gather(mine.data(), sizeof mine, all.data());
  std::vector<std::string> names;
  for (const ranks::HostName& name : all) names.emplace_back(name.data());
  return names;
}

}  // namespace

const char* comm_program(Collective collective) {
  switch (collective) {
    case Collective::AllReduce:
      return "all_reduce_perf";
    case Collective::ReduceScatter:
      return "reduce_scatter_perf";
    case Collective::AllGather:
      return "all_gather_perf";
    case Collective::Broadcast:
    case Collective::Reduce:
      break;
  }
  base::check(false, "the collective is one that training uses");
  return "";
}

std::vector<std::int64_t> comm_sizes(Collective collective, const CommSizes& sizes, int parts) {
  if (sizes.least_bytes < 1 || sizes.most_bytes < sizes.least_bytes || !(sizes.factor > 1)) {
    throw base::Error(base::Code::User,
                      "cannot measure from " + std::to_string(sizes.least_bytes) + " to " +
                          std::to_string(sizes.most_bytes) + " bytes by steps of " +
                          std::to_string(sizes.factor) +
                          "; begin with at least 1, end no lower, and step by more than 1");
  }
  const std::int64_t least = collective == Collective::AllReduce
                                 ? kElementBytes
                                 : kElementBytes * ranks::kPartAlignment * parts;
  std::vector<std::int64_t> found;
  const auto add = [&](double bytes) {
    const std::int64_t whole = (std::llround(bytes) + least - 1) / least * least;
    if (found.empty() || whole > found.back()) found.push_back(whole);
  };
  const auto most = static_cast<double>(sizes.most_bytes);
  for (double bytes = static_cast<double>(sizes.least_bytes); bytes < most; bytes *= sizes.factor) {
    add(bytes);
    if (found.size() > kMostSizes) {
      throw base::Error(base::Code::User, "more than " + std::to_string(kMostSizes) +
                                              " sizes to measure; use a larger step");
    }
  }
  add(most);
  return found;
}

std::vector<CommRow> measure_collective(device::Device& device, ranks::Communicator& communicator,
                                        const base::Clock& clock, Collective collective,
                                        const std::vector<std::int64_t>& bytes, int rounds) {
  base::check(!bytes.empty() && rounds > 0, "there is something to measure");
  Calls calls(device, communicator, clock, collective,
              *std::max_element(bytes.begin(), bytes.end()));
  ranks::HostCollectives& host = communicator.host();
  std::vector<CommRow> rows;
  std::vector<int> in_a_row;
  for (const std::int64_t size : bytes) {
    const double wrong = agreed_largest(host, static_cast<double>(calls.wrong_elements(size)));
    if (wrong > 0) {
      throw base::Error(base::Code::Operator,
                        std::string(topology::nccl::name_of(collective)) + " of " +
                            std::to_string(size) + " bytes gave " +
                            std::to_string(std::llround(wrong)) +
                            " wrong elements on a rank; check the network and its library");
    }
    rows.push_back({size, {}});
    const double once = agreed_largest(host, calls.seconds(size, 1));
    in_a_row.push_back(static_cast<int>(
        std::clamp(std::ceil(kSecondsOfCalls / std::max(once, 1e-9)), 1.0, 1.0 * kMostCalls)));
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].seconds.push_back(agreed_largest(host, calls.seconds(rows[i].bytes, in_a_row[i])));
    }
  }
  return rows;
}

CommReport bench_comm(RankBench& bench, const BenchCommOptions& options) {
  if (bench.group().ranks() == 1) {
    throw base::Error(base::Code::User, "collectives need two or more ranks; ask for --ranks 2");
  }
  if (options.link && !bench.device().is_on_host()) {
    throw base::Error(base::Code::User,
                      "an artificial link is for ranks of the CPU; leave it out on GPUs");
  }
  const std::unique_ptr<ranks::Communicator> communicator = bench.communicator(options.link);
  CommReport report;
  report.collective = options.collective;
  report.hosts = host_names(bench.group().host());
  report.device = bench.device().description();
  report.shared_object = loaded_library(bench.device().is_on_host() ? "libmpi.so" : "libnccl.so");
  report.link = options.link;
  report.load_average = bench.load_average();
  report.rows = measure_collective(
      bench.device(), *communicator, bench.clock(), options.collective,
      comm_sizes(options.collective, options.sizes, communicator->parts()), options.rounds);
  return report;
}

std::string comm_table(const CommReport& report) {
  const std::vector<NcclTestsRow> rows = rows_of(report);
  std::string text = std::string("# regatta-train bench comm: ") + comm_program(report.collective) +
                     ", in place; the slowest rank, medians of rounds\n";
  const std::size_t rounds = report.rows.empty() ? 0 : report.rows.front().seconds.size();
  text += "# nThread 1 nGpus 1 rounds: " + std::to_string(rounds) + " validation: 1 graph: 0\n";
  for (std::size_t rank = 0; rank < report.hosts.size(); ++rank) {
    text += "#  Rank " + std::to_string(rank) + " on " + base::printable(report.hosts[rank]) +
            " device 0 [-] " + base::printable(report.device) + "\n";
  }
  if (!report.shared_object.empty()) text += "# library " + report.shared_object + "\n";
  char line[200];
  if (report.link) {
    std::snprintf(line, sizeof line, "# artificial link: %.6g GB/s, %.6g us a collective\n",
                  report.link->bytes_per_second / kGiga, report.link->latency_seconds / kMicro);
    text += line;
  }
  text +=
      "#       size         count    type   redop    root        time   algbw   busbw  #wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n";
  for (const NcclTestsRow& row : rows) {
    std::snprintf(line, sizeof line,
                  "%12lld  %12lld   float  %6s      -1  %10.2f  %6.2f  %6.2f %7d\n",
                  static_cast<long long>(row.bytes), static_cast<long long>(row.count),
                  operation_of(report.collective), row.us, row.algbw, row.busbw, 0);
    text += line;
  }
  std::snprintf(line, sizeof line, "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : %.6g\n",
                mean_busbw(rows));
  return text + line;
}

std::string comm_json(const CommReport& report) {
  const std::vector<NcclTestsRow> rows = rows_of(report);
  Json json;
  json["version"] = 1;
  json["args"] = Json::array({comm_program(report.collective)});
  json["nccl_version"] = nccl_version_of(report.shared_object);
  Json devices = Json::array();
  for (std::size_t rank = 0; rank < report.hosts.size(); ++rank) {
    devices.push_back(
        {{"rank", rank}, {"hostname", report.hosts[rank]}, {"device_info", report.device}});
  }
  json["config"] = {{"validation", 1}, {"graph", 0}, {"devices", std::move(devices)}};
  json["results"] = Json::array();
  Json rounds = Json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const NcclTestsRow& row = rows[i];
    Json result;
    result["size"] = row.bytes;
    result["count"] = row.count;
    result["type"] = "float";
    result["redop"] = operation_of(report.collective);
    result["root"] = "-1";
    result["out_of_place"] = nullptr;
    result["in_place"] = {
        {"time", row.us}, {"alg_bw", row.algbw}, {"bus_bw", row.busbw}, {"nwrong", 0}};
    json["results"].push_back(std::move(result));
    rounds.push_back(report.rows[i].seconds);
  }
  json["out_of_bounds"] = {{"count", 0}, {"okay", "true"}};
  json["average_bus_bandwidth"] = {{"bandwidth", mean_busbw(rows)}};
  Json& own = json["regatta"];
  own["command"] = "regatta-train bench comm";
  own["version"] = REGATTA_VERSION;
  own["host"] = report.hosts.empty() ? "" : report.hosts.front();
  own["library"] = report.shared_object;
  own["link"] = nullptr;
  if (report.link) {
    own["link"] = {{"gb_per_s", report.link->bytes_per_second / kGiga},
                   {"latency_us", report.link->latency_seconds / kMicro}};
  }
  own["load_average_before"] = report.load_average;
  own["round_seconds"] = std::move(rounds);
  return base::json_text(json, 2) + "\n";
}

}  // namespace regatta::trainer::bench
