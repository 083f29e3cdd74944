// What the file of a lease says of its holder, and whether that holder still lives.
//
// The file has kLeaseBytes bytes: one line of JSON, spaces, a line break, and at kBeatOffset the
// holder's heartbeat as kBeatDigits digits with a line break. Its size never changes, so that a
// heartbeat and a take-over need no space on a full disk.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace regatta::orchestrator::files {

inline constexpr std::size_t kLeaseBytes = 4096;
inline constexpr std::size_t kBeatDigits = 20;
inline constexpr std::size_t kBeatOffset = kLeaseBytes - kBeatDigits - 1;

// A process id means something only within all of these. "" where the machine does not say.
struct HostIdentity {
  std::string name;
  std::string machine;    // /etc/machine-id; the nodes of one image may share it
  std::string boot;       // the kernel's boot id
  std::string processes;  // the namespace of process ids
};
[[nodiscard]] HostIdentity this_host();

struct LeaseRecord {
  std::string id;  // random
  HostIdentity host;
  std::int64_t process = 0;
  std::uint64_t start_ticks = 0;
  std::int64_t user = 0;
  std::string store;
  double started_utc = 0;
  bool released = false;
};
// Of this process, now, under a new id.
[[nodiscard]] LeaseRecord own_record(const HostIdentity& host, const std::string& store);

[[nodiscard]] std::string beat_text(std::uint64_t beat);
[[nodiscard]] std::string lease_text(const LeaseRecord& record, std::uint64_t beat);
// Nothing for text that is no record: torn, empty (regatta before 0.2), or damaged.
[[nodiscard]] std::optional<LeaseRecord> parse_lease(std::string_view text);
// "process 4211 on login2 (store /var/tmp/regatta) since 2026-11-23T14:00:00.000Z"
[[nodiscard]] std::string holder_text(const std::optional<LeaseRecord>& holder);

enum class HolderState {
  Gone,     // released, its process is dead, or its machine has booted since
  Alive,    // its process lives here
  Unknown,  // on another machine: only its heartbeat tells
};
// As seen from `here` by who has the file's flock. `local`: that lock excludes every process of
// this machine (is_local_file_system).
[[nodiscard]] HolderState judge_holder(const std::optional<LeaseRecord>& holder,
                                       const HostIdentity& here, bool local);

}  // namespace regatta::orchestrator::files
