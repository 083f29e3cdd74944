#include "trainer/cpu/cpu_profile.h"

namespace regatta::trainer::cpu {

device::DeviceProfile cpu_profile(const ProductContext& products) {
  const bool onednn = has_onednn() && products.products != CpuProducts::BuiltIn;
  const bool all = onednn && products.products == CpuProducts::OneDnn;
  device::DeviceProfile profile;
  profile.kind = "cpu";
  profile.instruction_set = products.kernels.isa;
  profile.threads = products.pool.threads();
  const std::string own = products.kernels.portable ? "built in, portable" : "built in";
  profile.products = all ? "oneDNN" : own;
  profile.weight_gradient_products = onednn ? "oneDNN" : own;
  profile.attention = own;
  if (onednn) profile.libraries.emplace_back("oneDNN", onednn_version());
  return profile;
}

std::string describe(const device::DeviceProfile& cpu) {
  std::string text = "CPU, " + std::to_string(cpu.threads) + " threads, " + cpu.instruction_set +
                     ", matrix products: " + cpu.products;
  if (cpu.weight_gradient_products != cpu.products) {
    text += ", for weight gradients " + cpu.weight_gradient_products;
  }
  if (!cpu.libraries.empty()) text += " " + cpu.libraries.front().second;
  return text;
}

}  // namespace regatta::trainer::cpu
