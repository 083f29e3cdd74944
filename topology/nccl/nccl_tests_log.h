// What nccl-tests (all_reduce_perf and its like) measured: its printed table in every form that it
// has had, with what launchers and wrappers do to it, and its JSON (-J).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/nccl/nccl_tables.h"

namespace regatta::topology::nccl {

struct NcclTestRow {
  std::uint64_t bytes = 0;  // the greater of what a rank sends and receives
  // Of one call; nothing where the test did not run that way.
  std::optional<double> out_of_place_us, in_place_us;
  bool disturbed = false;  // it took much longer than a larger call

  // As a gradient is reduced: in place, where that was measured.
  [[nodiscard]] double us() const { return in_place_us ? *in_place_us : *out_of_place_us; }
};

struct NcclTestLog {
  std::optional<Collective> collective;  // nothing for what NCCL does not tune: alltoall, sendrecv
  std::string program;                   // "all_reduce_perf"; "" where the log does not say
  int nccl_version = 0;                  // 22602 for 2.26.2; 0: not in the log
  int ranks = 0;                         // 0: neither in the log nor derivable
  int nodes = 0;                         // 0: the log lists not all of its devices
  std::string gpu_model;                 // "" where the log has none
  // What carried the data between nodes, as NCCL's own lines have it (NCCL_DEBUG=INFO): "IB",
  // "Socket", "AWS Libfabric"; "" where the log has none.
  std::string network;
  bool gpu_direct = false;  // such a line says GPUDirect RDMA (GDRDMA) of it
  bool cuda_graph = false;
  bool checked = false;            // the test compared the results: it counts or shows differences
  std::vector<NcclTestRow> rows;   // by growing bytes, each once; without those of 0 bytes
  std::vector<std::string> notes;  // what whoever uses the figures should know, a sentence each
};

inline constexpr std::size_t kMostLogBytes = std::size_t{4} << 20;
inline constexpr std::size_t kMostLogRows = 4096;

// Positions of columns are taken from the header, never guessed; each row must agree with itself
// (bytes ÷ time = algbw). Where no program is named, the table shows the collective, and where no
// or not all devices are listed, busbw ÷ algbw the ranks.
//
// Throws Code::User "place:line: what" for a text without a table (with the launcher's error, if it
// holds one), a table that is cut off or has rows with columns missing, wrong results, bandwidths
// that contradict the times, CPU times (-C), and tests whose processes each ran alone.
[[nodiscard]] NcclTestLog parse_nccl_tests_log(std::string_view text, const std::string& place);

}  // namespace regatta::topology::nccl
