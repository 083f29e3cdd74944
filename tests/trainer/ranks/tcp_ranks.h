// Ranks as threads of one process, connected by TCP.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/socket.h"
#include "trainer/ranks/tcp_host.h"

namespace regatta::tests {

// What ended each rank, if something did.
using Ends = std::vector<std::optional<base::Error>>;

constexpr std::uint64_t kSecret = 0x1234567890abcdef;

// Options of every rank of a star on loopback, and the listener of rank 0.
struct Star {
  explicit Star(int ranks) : listener("127.0.0.1", 0) {
    options.ranks = ranks;
    options.hosts = {"127.0.0.1"};
    options.port = listener.port();
    options.secret = kSecret;
  }
  [[nodiscard]] std::unique_ptr<trainer::ranks::TcpHost> connect(int rank) {
    trainer::ranks::TcpHostOptions own = options;
    own.rank = rank;
    if (rank == 0) return std::make_unique<trainer::ranks::TcpHost>(own, std::move(listener));
    return std::make_unique<trainer::ranks::TcpHost>(own);
  }
  base::Listener listener;
  trainer::ranks::TcpHostOptions options;
};

// Runs `body` on a thread for each rank, and waits for all.
inline Ends each_rank(int ranks, const std::function<void(int rank)>& body) {
  Ends ends(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const base::Error& error) {
        ends[static_cast<std::size_t>(rank)] = error;
      }
    });
  }
  threads.clear();
  return ends;
}

inline Ends run_ranks(int ranks, const std::function<void(trainer::ranks::TcpHost&)>& body) {
  Star star(ranks);
  return each_rank(ranks, [&](int rank) { body(*star.connect(rank)); });
}

}  // namespace regatta::tests
