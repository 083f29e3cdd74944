// The CPU device: float32, everything runs at once inside the call, on the device's own threads.
// One thread at a time may use a device. The same calls give the same bits with any number of
// threads (work is split by sizes only); instruction sets differ from each other by rounding,
// unless arithmetic is portable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/device/device.h"

namespace regatta::trainer::cpu {

// Who multiplies matrices. Fastest is oneDNN where a is transposed (weight gradients) and it was
// compiled in, the built-in product otherwise: trainer/cpu/README.md, decision 2. OneDnn without
// oneDNN is BuiltIn.
enum class CpuProducts { Fastest, BuiltIn, OneDnn };

// Of the machine: as fast as its instruction set computes. Portable: with the same bits on every
// instruction set; products are built in then, whatever is asked for.
enum class CpuArithmetic { OfMachine, Portable };

struct CpuOptions {
  int threads = 1;
  std::string isa;  // of cpu_instruction_sets(); empty: the best of this machine
  CpuProducts products = CpuProducts::Fastest;
  CpuArithmetic arithmetic = CpuArithmetic::OfMachine;
};

// Those of "baseline", "avx2" and "avx512" that this machine has, the best last.
[[nodiscard]] std::vector<std::string> cpu_instruction_sets();

// Throws Code::User for an instruction set that the machine lacks or fewer threads than 1.
[[nodiscard]] std::unique_ptr<device::Device> make_cpu_device(const CpuOptions& options);
[[nodiscard]] std::unique_ptr<device::Device> make_cpu_device(int threads);

}  // namespace regatta::trainer::cpu
