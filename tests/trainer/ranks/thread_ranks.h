// Ranks as threads of one process: a trainer::Communicator each, for tests of what runs on many
// ranks where neither MPI nor a second process is wanted.
//
// Of devices whose operations are done when they return (the CPU device). Stricter than the
// contract demands, so that tests find what other communicators would forgive: between its begin
// and finish() a view that is summed, gathered or received holds NaN, and so do the parts that the
// contract leaves undefined; calls that differ in kind, size or root between ranks throw. Sums are
// made in rank order (hierarchical: in rank order within each node, then in node order), so every
// rank has the same bits, whatever the threads do.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trainer/ranks/communicator.h"

namespace regatta::tests {

class ThreadRanks {
 public:
  // `node_ranks`: hierarchical, on nodes of so many ranks each (`ranks` is a multiple); 0: flat.
  explicit ThreadRanks(int ranks, int node_ranks = 0);
  ~ThreadRanks();
  ThreadRanks(const ThreadRanks&) = delete;
  ThreadRanks& operator=(const ThreadRanks&) = delete;

  // Calls body on one thread for each rank, and returns when all have returned. A rank that
  // returns, throws or abandons its communicator is lost to the others: where they wait for it they
  // throw Code::Retry. Rethrows what was thrown first. Once for each object.
  using Body = std::function<void(trainer::ranks::Communicator& ranks)>;
  void run(const Body& body);

  struct World;

 private:
  std::unique_ptr<World> world_;
};

}  // namespace regatta::tests
