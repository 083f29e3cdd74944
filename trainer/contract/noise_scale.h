// Gradient noise scale, statistical efficiency and goodput.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace regatta::trainer::contract {

// Of one step with the mean gradient ḡ, and the mean gradient h of a random half of its samples.
// In any norm: the optimizer's preconditioner may have divided both.
struct HalfNorms {
  double difference = 0;            // ‖ḡ − h‖²
  double whole = 0;                 // ‖ḡ‖²
  double half_items = 0, rest = 0;  // counted in the half, and in the step's other samples
};

// φ, as a number of samples, with 95 % confidence. No `high`: φ may be endless, since a gradient is
// not told from none.
struct NoiseInterval {
  double low = 0;
  std::optional<double> high;
};

// The noise scale of McCandlish et al. (arXiv 1812.06162, appendix A) with the averages of Pollux
// (Qiao et al., OSDI 2021), from random halves instead of ranks: balancing deals samples to ranks
// by length, so that ranks' gradients are no independent batches.
class NoiseScale {
 public:
  // Of samples: of a step, and M₀ of the efficiency.
  NoiseScale(std::int64_t batch, std::int64_t base_batch);
  // Steps have so many samples from now on. What was observed before still counts: of noise and
  // signal, which are averaged, only the noise of a step's mean depends on the batch, as 1/batch.
  void set_batch(std::int64_t batch);
  // Steps whose norms are not finite, or with a half that counted nothing, are passed over.
  void observe(const HalfNorms& step);

  // φ in samples: the batch at which half of a step is noise. Nothing before kLeastSteps steps, and
  // while the mean of the signal is not above 0: then only a lower end is known.
  [[nodiscard]] std::optional<double> samples() const;
  // What the steps observed allow for φ, if their estimates are independent and about normal in the
  // mean (Fieller 1954, for a ratio of means).
  [[nodiscard]] std::optional<NoiseInterval> interval() const;
  // (φ + M₀) / (φ + M): progress per sample against training with batches of M₀; in (0, 1] for
  // M ≥ M₀. With the lower end where φ is not known, so that it is no better than told.
  [[nodiscard]] std::optional<double> efficiency() const;
  static constexpr int kLeastSteps = 10;

  // All that later estimates depend on, for checkpoints, beside the batch: restored is what was
  // observed with the batch as it is. What is not finite is taken for nothing observed.
  static constexpr std::size_t kStateSize = 10;
  using State = std::array<double, kStateSize>;
  [[nodiscard]] State state() const;
  void restore(const State& state);

 private:
  // Sums over the steps so far with the weight w that a step has left.
  struct Sums {
    double steps = 0;                                             // number of them
    double weight = 0, noise = 0, signal = 0;                     // Σ w·(1, noise, signal)
    double weight2 = 0, noise2 = 0, signal2 = 0;                  // Σ w²·(1, noise, signal)
    double noise_noise = 0, noise_signal = 0, signal_signal = 0;  // Σ w²·products
  };

  double batch_, base_batch_;
  Sums sums_;
};

}  // namespace regatta::trainer::contract
