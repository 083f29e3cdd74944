#include "orchestrator/sbatch/sbatch_maintenance.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "orchestrator/slurm/slurm_values.h"
#include "topology/graph/hostlist.h"

namespace regatta::orchestrator::sbatch {
namespace {

using View = std::string_view;

constexpr double kMargin = kMinute;  // between submission and start
constexpr int kMinutesOfHour = 60;
constexpr int kMinutesOfDay = 24 * 60;

// D-HH:MM:00 without what is zero in front.
std::string limit_text(double seconds) {
  if (std::isinf(seconds)) return "unlimited";
  const auto minutes = static_cast<int>(std::min(seconds / kMinute, 1e8));
  const auto two = [](int number) { return (number < 10 ? "0" : "") + std::to_string(number); };
  const int days = minutes / kMinutesOfDay;
  const int hours = minutes % kMinutesOfDay / kMinutesOfHour;
  return (days > 0 ? std::to_string(days) + "-" + two(hours) : std::to_string(hours)) + ":" +
         two(minutes % kMinutesOfHour) + ":00";
}

// In the user's time zone.
std::string time_text(double when) {
  const auto seconds = static_cast<std::time_t>(when);
  std::tm parts{};
  char text[32];
  if (::localtime_r(&seconds, &parts) == nullptr) return "?";
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return {text, size};
}

// "1 h 59 min" of 1:59:00.
std::string left_text(double seconds) { return base::human_seconds(std::floor(seconds)); }

std::set<std::string> names_of(const std::string& hostlist) {
  try {
    const auto names = topology::graph::expand_hostlist(hostlist);
    return {names.begin(), names.end()};
  } catch (const base::Error&) {
    return {};  // a form that is not known says nothing
  }
}

bool takes_all(const slurm::Reservation& reservation, const slurm::PartitionRow& partition) {
  const auto reserved = names_of(reservation.nodes);
  const auto nodes = names_of(partition.nodes.value_or(""));
  return !nodes.empty() &&
         std::includes(reserved.begin(), reserved.end(), nodes.begin(), nodes.end());
}

// Seconds; infinite without a limit.
std::optional<double> limit_of(const GivenOption* given, const slurm::PartitionRow& partition) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (given == nullptr) {
    return partition.default_seconds ? partition.default_seconds : partition.max_seconds;
  }
  const auto seconds = slurm::parse_slurm_duration(given->value);
  return seconds && *seconds == 0 ? kNone : seconds;
}

// Of the partitions that the job may use those that are known; empty where one is not.
std::vector<const slurm::PartitionRow*> partitions_of(const std::vector<GivenOption>& options,
                                                      const std::vector<slurm::PartitionRow>& all) {
  std::vector<const slurm::PartitionRow*> chosen;
  const GivenOption* const asked = find_option(options, "partition");
  if (asked == nullptr) {
    for (const slurm::PartitionRow& row : all) {
      if (row.is_default) chosen.push_back(&row);
    }
    return chosen;
  }
  for (const std::string& name : base::split(asked->value, ',')) {
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const slurm::PartitionRow& row) { return row.name == name; });
    if (found == all.end()) return {};
    chosen.push_back(&*found);
  }
  return chosen;
}

}  // namespace

std::vector<slurm::Reservation> coming_maintenance(const std::vector<slurm::Reservation>& all,
                                                   double now) {
  std::vector<slurm::Reservation> coming;
  for (const slurm::Reservation& reservation : all) {
    if (reservation.maintenance && reservation.start > now) coming.push_back(reservation);
  }
  std::sort(coming.begin(), coming.end(),
            [](const auto& a, const auto& b) { return a.start < b.start; });
  return coming;
}

std::optional<SbatchFinding> maintenance_finding(
    const std::vector<GivenOption>& options, const std::vector<slurm::Reservation>& reservations,
    const std::vector<slurm::PartitionRow>& partitions, double now) {
  for (const View name : {"reservation", "begin", "clusters", "time-min"}) {
    if (find_option(options, name) != nullptr) return std::nullopt;
  }
  const GivenOption* const given = find_option(options, "time");
  const auto chosen = partitions_of(options, partitions);
  if (chosen.empty()) return std::nullopt;
  for (const slurm::Reservation& reservation : coming_maintenance(reservations, now)) {
    const double left = reservation.start - now;
    double limit = std::numeric_limits<double>::infinity();  // the shortest of the partitions
    const bool blocked =
        std::all_of(chosen.begin(), chosen.end(), [&](const slurm::PartitionRow* partition) {
          const auto own = limit_of(given, *partition);
          if (!own || *own <= left || !takes_all(reservation, *partition)) return false;
          limit = std::min(limit, *own);
          return true;
        });
    if (!blocked) continue;
    const double fits = std::floor((left - kMargin) / kMinute) * kMinute;
    return SbatchFinding{
        given == nullptr ? 0 : given->line,
        "the job waits until the maintenance " + base::printable(reservation.name) +
            " is over: it begins at " + time_text(reservation.start) + " (in " + left_text(left) +
            ") and the time limit " + limit_text(limit) + " reaches into it; " +
            (fits < kMinute
                 ? "it is over at " + time_text(reservation.end)
                 : "--time=" + limit_text(fits) + " would still fit, if a place is free"),
        "maintenance"};
  }
  return std::nullopt;
}

}  // namespace regatta::orchestrator::sbatch
