// How far off a right computation of some precision usually is.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/contract/model_shape.h"
#include "trainer/contract/run_config.h"

namespace regatta::trainer::probe {

// Roundings are taken to be independent and of mean 0, so that n of them lead √n units away, not n
// (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019). What is stored is rounded once, to the
// compute type; a sum of k terms k times, to float32, in which all devices add up. Only the longest
// way through the layers counts, and no cancellation: an estimate, not a bound.
class UsualError {
 public:
  UsualError(const contract::ModelShape& shape, contract::Precision precision, std::int64_t tokens,
             std::int64_t samples);

  // Relative to a tensor's norm. layer: −1 is the embeddings, shape.layers the head.
  [[nodiscard]] double forward(int layer) const;   // of the layer's last activation
  [[nodiscard]] double backward(int layer) const;  // of gradients of its weights

 private:
  // Squared errors of a part of the model, once through.
  [[nodiscard]] double part(int layer) const;

  contract::ModelShape shape_;
  double stored_;            // squared unit roundoff of what is stored
  double tokens_, lengths_;  // of all samples, and of one
};

}  // namespace regatta::trainer::probe
