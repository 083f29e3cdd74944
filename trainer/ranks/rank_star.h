// TCP connections between rank 0 and every other rank, set up so that strangers on the port are
// turned away without disturbing anybody.
//
// A rank sends a hello (a mark, the secret, the channel, its rank, the number of ranks); rank 0
// answers that it knows it; the rank confirms; and when all have, rank 0 welcomes all. What sends
// anything else, or nothing for some seconds, is dropped. Integers are in the machine's order:
// ranks of a run are alike. The secret travels in clear text: it keeps accidents and other users
// out, not who can read the network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/socket.h"

namespace regatta::trainer::ranks {

// Rank 0 knows best who is missing: what all wait for, the others wait for some seconds longer.
constexpr int kLongerThanRank0 = 5;

struct StarOptions {
  int rank = 0;
  int ranks = 1;
  std::uint64_t secret = 0;
  std::uint32_t channel = 0;  // several stars at one port
  double connect_seconds = 60;
};

// On rank 0: a connection to each rank; that of rank 0 itself is none. Code::Retry when some ranks
// do not come in time, or one is lost meanwhile.
[[nodiscard]] std::vector<base::Socket> accept_ranks(base::Listener& listener,
                                                     const StarOptions& options);

// On the others: the connection to rank 0, which may be at any of `hosts`, and may not listen yet.
// Code::Retry when it does not welcome us in time.
[[nodiscard]] base::Socket join_rank_0(const std::vector<std::string>& hosts, int port,
                                       const StarOptions& options);

}  // namespace regatta::trainer::ranks
