// What a plan says to NCCL: for some sizes of some collectives another way than NCCL's own. And the
// forms in which NCCL reads it: plan.tuner for our plug-in, the table of NVIDIA's example
// plug-in, and environment variables. All pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "topology/nccl/cost_model.h"

namespace regatta::topology::plan {

// The calls of one collective, sums where it adds, with from_bytes to to_bytes - 1 bytes.
struct TunedRange {
  static constexpr std::uint64_t kNoEnd = ~std::uint64_t{0};

  nccl::Collective collective = nccl::Collective::AllReduce;
  std::uint64_t from_bytes = 0;
  std::uint64_t to_bytes = kNoEnd;
  nccl::Way way{};                // channels for ring and tree only; 0: NCCL's
  double us = 0, default_us = 0;  // of a call of from_bytes, and by NCCL's own way; 0: not known
  bool measured = false;          // both; else one is modelled
};

// By collective and bytes; what is in no range is NCCL's to choose.
struct TunerTable {
  int ranks = 0, nodes = 0;  // of the communicator, nodes as NCCL counts them; 0: any
  int nccl_version = 0;      // 22809 for 2.28.9, 22800 for any 2.28; 0: any
  std::vector<TunedRange> ranges;
};

// plan.tuner, as tuner/plan_file.h describes it. Binary, because its readers are a plug-in without
// a library, which then searches what it has read as it is, and parse_tuner_file(): one judge for
// both. The CSV is for people. Sorts. Throws Code::User for a table that no file can hold: any
// number of ranks or nodes, ranges that overlap or cannot be, more than 4096 of them.
[[nodiscard]] std::string to_tuner_file(const TunerTable& table);
// Throws Code::User: "source: plan.tuner is cut off; plan again".
[[nodiscard]] TunerTable parse_tuner_file(std::string_view file, const std::string& source);

// What NVIDIA's example plug-in reads (NCCL_TUNER_CONFIG_FILE): a line for each range,
//     collective,least bytes,most bytes,algorithm,protocol,channels,nodes,ranks
// -1 for any nodes and ranks. Its traps: the most bytes are of the range, and "4294967295" (from
// its documentation) ends at 4 GiB; channels are written as 0, because -1 gives ONE channel, as
// does a call that no line matches. So the table should name a way for everything:
// with_own_choices() (tuning.h) does.
[[nodiscard]] std::string to_example_csv(const TunerTable& table);
// Also with the optional columns, if they are -1. Times are not in it. Throws Code::User naming
// source and line, also for what the plug-in would take for something else: an unknown name is
// ring, simple or all-reduce to it.
[[nodiscard]] TunerTable parse_example_csv(std::string_view text, const std::string& source);

// NCCL_ALGO and NCCL_PROTO, for where no plug-in can be loaded; {} where nothing may be said. They
// know no sizes, so a collective is named only if one way has all calls of least_bytes to
// most_bytes; and what they name is all that NCCL may then take, so only ways that every
// communicator has for every type and operation: ring, and tree for all-reduce, with LL or Simple,
// never LL128 (where NCCL has it off, it may corrupt data). Collectives are named one by one, which
// NCCL understands since 2.24, behind a list for all others: "ring,tree;allreduce:tree". Without
// the list NCCL 2.31 and later may leave the others without any way, so these go by ring (or tree).
[[nodiscard]] std::map<std::string, std::string> nccl_variables(const TunerTable& table,
                                                                std::uint64_t least_bytes,
                                                                std::uint64_t most_bytes);

}  // namespace regatta::topology::plan
