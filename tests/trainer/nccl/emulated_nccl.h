// EMULATED: NCCL, streams and events on the host, for tests of the NCCL communicator. Ranks are
// threads of one process, a stream is a thread that runs what it was given in order, a
// communicator's launch waits on its stream for those of the other ranks. No GPU is asked for, and
// nothing here says anything about speed, nor that NCCL itself behaves as its documentation says.
//
// What it insists on, and notes as a violation otherwise:
// * all ranks of a communicator launch the same calls in the same order with the same counts;
// * sends meet receives of their size; nothing moves outside of the memory that was lent();
// * a communicator takes no call while one is in progress, none after it was aborted or destroyed;
//   a launch that is in progress reaches its stream late, behind events recorded in haste;
// * a communicator is split when none of its launches is under way;
// * everything made is destroyed, communicators after all ranks have finalized theirs, or aborted.
// What a launch writes holds NaN from when it starts to when it is over.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/nccl/nccl_table.h"

namespace regatta::tests {

// In milliseconds; random ones are between 0 and what is said.
struct EmulatedDelays {
  double random_start = 0;     // between reaching the head of the stream and joining the others
  double random_transfer = 0;  // between the last one's coming and the result
  double launch = 0;           // in progress for so long
  double init = 0;             // of a communicator whose ranks are all there
  unsigned seed = 1;
};

class EmulatedNccl {
 public:
  explicit EmulatedNccl(int ranks, const EmulatedDelays& delays = {});
  // Ends streams that still wait for something, as the end of a process does.
  ~EmulatedNccl();
  EmulatedNccl(const EmulatedNccl&) = delete;
  EmulatedNccl& operator=(const EmulatedNccl&) = delete;

  // Of one rank's process and GPU. Its device has streams 0 to 3.
  [[nodiscard]] trainer::nccl::Table table(int rank);
  // Has the device's stream run `work`.
  void enqueue(int rank, trainer::device::Stream stream, std::function<void()> work);
  void synchronize(int rank, trainer::device::Stream stream);
  // Memory of the rank's GPU: what collectives may touch.
  void lend(int rank, const float* memory, std::int64_t count);

  // Faults. Every transfer that the rank takes part in never ends; an asynchronous error comes with
  // it, if one is given.
  void break_links(int rank, trainer::nccl::Result error = trainer::nccl::Result::Success);
  // The rank's next call of this name ("all_reduce", "group_end", "get_unique_id", …) gives
  // `error`.
  void fail_next(int rank, const std::string& call, trainer::nccl::Result error);

  // How often the rank called what.
  [[nodiscard]] int calls(int rank, const std::string& call);
  // Handles that the rank has not destroyed.
  [[nodiscard]] int open_handles(int rank);
  [[nodiscard]] std::vector<std::string> violations();

  struct World;

 private:
  std::unique_ptr<World> world_;
};

}  // namespace regatta::tests
