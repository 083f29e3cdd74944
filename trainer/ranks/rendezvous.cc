#include "trainer/ranks/rendezvous.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/socket.h"
#include "base/text.h"

namespace regatta::trainer::ranks {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000;
// From here on Slurm numbers what is no step of tasks: batch scripts, interactive shells.
constexpr std::int64_t kFirstSpecialStep = 0xFFFFFFF0;
constexpr auto kLook = std::chrono::milliseconds(50);
constexpr std::uint64_t kMostFileBytes = 16384;
constexpr std::size_t kMostHosts = 32;
constexpr std::string_view kFirstLine = "regatta rendezvous 1";

[[noreturn]] void wrong(const std::string& name, const char* value, const std::string& wanted) {
  throw base::Error(
      base::Code::Operator,
      name +
          (value == nullptr
               ? " is not set"
               : " is \"" + base::printable(std::string_view(value).substr(0, 60)) + "\"") +
          ", but " + wanted + " is needed; start the ranks with mpirun or srun");
}

// A variable in [first, last]; digits only.
std::int64_t number(const Variables& variables, const char* name, std::int64_t first,
                    std::int64_t last) {
  const char* value = variables(name);
  const auto parsed = value == nullptr ? std::nullopt : base::parse_integer(value);
  if (!parsed || value[0] == '-' || *parsed < first || *parsed > last) {
    wrong(name, value,
          "a whole number from " + std::to_string(first) + " to " + std::to_string(last));
  }
  return *parsed;
}

std::optional<RankPlace> place(const Variables& variables, const char* rank, const char* ranks,
                               const char* local_rank, const char* source) {
  const std::int64_t count = number(variables, ranks, 1, kMostRanks);
  RankPlace found;
  found.rank = static_cast<int>(number(variables, rank, 0, count - 1));
  found.ranks = static_cast<int>(count);
  found.local_rank = static_cast<int>(number(variables, local_rank, 0, found.rank));
  found.source = source;
  if (count == 1) return std::nullopt;
  return found;
}

bool is_host(std::string_view text) {
  const auto good = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_';
  };
  return !text.empty() && text.size() <= 253 && text.front() != '-' && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), good);
}

// 64 of them, of hexadecimal digits.
std::uint64_t first_bits(const std::string& hex) {
  std::uint64_t bits = 0;
  std::from_chars(hex.data(), hex.data() + std::min<std::size_t>(16, hex.size()), bits, 16);
  return bits;
}

std::string hex_of(std::uint64_t secret) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(secret));
  return text;
}

// Where this rank now listens, with a secret of its own.
MeetingPoint point_of(const base::Listener& listener) {
  MeetingPoint point;
  point.hosts = base::own_addresses();
  point.hosts.emplace_back("127.0.0.1");  // a machine without a network
  point.port = listener.port();
  point.secret = first_bits(base::random_hex(8));
  return point;
}

void go_to(const MeetingPoint& point, TcpHostOptions* options) {
  options->hosts = point.hosts;
  options->port = point.port;
  options->secret = point.secret;
}

// Gone at the end, however it comes.
class Removed {
 public:
  Removed(base::FileSystem& files, const base::Path& path) : files_(files), path_(path) {}
  Removed(const Removed&) = delete;
  Removed& operator=(const Removed&) = delete;
  ~Removed() {
    try {
      files_.remove_file(path_);
    } catch (const base::Error&) {
      // It says where nobody listens any more; the next attempt has another name.
    }
  }

 private:
  base::FileSystem& files_;
  const base::Path& path_;
};

}  // namespace

Variables process_variables() {
  return [](const char* name) -> const char* { return std::getenv(name); };
}

std::vector<std::string> all_process_variables() {
  std::vector<std::string> all;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    all.emplace_back(*variable);
  }
  return all;
}

std::optional<RankPlace> rank_place(const Variables& variables) {
  if (variables("OMPI_COMM_WORLD_RANK") != nullptr ||
      variables("OMPI_COMM_WORLD_SIZE") != nullptr) {
    return place(variables, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                 "OMPI_COMM_WORLD_LOCAL_RANK", "Open MPI");
  }
  // Batch scripts and shells of a job have SLURM_PROCID, too, but are no step.
  const char* step = variables("SLURM_STEP_ID");
  if (step == nullptr || !base::is_digits(step) || std::string_view(step).size() > 18 ||
      std::stoll(step) >= kFirstSpecialStep) {
    return std::nullopt;
  }
  return place(variables, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "Slurm");
}

std::string to_text(const MeetingPoint& point) {
  return std::string(kFirstLine) + "\n" + hex_of(point.secret) + "\n" + std::to_string(point.port) +
         "\n" + base::join(point.hosts, "\n") + "\n";
}

