// Densities estimated from trials: a kernel at each, of all parameters together, and the prior
// (Falkner et al., BOHB, ICML 2018, section 3.2, on Bergstra et al., Algorithms for Hyper-Parameter
// Optimization, NeurIPS 2011, section 4).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "orchestrator/sweeps/history.h"

namespace regatta::orchestrator::sweeps {

// A Gaussian cut to [low, high], with its centre within it.
class CutGaussian {
 public:
  CutGaussian(double centre, double sigma, double low, double high);

  // Of x in [low, high].
  [[nodiscard]] double density(double x) const;
  // Of [from, to] within [low, high].
  [[nodiscard]] double mass(double from, double to) const;
  // The point below which the share u in [0, 1) of it lies.
  [[nodiscard]] double point(double u) const;

 private:
  double centre_, sigma_, low_, high_;
  double below_, inside_;  // standard normal mass below low, and within [low, high]
};

// An even mixture of the prior and of a kernel at each trial. A kernel is a product over the
// parameters that are active in what is asked for: where the trial had a number, a Gaussian there,
// cut to the range (of an integer k the mass from k − ½ to k + ½); where it had one of C choices,
// 1 − w + w/C for that and w/C for each other, w = 1/(n + 1) of n trials; where it had none, or one
// that the parameter can no longer have, the prior. A number's σ is 0.1 · range · m^(−1/(4 + D)) of
// the m trials that have it, D numbers in the space (Scott's rule), but at least 0.03 · range
// (Watanabe, Tree-Structured Parzen Estimator, arXiv 2304.11127).
class TrialDensity {
 public:
  // The space outlives it.
  TrialDensity(const Space& space, const std::vector<const SweepTrial*>& trials);

  // Log of it at values with all active parameters and no others.
  [[nodiscard]] double log_at(const SweepValues& values) const;
  // Values drawn from it by numbers in [0, 1): which component, and what `within` has for each
  // place in the space.
  [[nodiscard]] SweepValues drawn(double component,
                                  const std::function<double(std::size_t place)>& within) const;

 private:
  struct Axis {
    const SweepParameter* parameter;
    std::optional<NumberScale> scale;  // of numbers
  };
  // Of a trial in one parameter: about its number, or the choice that it had; nothing: none.
  using Kernel = std::variant<std::monostate, CutGaussian, std::size_t>;
  // A value that is asked for: where it lies, from where to where an integer, or which choice.
  struct Asked {
    std::size_t axis;
    double at = 0, from = 0, to = 0;
    std::size_t choice = 0;
    double prior = 0;
  };

  [[nodiscard]] Asked asked(std::size_t axis, const SweepValue& value) const;
  [[nodiscard]] double share(const Kernel& kernel, const Asked& asked) const;
  [[nodiscard]] SweepValue drawn(const Axis& axis, const Kernel& kernel, double u) const;
  [[nodiscard]] double other_choices() const;  // w

  std::vector<Axis> axes_;
  std::vector<std::vector<Kernel>> trials_;  // by axis
};

// The standard normal distribution function, and its inverse within [low, high] by bisection, to
// the last bits of a double. u is in [Φ(low), Φ(high)].
[[nodiscard]] double normal_below(double z);
[[nodiscard]] double normal_quantile(double u, double low, double high);

}  // namespace regatta::orchestrator::sweeps
