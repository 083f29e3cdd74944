#include "orchestrator/files/lease_record.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_system.h"
#include "base/host.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"

namespace regatta::orchestrator::files {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kIdBytes = 8;
constexpr std::size_t kMostPath = 400;  // of the store's: a record has a fixed size
constexpr std::uint64_t kMostIdentity = 4096;
constexpr int kMostDepth = 4;

std::string line_of(const char* path) {
  try {
    std::string text = base::posix_file_system().read(path, kMostIdentity);
    return text.substr(0, text.find('\n'));
  } catch (const base::Error&) {
    return "";
  }
}

std::string text_of(const Json& json, const char* name) {
  const auto it = json.find(name);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

HostIdentity this_host() {
  HostIdentity host;
  host.name = base::host_name();
  host.machine = line_of("/etc/machine-id");
  host.boot = base::boot_id();
  std::error_code error;
  host.processes = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  return host;
}

LeaseRecord own_record(const HostIdentity& host, const std::string& store) {
  LeaseRecord record;
  record.id = base::random_hex(kIdBytes);
  record.host = host;
  record.process = ::getpid();
  record.start_ticks = base::process_start_ticks(::getpid()).value_or(0);
  record.user = ::geteuid();
  record.store = store;
  record.started_utc = base::system_clock().utc_seconds();
  return record;
}

std::string beat_text(std::uint64_t beat) {
  char digits[kBeatDigits + 1];
  std::snprintf(digits, sizeof digits, "%020llu", static_cast<unsigned long long>(beat));
  return digits;
}

std::string lease_text(const LeaseRecord& record, std::uint64_t beat) {
  const Json json{{"id", record.id},
                  {"host", record.host.name},
                  {"machine", record.host.machine},
                  {"boot", record.host.boot},
                  {"processes", record.host.processes},
                  {"process", record.process},
                  {"start_ticks", record.start_ticks},
                  {"user", record.user},
                  {"store", record.store.substr(0, kMostPath)},
                  {"started_utc", base::iso8601(record.started_utc)},
                  {"started", record.started_utc},
                  {"released", record.released}};
  std::string text = base::ascii_json_text(json);
  base::check(text.size() < kBeatOffset, "a lease's record fits its file");
  text.resize(kBeatOffset - 1, ' ');
  return text + "\n" + beat_text(beat) + "\n";
}

std::optional<LeaseRecord> parse_lease(std::string_view text) {
  if (text.size() != kLeaseBytes || !base::json_depth_at_most(text, kMostDepth))
    return std::nullopt;
  const Json json = base::parse_json<Json>(text.substr(0, kBeatOffset));
  if (!json.is_object()) return std::nullopt;
  LeaseRecord record;
  record.id = text_of(json, "id");
  record.host = {text_of(json, "host"), text_of(json, "machine"), text_of(json, "boot"),
                 text_of(json, "processes")};
  record.store = text_of(json, "store");
  const auto integer = [&json](const char* name) {
    const auto it = json.find(name);
    return it != json.end() && it->is_number_integer() ? *it : Json(0);
  };
  record.process = integer("process").get<std::int64_t>();
  record.start_ticks = integer("start_ticks").get<std::uint64_t>();
  record.user = integer("user").get<std::int64_t>();
  const auto started = json.find("started");
  if (started != json.end() && started->is_number()) record.started_utc = started->get<double>();
  const auto released = json.find("released");
  record.released = released != json.end() && released->is_boolean() && released->get<bool>();
  if (record.id.empty()) return std::nullopt;
  return record;
}

std::string holder_text(const std::optional<LeaseRecord>& holder) {
  if (!holder) return "a process that its lock file does not name";
  const std::string store = holder->store.empty() ? "" : " (store " + holder->store + ")";
  return base::printable("process " + std::to_string(holder->process) + " on " +
                         (holder->host.name.empty() ? "an unnamed host" : holder->host.name) +
                         store + " since " + base::iso8601(holder->started_utc));
}

HolderState judge_holder(const std::optional<LeaseRecord>& holder, const HostIdentity& here,
                         bool local) {
  if (!holder) return local ? HolderState::Gone : HolderState::Unknown;
  if (holder->released) return HolderState::Gone;
  const HostIdentity& there = holder->host;
  if (!here.boot.empty() && there.boot == here.boot) {
    if (there.processes != here.processes || here.processes.empty()) {
      return local ? HolderState::Gone : HolderState::Unknown;  // a container: its ids are not ours
    }
    const bool possible = holder->process > 0 && holder->process <= INT32_MAX;
    const auto ticks =
        possible ? base::process_start_ticks(static_cast<pid_t>(holder->process)) : std::nullopt;
    return ticks && *ticks == holder->start_ticks ? HolderState::Alive : HolderState::Gone;
  }
  const bool same_machine = !here.name.empty() && there.name == here.name &&
                            !here.machine.empty() && there.machine == here.machine;
  return same_machine && !here.boot.empty() && !there.boot.empty() ? HolderState::Gone
                                                                   : HolderState::Unknown;
}

}  // namespace regatta::orchestrator::files
