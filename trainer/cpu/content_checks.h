// What the CPU device checks beyond sizes (trainer/device/shape_checks.h): it can read the memory
// behind views. Indexes come from the host's own code, so a wrong one is a bug; it must not become
// a wild write.
#pragma once

#include <cstdint>
#include <string_view>

#include "trainer/device/device.h"

namespace regatta::trainer::cpu {

// Every activation of an operation has the type of this one.
void check_computable(const device::View& activation);
// Each is in [least, bound); `least` is −1 where that stands for padding.
void check_indexes(const device::View& index, std::int64_t least, std::int64_t bound,
                   std::string_view invariant);
// Offsets grow from 0 to T = `count` or less; returns by how much at most.
[[nodiscard]] std::int64_t longest_sample(const device::View& cumulative, std::int64_t count);
// The same, and by at most max_length.
void check_offsets(const device::TokenIdentity& tokens, std::int64_t count);
// Answers lie in their samples, or one of the two is −1. Offsets have been checked.
void check_answers(const device::SpanCrossEntropy& op);

}  // namespace regatta::trainer::cpu
