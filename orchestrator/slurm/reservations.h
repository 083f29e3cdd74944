// Reservations of nodes, as Slurm lists them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace regatta::orchestrator::slurm {

struct Reservation {
  std::string name;
  double start = 0;  // seconds since 1970
  double end = 0;
  bool maintenance = false;  // the flag MAINT
  std::string nodes;         // a hostlist
};

// `scontrol --oneliner show reservation`, asked with TZ=UTC. Lines that are none are left out.
[[nodiscard]] std::vector<Reservation> parse_reservations(std::string_view text);

}  // namespace regatta::orchestrator::slurm
