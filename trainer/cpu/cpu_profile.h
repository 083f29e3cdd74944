// What decides how fast a CPU device is and how it rounds, for programs and for people.
#pragma once

#include <string>

#include "trainer/cpu/matrix_product.h"

namespace regatta::trainer::cpu {

[[nodiscard]] device::DeviceProfile cpu_profile(const ProductContext& products);
// "CPU, 2 threads, avx2, matrix products: built in, for weight gradients oneDNN 3.6.2".
[[nodiscard]] std::string describe(const device::DeviceProfile& cpu);

}  // namespace regatta::trainer::cpu
