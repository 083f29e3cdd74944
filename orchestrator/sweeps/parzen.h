// Densities estimated from values (Bergstra et al., Algorithms for Hyper-Parameter Optimization,
// NeurIPS 2011, section 4.2).
#pragma once

#include <cstddef>
#include <vector>

namespace regatta::orchestrator::sweeps {

// An even mixture of the uniform prior over [low, high] and of a Gaussian at each centre, cut to
// [low, high]. The width of a Gaussian (its σ) is the greater distance to its neighbours among the
// centres, low and high, but at least (high − low) / min(100, n + 1) and at most high − low; the
// paper asks for "a reasonable range", these bounds are those that hyperopt uses.
class ParzenEstimator {
 public:
  // low < high; `centres` in any order, within [low, high].
  ParzenEstimator(double low, double high, std::vector<double> centres);

  // Of x in [low, high]; never 0.
  [[nodiscard]] double density(double x) const;
  // Of [from, to] within [low, high].
  [[nodiscard]] double mass(double from, double to) const;
  // The point for two numbers in [0, 1): which component, and where in it, by its inverse
  // distribution.
  [[nodiscard]] double point(double component, double within) const;

 private:
  struct Gaussian {
    double centre, sigma;
    double below, inside;  // standard normal mass below low, and within [low, high]
  };
  [[nodiscard]] double point_of(const Gaussian& gaussian, double within) const;

  double low_, high_;
  std::vector<Gaussian> gaussians_;
};

// The probabilities of n choices: (1 + counts[i]) / (n + Σ counts), which is the paper's N·p + C
// with an even prior p = 1/N, normalized.
[[nodiscard]] std::vector<double> choice_probabilities(const std::vector<int>& counts);

// The standard normal distribution function, and its inverse within [low, high] by bisection, to
// the last bits of a double. u is in [Φ(low), Φ(high)].
[[nodiscard]] double normal_below(double z);
[[nodiscard]] double normal_quantile(double u, double low, double high);

}  // namespace regatta::orchestrator::sweeps
