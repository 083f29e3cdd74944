// The least that must work on a machine with a GPU before anything else is worth its time there:
//   gpu_preflight device          the plug-in loads and finds a GPU
//   gpu_preflight product         one product through the plug-in, exact
//   gpu_preflight wgmma           one warpgroup product beside mma.sync, in every form
//   gpu_preflight wgmma NUMBER    one form of them
// One line of JSON for each thing, printed as it ends. Exit code 1: something was wrong; 86: the
// GPU is unusable (gpu.h); 2: no GPU, no plug-in, or no such argument.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/gpu/gpu.h"
#include "tests/trainer/cuda/wgmma_probe.h"
#include "trainer/device/half_types.h"

namespace regatta::tests {
namespace {

using trainer::device::Dtype;
using Json = nlohmann::ordered_json;

void print(const Json& json) {
  std::printf("%s\n", json.dump().c_str());
  std::fflush(stdout);
}

int check_device() {
  const auto device = make_gpu({});
  device->synchronize();
  print({{"check", "device"}, {"description", device->description()}});
  return 0;
}

// Of small integers, so that it is exact whatever the order of its sums.
int check_product() {
  constexpr std::int64_t kRows = 192, kColumns = 128, kDepth = 64;
  const auto device = make_gpu({});
  const auto number = [](std::int64_t i) { return static_cast<float>(i * 7 % 13 - 6); };
  const auto matrix = [&](std::int64_t count, std::int64_t first) {
    std::vector<std::uint16_t> bits;
    for (std::int64_t i = 0; i < count; ++i) {
      bits.push_back(trainer::device::bf16_from_float(number(first + i)));
    }
    return bits;
  };
  const std::vector<std::uint16_t> a = matrix(kRows * kDepth, 0);
  const std::vector<std::uint16_t> b = matrix(kDepth * kColumns, 5);
  const trainer::device::DeviceMemory left(*device, kRows * kDepth, Dtype::BFloat16);
  const trainer::device::DeviceMemory right(*device, kDepth * kColumns, Dtype::BFloat16);
  const trainer::device::DeviceMemory result(*device, kRows * kColumns, Dtype::Float32);
  device->copy_to_device(0, left.view(), a.data());
  device->copy_to_device(0, right.view(), b.data());
  trainer::device::Gemm op;
  op.m = kRows;
  op.n = kColumns;
  op.k = kDepth;
  op.a = left.view();
  op.b = right.view();
  op.c = result.view();
  device->gemm(0, op);
  std::vector<float> c(kRows * kColumns, -1);
  device->copy_to_host(0, c.data(), result.view());
  device->synchronize();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < kColumns; ++j) {
      float exact = 0;
      for (std::int64_t k = 0; k < kDepth; ++k) {
        exact += number(i * kDepth + k) * number(5 + k * kColumns + j);
      }
      if (c[static_cast<std::size_t>(i * kColumns + j)] != exact) ++wrong;
    }
  }
  print({{"check", "product"}, {"wrong", wrong}, {"of", kRows * kColumns}});
  return wrong == 0 ? 0 : 1;
}

int check_wgmma(std::size_t first, std::size_t count) {
  if (!has_wgmma()) {
    print({{"check", "wgmma"}, {"skipped", "needs compute capability 9.0"}});
    return 0;
  }
  bool good = true;
  for (std::size_t i = first; i < first + count; ++i) {
    const WgmmaForm& form = wgmma_forms()[i];
    const WgmmaCounts counts = form.run();
    print({{"check", "wgmma"},
           {"form", form.name},
           {"wgmma_wrong", counts.wgmma_wrong},
           {"mma_wrong", counts.mma_wrong},
           {"of", counts.sums}});
    good = good && counts.wgmma_wrong == 0 && counts.mma_wrong == 0;
  }
  return good ? 0 : 1;
}

// What CUDA calls a fault leaves nothing usable; make_gpu's refusals are the machine's.
int code_of(const base::Error& error) {
  return error.code() == base::Code::Operator || error.code() == base::Code::User ? 2
                                                                                  : kGpuFaultExit;
}

int run(const std::vector<std::string>& arguments) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  const std::size_t forms = wgmma_forms().size();
  if (what == "device" && arguments.size() == 1) return check_device();
  if (what == "product" && arguments.size() == 1) return check_product();
  if (what == "wgmma" && arguments.size() == 1) return check_wgmma(0, forms);
  if (what == "wgmma" && arguments.size() == 2) {
    const auto form = static_cast<std::size_t>(std::strtoul(arguments[1].c_str(), nullptr, 10));
    if (form < forms) return check_wgmma(form, 1);
  }
  std::fprintf(stderr,
               "gpu_preflight: say device, product, wgmma, or wgmma and a form from 0 to %zu\n",
               forms - 1);
  return 2;
}

}  // namespace
}  // namespace regatta::tests

int main(int argc, char** argv) {
  try {
    return regatta::tests::run({argv + 1, argv + argc});
  } catch (const regatta::base::Error& error) {
    std::fprintf(stderr, "gpu_preflight: %s\n", error.what());
    std::fflush(nullptr);
    std::_Exit(regatta::tests::code_of(error));  // no destructor may call a lost GPU
  }
}
