// What is kept of the steps of runs that ended long ago: single rows first, then blocks of 10 s, of
// 1 min and of 10 min (step_blocks.h). The journals in the run directories keep every step.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace regatta::orchestrator::store {

class Store;

// Days since a run has ended. Rows or blocks are removed only where the next larger blocks draw the
// run with kFewestPoints or more, so a short run keeps every step.
struct KeptSteps {
  double raw_days = 30;
  double ten_second_days = 90;
  double minute_days = 365;
};
inline constexpr int kFewestPoints = 1000;

// When something that goes on beside everything else looks what there is to do.
struct LookTimes {
  double first_seconds = 60;  // after it began
  double then_seconds = 3600;
};

// Rolls up in a thread, piece by piece, so that other writes wait for milliseconds.
class RollUps {
 public:
  RollUps(Store& store, const KeptSteps& kept, const LookTimes& looks = {});
  ~RollUps();
  RollUps(const RollUps&) = delete;
  RollUps& operator=(const RollUps&) = delete;

 private:
  void work(const std::stop_token& stop);
  // False: it is to end.
  bool pause(const std::stop_token& stop, double seconds);

  Store& store_;
  KeptSteps kept_;
  const LookTimes looks_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;
};

}  // namespace regatta::orchestrator::store
