#include "orchestrator/slurm/reservations.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "orchestrator/slurm/slurm_values.h"

namespace regatta::orchestrator::slurm {
namespace {

using View = std::string_view;

}  // namespace

std::vector<Reservation> parse_reservations(View text) {
  std::vector<Reservation> all;
  for (const std::string& line : base::split(text, '\n')) {
    Reservation found;
    std::optional<double> start, end;
    for (const std::string& word : base::split(line, ' ')) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) continue;
      const View key = View(word).substr(0, equals);
      const std::string value = word.substr(equals + 1);
      if (key == "ReservationName") found.name = value;
      if (key == "StartTime") start = parse_slurm_time(value);
      if (key == "EndTime") end = parse_slurm_time(value);
      if (key == "Nodes") found.nodes = value;
      if (key != "Flags") continue;
      const auto flags = base::split(value, ',');
      found.maintenance = std::find(flags.begin(), flags.end(), "MAINT") != flags.end();
    }
    if (found.name.empty() || !start || !end) continue;
    found.start = *start;
    found.end = *end;
    all.push_back(found);
  }
  return all;
}

}  // namespace regatta::orchestrator::slurm