std::optional<MeetingPoint> parse_meeting_point(std::string_view text) {
  std::vector<std::string> lines = base::split(text, '\n');
  if (lines.size() < 5 || lines.size() > 4 + kMostHosts || !lines.back().empty()) {
    return std::nullopt;
  }
  lines.pop_back();
  MeetingPoint point;
  const auto port = base::parse_integer(lines[2]);
  point.secret = first_bits(lines[1]);
  if (lines[0] != kFirstLine || lines[1] != hex_of(point.secret) || !port || *port < 1 ||
      *port > 65535) {
    return std::nullopt;
  }
  point.port = static_cast<int>(*port);
  point.hosts.assign(lines.begin() + 3, lines.end());
  const auto good = [](const std::string& host) {
    // An address of IPv6, too, has nothing but these.
    return is_host(host) || (host.find(':') != std::string::npos && host.size() < 46 &&
                             host.find_first_not_of("0123456789abcdef:.") == std::string::npos);
  };
  if (!std::all_of(point.hosts.begin(), point.hosts.end(), good)) return std::nullopt;
  return point;
}

FileRendezvous::FileRendezvous(base::FileSystem& files, const base::Path& directory,
                               const std::string& execution)
    : files_(files), path_(directory / ("rendezvous-" + execution)) {
  base::check(
      !execution.empty() && execution.find_first_not_of("abcdefghijklmnopqrstuvwxyz"
                                                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                        "0123456789-_") == std::string::npos,
      "an execution id is part of a file's name");
}

std::unique_ptr<TcpHost> FileRendezvous::meet(const RankPlace& place, double seconds) {
  TcpHostOptions options;
  options.rank = place.rank;
  options.ranks = place.ranks;
  options.connect_seconds = seconds;
  if (place.ranks == 1) return std::make_unique<TcpHost>(options);
  if (place.rank == 0) return host(std::move(options));
  const base::Deadline deadline = base::deadline_in(seconds);
  const MeetingPoint point = wait(seconds);
  go_to(point, &options);
  const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
  options.connect_seconds = std::max(1.0, left.count());
  return std::make_unique<TcpHost>(std::move(options));
}

std::unique_ptr<TcpHost> FileRendezvous::host(TcpHostOptions options) {
  base::Listener listener("", 0);
  const MeetingPoint point = point_of(listener);
  go_to(point, &options);
  const Removed removed(files_, path_);
  base::replace_file(files_, path_, to_text(point));
  return std::make_unique<TcpHost>(std::move(options), std::move(listener));
}

MeetingPoint FileRendezvous::wait(double seconds) {
  const base::Deadline deadline = base::deadline_in(seconds);
  for (;;) {
    try {
      const std::string text = files_.read(path_, kMostFileBytes);
      if (std::optional<MeetingPoint> point = parse_meeting_point(text)) return *point;
      throw base::Error(base::Code::Operator,
                        path_.string() +
                            " is not a rendezvous file of this version; remove it and "
                            "start again");
    } catch (const base::Error& error) {
      if (error.code() != base::Code::NotFound) throw;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      throw base::Error(base::Code::Retry,
                        "rank 0 did not write " + path_.string() + " within " +
                            base::human_seconds(seconds) +
                            "; see whether it runs and all machines see this directory");
    }
    std::this_thread::sleep_for(kLook);
  }
}

std::unique_ptr<TcpHost> meet_in_group(HostCollectives& host, const std::vector<int>& members,
                                       double seconds) {
  TcpHostOptions options;
  options.ranks = static_cast<int>(members.size());
  options.rank =
      static_cast<int>(std::find(members.begin(), members.end(), host.rank()) - members.begin());
  options.connect_seconds = seconds;
  const bool has_others = members.size() > 1;
  std::optional<base::Listener> listener;
  Parcels to(static_cast<std::size_t>(host.ranks()));
  if (has_others && options.rank == 0) {
    const MeetingPoint point = point_of(listener.emplace("", 0));
    go_to(point, &options);
    const std::string text = to_text(point);
    for (const int member : members) {
      const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
      to[static_cast<std::size_t>(member)].assign(bytes, bytes + text.size());
    }
  }
  const Parcels from = host.all_to_all(to);
  if (!has_others) return nullptr;
  if (listener) return std::make_unique<TcpHost>(std::move(options), std::move(*listener));
  const std::vector<std::byte>& text = from[static_cast<std::size_t>(members[0])];
  const auto point = parse_meeting_point({reinterpret_cast<const char*>(text.data()), text.size()});
  base::check(point.has_value(), "the group's first rank tells where it listens");
  go_to(*point, &options);
  return std::make_unique<TcpHost>(std::move(options));
}

}  // namespace regatta::trainer::ranks
