// What a matrix product needs to know before anything runs: the key of its shape, which epilogues
// cuBLASLt may fuse, which timed candidate wins, and the file that keeps the choices. Pure host
// code without CUDA's headers; gemm.h does what it decides.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trainer/device/device.h"

namespace regatta::trainer::cuda {

// Inputs and arithmetic of a product; sums are float32 in all of them. FP8 would be a fifth.
enum class GemmType : std::uint8_t { Float32, TensorFloat32, BFloat16, Float16 };

// What else one library call may do. A tail is peeled off outermost first: the gradient's sums,
// then the activation, then the bias (see without_tail).
enum class GemmTail : std::uint8_t {
  None,
  Bias,              // c += bias
  Gelu,              // pre_activation takes the product, c its GELU
  GeluBias,          // the same with a bias
  GeluGradient,      // c = product ∘ gelu'(gelu_input)
  GeluGradientSums,  // the same, and the column sums of c
  InputSums,         // the column sums of a
  InputSumsBias,     // both; no library call does
};

// Everything that the choice of an algorithm depends on. `alignment` is that of the worst operand,
// at most 16 bytes, the widest access there is.
struct GemmKey {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  GemmType type = GemmType::Float32;
  bool float_result = true;  // c is float32
  bool accumulate = false;   // beta is 1
  GemmTail tail = GemmTail::None;
  bool tanh_form = false;  // of an activation
  int alignment = 16;

  auto operator<=>(const GemmKey&) const = default;
};

// Aborts for FP8 inputs: not yet.
[[nodiscard]] GemmKey key_of(const device::Gemm& op, bool tensor_float32);

// Whether cuBLASLt's documented conditions let one call do the key's tail to this device's contract
// (the heuristic may still refuse): GELU only in its tanh form and with a result of 16 bits, its
// second matrix with rows of a multiple of 8 elements and aligned to 16 bytes; and column sums only
// where they come out in float32, since the library writes them in c's type: so of an input, never
// of a GELU's gradient.
[[nodiscard]] bool tail_can_fuse(const GemmKey& key);

// The product that remains when the outermost part of the tail is done by a kernel of its own.
[[nodiscard]] device::Gemm without_tail(const device::Gemm& op, GemmTail tail);

enum class GemmPath : std::uint8_t {
  Library,   // one library call, tail included, with `algorithm`
  Separate,  // without_tail, as that product's own plan says, then a kernel
  BuiltIn,   // product.cu: what the library refuses; tail None only
};

// cublasLtMatmulAlgo_t's words; may be kept for the same library version and the same GPU.
using GemmAlgorithm = std::array<std::uint64_t, 8>;

struct GemmPlan {
  GemmPath path = GemmPath::BuiltIn;
  GemmAlgorithm algorithm = {};
  double microseconds = 0;  // as timed; 0 when it was not

  bool operator==(const GemmPlan&) const = default;
};

// The fastest; on a tie within 1 % the earlier, since candidates come in the library's own order
// and equal speeds should not make the choice a matter of noise. Not-a-number never wins. Nothing
// for no candidate.
[[nodiscard]] std::optional<GemmPlan> fastest(std::span<const GemmPlan> candidates);

// Plans by machine (device name, library version) and key; its text is the gemm_cache_file, see
// README, "Formats".
class GemmCache {
 public:
  // Throws base::Error(User), naming the line, for anything that text() did not write.
  [[nodiscard]] static GemmCache parse(std::string_view text);
  [[nodiscard]] std::string text() const;

  [[nodiscard]] const GemmPlan* find(const std::string& machine, const GemmKey& key) const;
  // `machine`: one line, not empty.
  void put(const std::string& machine, const GemmKey& key, const GemmPlan& plan);
  // Takes what the other knows and this does not.
  void merge(const GemmCache& other);
  [[nodiscard]] std::size_t size() const;

 private:
  std::map<std::string, std::map<GemmKey, GemmPlan>> machines_;
};

}  // namespace regatta::trainer::cuda
