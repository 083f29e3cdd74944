#pragma once

#include <cstdint>
#include <vector>

#include "trainer/contract/model_shape.h"

namespace regatta::trainer::model {

// The arena of a new model: weights from a normal distribution of standard deviation 0.02 cut at
// two deviations, LayerNorm weights 1, all biases 0 (google-research/bert, modeling.py). A pure
// function of seed and shape: element e of tensor i comes from philox(seed, {e, i, try,
// Initialisation}), so any number of threads draws the same bits. BERT-large takes some 15 s of one
// core.
[[nodiscard]] std::vector<float> initial_weights(const contract::TensorTable& table,
                                                 std::uint64_t seed, int threads = 1);

}  // namespace regatta::trainer::model
