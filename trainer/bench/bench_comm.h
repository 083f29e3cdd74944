// How long collectives take on the ranks at hand, through the communicator that training uses: what
// nccl-tests measures, in its terms, and on CPUs as well.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "topology/nccl/cost_model.h"
#include "trainer/bench/bench_ranks.h"
#include "trainer/ranks/communicator.h"
#include "trainer/ranks/delayed_communicator.h"

namespace regatta::trainer::bench {

inline constexpr std::int64_t kElementBytes = 4;  // of a gradient: float32

// Bytes of a call as nccl-tests counts them: of the whole view, which a rank sends of a
// reduce-scatter and receives of an all-gather.
struct CommSizes {
  std::int64_t least_bytes = 1 << 10, most_bytes = 64 << 20;
  double factor = 2;  // from one size to the next, above 1
};
// From the least in steps to the most, which is always one of them; by growing bytes, each once.
// Whole elements of float32, and of reduce-scatter and all-gather `parts` whole parts, so sizes may
// be rounded up. Throws Code::User for sizes that are none.
[[nodiscard]] std::vector<std::int64_t> comm_sizes(topology::nccl::Collective collective,
                                                   const CommSizes& sizes, int parts);

struct CommRow {
  std::int64_t bytes = 0;
  std::vector<double> seconds;  // of one call, of the slowest rank; of each round
};

// All-reduce, reduce-scatter or all-gather, in place. Each size is called once with whole numbers,
// whose sums are exact in float32, and every element of the result is checked: Code::Operator, on
// all ranks, where one is wrong. Then rounds: in each, all sizes in turn, so that a disturbance
// does not hit one size only; of each as many calls in a row as take about 5 ms, at most 20.
// Collective; every rank returns the same. Throws Code::User when a signal asked to stop.
[[nodiscard]] std::vector<CommRow> measure_collective(
    device::Device& device, ranks::Communicator& communicator, const base::Clock& clock,
    topology::nccl::Collective collective, const std::vector<std::int64_t>& bytes, int rounds);

// What was measured, on what.
struct CommReport {
  topology::nccl::Collective collective = topology::nccl::Collective::AllReduce;
  std::vector<CommRow> rows;
  std::vector<std::string> hosts;  // of each rank
  std::string device;              // Device::description()
  std::string shared_object;       // file of NCCL or MPI: "libmpi.so.40.30.4"; "" if not found
  std::optional<ranks::LinkModel> link;  // artificial
  double load_average = 0;               // of rank 0's machine, before
};

// As nccl-tests prints, and as its -J writes, with our own in an object `regatta`; both are read by
// topology::nccl::parse_nccl_tests_log. Times are medians over rounds.
[[nodiscard]] std::string comm_table(const CommReport& report);
[[nodiscard]] std::string comm_json(const CommReport& report);
// "all_reduce_perf": nccl-tests' program for it.
[[nodiscard]] const char* comm_program(topology::nccl::Collective collective);

struct BenchCommOptions {
  topology::nccl::Collective collective = topology::nccl::Collective::AllReduce;
  CommSizes sizes;
  int rounds = 5;
  std::optional<ranks::LinkModel> link;
};
// Collective. Throws Code::User for one rank, and for a link between GPUs.
[[nodiscard]] CommReport bench_comm(RankBench& bench, const BenchCommOptions& options);

}  // namespace regatta::trainer::bench
