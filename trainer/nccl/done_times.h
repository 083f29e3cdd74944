// When collectives were over: an event behind each, and its time on the host's clock.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "base/clock.h"
#include "trainer/nccl/nccl_table.h"
#include "trainer/ranks/communicator.h"

namespace regatta::trainer::nccl {

// The GPU's time stamps are differences between events. One event a second is recorded on a stream
// that has nothing else to do, with the host's clock read before and after: the time of a
// collective is off by half of what lies between the two (kGoodGap at most, or else the best of
// some tries), plus what the two clocks drift apart in a second, plus CUDA's half microsecond.
// Where the GPU is so busy that even this stream does not get through, an older comparison serves.
class DoneTimes {
 public:
  static constexpr ranks::Pending kKept = 4096;
  static constexpr double kComparisonSeconds = 1;
  static constexpr double kGoodGap = 50e-6;
  static constexpr double kLongestGap = 1e-3;
  static constexpr int kTries = 3;

  // Throws Code::Retry when the GPU does not get through the first comparison.
  DoneTimes(const Table& table, const base::Clock& clock);

  // What `stream` has so far is what `number` is. Numbers come once each, in any order.
  void record(ranks::Pending number, NativeStream stream);
  // Nothing when it is over.
  void wait(NativeStream stream, ranks::Pending number);
  // In seconds of `clock`. The collective is over, and among the last kKept.
  [[nodiscard]] double at(ranks::Pending number);

 private:
  struct Comparison {
    TableEvent event;
    double seconds = 0;
    int users = 0;  // marks
  };
  struct Mark {
    TableEvent event;
    std::list<Comparison>::iterator since;
  };
  using Marks = std::map<ranks::Pending, Mark>;

  [[nodiscard]] TableEvent take_event();
  // Whether it got through within `seconds` on any try.
  bool compare(double longest_gap);
  void resolve_done();
  void resolve(Marks::iterator mark);

  const Table& table_;
  const base::Clock& clock_;
  TableStream stream_;
  std::vector<TableEvent> idle_;
  std::list<Comparison> comparisons_;  // the last is the newest
  double last_try_ = 0;
  Marks marks_;  // not known to be over
  struct Done {
    ranks::Pending number = 0;
    double seconds = 0;
  };
  std::vector<Done> done_;  // number modulo kKept
};

}  // namespace regatta::trainer::nccl
