// Which of a few cuts of the gradient makes the shortest steps, found out by the first steps of the
// run itself. Pure: driven by what steps took, so that ranks that are told the same decide alike.
//
// After a warm-up the cuts take turns, one step each, in rounds whose order is turned and reversed,
// so that a drift of the machine favours none. Steps differ in what there is to compute: time is
// taken to grow with the largest rank's FLOPs at one rate for all cuts (the median of the slopes
// between steps of the same cut: Theil, 1950; Sen, 1968), and every step is reckoned as one of the
// median's FLOPs. Two cuts are compared within each round, by their ratio; its median over rounds
// is known to lie between two of the ratios (an interval of the sign test), so outliers move
// nothing and no distribution is assumed. Decisions need no function whose last bit another
// processor may round differently (a logarithm would be one): else ranks could part.
//
// The first cut stays unless another one's whole interval is faster and its median by kLeastGain.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "topology/plan/plan.h"
#include "trainer/contract/model_shape.h"
#include "trainer/step/step_pace.h"

namespace regatta::trainer::step {

struct Cut {
  std::string name;  // default, plan, remembered, coarser, finer
  std::vector<topology::plan::Bucket> buckets;
};

// Neighbours joined two by two.
[[nodiscard]] std::vector<topology::plan::Bucket> pairs_joined(
    const std::vector<topology::plan::Bucket>& buckets);
// Buckets of at least the mean size, halved at the tensor border next to their middle.
[[nodiscard]] std::vector<topology::plan::Bucket> large_halved(
    const contract::TensorTable& table, const std::vector<topology::plan::Bucket>& buckets);

// Empty: there is none.
struct KnownCuts {
  std::vector<topology::plan::Bucket> standard;    // without a plan
  std::vector<topology::plan::Bucket> planned;     // plan.json's
  std::vector<topology::plan::Bucket> remembered;  // measured by a run before
};
// What is worth a try, each cut once. First comes what stays in doubt: the one remembered, else the
// default. The neighbours are of the one remembered, else of the plan's, else of the default.
[[nodiscard]] std::vector<Cut> cuts_to_try(const contract::TensorTable& table,
                                           const KnownCuts& known);

struct TrialResult {
  std::size_t winner = 0;
  std::vector<double> seconds;  // of each cut: median of its steps, all of the same work; 0: none
  double gain = 0;              // share of the first cut's step that the winner saves
  double noise =
      0;  // half the width of the last interval of the winner's gain, or of the nearest's
  int rounds = 0;
  int steps = 0;    // warm-up and disturbed ones included
  std::string why;  // one sentence
};

class PlanTrial {
 public:
  static constexpr int kWarmupSteps = 3;  // with the first cut; then one with each other
  static constexpr int kMostRounds = 24;  // a gain of 1 % is found through a noise of 1 %
  static constexpr int kMostSteps = 120;  // then what there is decides
  static constexpr double kLeastGain = 0.01;
  static constexpr double kDoubt = 0.01;  // that the median is outside its interval

  // At least one cut; of one alone there is nothing to try.
  explicit PlanTrial(std::vector<std::string> names);

  [[nodiscard]] bool is_over() const { return over_; }
  // The cut of the next step; once it is over, the winner's.
  [[nodiscard]] std::size_t current() const;
  // The step with current() is done. Disturbed ones count as steps only, and are taken again.
  void observe(const StepPace& pace);
  [[nodiscard]] TrialResult result() const;

 private:
  // Time of one cut / time of another, over the rounds that have both.
  struct Ratio {
    double median, low, high;
  };
  [[nodiscard]] Ratio ratio(std::size_t one, std::size_t other) const;
  [[nodiscard]] std::vector<double> times_of(std::size_t cut) const;
  [[nodiscard]] bool beats_first(const Ratio& ratio) const;
  void finish_round();
  void judge();
  void measure_work();
  void start_round();

  std::vector<std::string> names_;
  std::vector<std::size_t> alive_;  // in the trial; the first cut always
  std::vector<std::size_t> order_;  // of this round, or of the warm-up
  std::size_t turn_ = 0;            // in order_
  bool warm_ = false;
  std::vector<StepPace> round_;                // by cut; 0 seconds: not in it
  std::vector<std::vector<StepPace>> rounds_;  // that are complete
  double seconds_per_flop_ = 0, usual_flops_ = 0;
  int steps_ = 0;
  bool over_ = false;
  std::size_t winner_ = 0;
};

}  // namespace regatta::trainer::step
