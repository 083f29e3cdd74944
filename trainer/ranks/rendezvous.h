// How the processes of a run find one another: which rank this one is, and where rank 0 listens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "trainer/ranks/tcp_host.h"

namespace regatta::trainer::ranks {

// Like getenv: null when there is no such variable.
using Variables = std::function<const char*(const char*)>;
[[nodiscard]] Variables process_variables();
// All of them, "NAME=value", as they are when it is called.
[[nodiscard]] std::vector<std::string> all_process_variables();

struct RankPlace {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  // among those of this machine
  std::string source;  // what says so: "Open MPI", "Slurm"
};
// Of Open MPI's mpirun (also within a Slurm job), else of srun. Nothing when this process was not
// started as one of several. Code::Operator names the variable that is missing or makes no sense.
[[nodiscard]] std::optional<RankPlace> rank_place(const Variables& variables);

// Where rank 0 listens, for TcpHostOptions.
struct MeetingPoint {
  std::vector<std::string> hosts;
  int port = 0;
  std::uint64_t secret = 0;
};

// By a file that all ranks see: rank 0 listens anywhere and writes where, with a random secret, to
// rendezvous-<execution> in `directory` (mode 0600, there at once or not at all); the others look
// for it every 50 ms. It is gone when all are connected, or rank 0 gives up.
class FileRendezvous {
 public:
  // execution: letters, digits, '-' and '_' only; the same on all ranks, and never used before.
  FileRendezvous(base::FileSystem& files, const base::Path& directory,
                 const std::string& execution);

  // Collective. Code::Retry when rank 0, or on rank 0 some other rank, does not come in time.
  [[nodiscard]] std::unique_ptr<TcpHost> meet(const RankPlace& place, double seconds);

  [[nodiscard]] const base::Path& path() const { return path_; }

 private:
  [[nodiscard]] std::unique_ptr<TcpHost> host(TcpHostOptions options);
  [[nodiscard]] MeetingPoint wait(double seconds);

  base::FileSystem& files_;
  base::Path path_;
};

// TCP connections of a group: collective over all ranks of `host`, which have agreed on `members`
// (rank_groups.h). The group's first rank listens anywhere and tells the others where. Nothing for
// groups of none or one. Code::Retry when a member does not come in time.
[[nodiscard]] std::unique_ptr<TcpHost> meet_in_group(HostCollectives& host,
                                                     const std::vector<int>& members,
                                                     double seconds);

// The text of such a file, and back; nothing of a text that is not one.
[[nodiscard]] std::string to_text(const MeetingPoint& point);
[[nodiscard]] std::optional<MeetingPoint> parse_meeting_point(std::string_view text);

}  // namespace regatta::trainer::ranks
