// Samples on their way from one rank to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/samples/batch.h"

namespace regatta::trainer::samples {

// A sample and its place in the step's batch.
struct PlacedSample {
  std::int32_t place = 0;
  Sample sample;
};

// Format: unsigned numbers of seven bits a byte, low bits first, the last byte below 128: step,
// number of samples; of each its place, label, answer (begin, end), the 32 bits of its value,
// length, ids, segments as pairs (type, how many), number of masked positions, those as
// differences, labels; then the first kParcelDigest characters of the digest (base/digest.h) of all
// that. 2.4 bytes a token of Wikipedia in 30,522 pieces.
[[nodiscard]] std::vector<std::byte> make_parcel(std::int64_t step,
                                                 const std::vector<PlacedSample>& samples);
// What make_parcel was given, for the same step and `places`, none of them longer than max_length.
// Throws Code::Retry with what is wrong, for any other bytes.
[[nodiscard]] std::vector<PlacedSample> open_parcel(std::span<const std::byte> parcel,
                                                    std::int64_t step,
                                                    std::span<const std::int32_t> places,
                                                    std::int32_t max_length);
constexpr std::size_t kParcelDigest = 16;

}  // namespace regatta::trainer::samples
