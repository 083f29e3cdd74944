// Samples without a dataset, for benchmarks: random pieces with lengths from a table.
#pragma once

#include <cstdint>

#include "trainer/contract/length_table.h"
#include "trainer/contract/model_shape.h"
#include "trainer/samples/sample_stream.h"

namespace regatta::trainer::samples {

// 15 % of the positions masked, at least one. Numbers repeat after `period` samples, over which
// each length comes as often as the table says, in random order, cut to the model's positions.
[[nodiscard]] SampleStream random_samples(const contract::LengthTable& lengths,
                                          const contract::ModelShape& shape, std::int64_t period);

// What a model with padding trains on: every sample filled with piece 0 up to `length` tokens, as
// many positions masked as before. Padding is attended to, which changes results but not the cost:
// a padded model computes those scores too, and then hides them.
[[nodiscard]] SampleStream padded_samples(SampleStream samples, std::int32_t length);

}  // namespace regatta::trainer::samples
