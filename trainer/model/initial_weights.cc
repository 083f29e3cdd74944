#include "trainer/model/initial_weights.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"
#include "base/portable_math.h"
#include "base/thread_pool.h"
#include "trainer/contract/random_site.h"

namespace regatta::trainer::model {
namespace {

constexpr double kDeviation = 0.02;
constexpr std::int64_t kGrain = 1 << 14;  // elements that a thread draws at a time: about 1 ms

// Box–Muller; draws again (the next `attempt`) outside two deviations.
float truncated_normal(std::uint64_t seed, std::uint32_t element, std::uint32_t tensor) {
  for (std::uint32_t attempt = 0;; ++attempt) {
    const base::PhiloxCounter bits =
        base::philox(seed, {element, tensor, attempt,
                            static_cast<std::uint32_t>(contract::RandomSite::Initialisation)});
    const double radius = std::sqrt(-2.0 * base::portable_log((bits[0] + 1.0) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * bits[1] * 0x1p-32;
    const double value = radius * base::portable_cos(angle);
    if (std::abs(value) <= 2.0) return static_cast<float>(kDeviation * value);
  }
}

}  // namespace

std::vector<float> initial_weights(const contract::TensorTable& table, std::uint64_t seed,
                                   int threads) {
  std::vector<float> arena(static_cast<std::size_t>(table.arena_size), 0.0F);
  base::ThreadPool pool(threads);
  for (std::size_t index = 0; index < table.tensors.size(); ++index) {
    const contract::TensorEntry& tensor = table.tensors[index];
    float* const values = arena.data() + tensor.offset;
    if (tensor.weight_decay) {
      pool.parallel_for(tensor.size, kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t element = begin; element < end; ++element) {
          values[element] = truncated_normal(seed, static_cast<std::uint32_t>(element),
                                             static_cast<std::uint32_t>(index));
        }
      });
    } else if (tensor.name.ends_with("LayerNorm.weight")) {
      for (std::int64_t element = 0; element < tensor.size; ++element) values[element] = 1.0F;
    }
  }
  return arena;
}

}  // namespace regatta::trainer::model
