#include "trainer/bench/bench_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/statistics.h"
#include "trainer/bench/bench_kernel_cases.h"

namespace regatta::trainer::bench {
namespace {

using Json = nlohmann::ordered_json;
using model::kCompute;

constexpr double kTera = 1e12;
// Launches replayed as one (Device::repeat), and how long such a group should last.
constexpr std::int64_t kMaxGroup = 64;
constexpr double kGroupSeconds = 0.002;
constexpr std::int64_t kMaxGroupsPerBatch = 1 << 14;
// The ceiling's products grow until one takes this long.
constexpr double kLongProductSeconds = 0.25;
constexpr int kSmallestProduct = 256;
constexpr std::int64_t kSmallestCopy = 1 << 16;

struct CallTiming {
  double median = 0, least = 0, most = 0;  // seconds of one call
  std::int64_t calls_per_batch = 0;
};

// Times calls in batches between two synchronisations, by the host's clock.
class Stopwatch {
 public:
  Stopwatch(device::Device& device, const base::Clock& clock, const BenchKernelsOptions& options)
      : device_(device), clock_(clock), options_(options) {}

  CallTiming measure(const std::function<void()>& enqueue, const std::function<void()>& reset) {
    const auto prepare = [&] {
      if (reset) reset();
      device_.synchronize();
    };
    prepare();
    enqueue();  // whatever a first call does once, it does outside of the measured ones
    device_.synchronize();
    const double once = std::max(1e-7, seconds_of(enqueue, 1));
    const std::int64_t group = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(
            std::ceil(std::min(kGroupSeconds, options_.batch_seconds) / once)),
        1, kMaxGroup);
    const std::uint64_t key = next_key_++;
    const auto run_group = [&] {
      device_.repeat(kCompute, key, [&] {
        for (std::int64_t i = 0; i < group; ++i) enqueue();
      });
    };
    prepare();
    const double group_seconds =
        std::max(1e-7, (seconds_of(run_group, 1), seconds_of(run_group, 1)));
    const std::int64_t groups = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(std::ceil(options_.batch_seconds / group_seconds)), 1,
        kMaxGroupsPerBatch);
    std::vector<double> seconds;
    for (int i = 0; i < options_.repetitions; ++i) {
      prepare();
      seconds.push_back(std::max(1e-9, seconds_of(run_group, groups)) /
                        static_cast<double>(groups * group));
    }
    const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    return {base::median(seconds), *least, *most, groups * group};
  }

 private:
  double seconds_of(const std::function<void()>& enqueue, std::int64_t count) {
    const double start = clock_.monotonic_seconds();
    for (std::int64_t i = 0; i < count; ++i) enqueue();
    device_.synchronize();
    return clock_.monotonic_seconds() - start;
  }

  device::Device& device_;
  const base::Clock& clock_;
  const BenchKernelsOptions& options_;
  std::uint64_t next_key_ = 0;
};

// Numbers in [-0.5, 0.5), the same piece over and over: products and copies of zeros can be faster
// than those of data. The piece's length is no power of two, so that rows of a matrix differ.
void fill_with_numbers(device::Device& device, const device::View& view) {
  constexpr std::int64_t kPiece = (std::int64_t{1} << 20) + 64 * 17;
  std::vector<float> values(static_cast<std::size_t>(std::min(kPiece, view.size)));
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8U) * 0x1p-24F - 0.5F;
  }
  const device::DeviceMemory floats(device, static_cast<std::int64_t>(values.size()),
                                    device::Dtype::Float32);
  device.copy_to_device(kCompute, floats.view(), values.data());
  for (std::int64_t begin = 0; begin < view.size; begin += floats.view().size) {
    const std::int64_t count = std::min(floats.view().size, view.size - begin);
    const device::View from = floats.view().slice(0, count);
    if (view.dtype == device::Dtype::Float32) {
      device.copy(kCompute, view.slice(begin, count), from);
    } else {
      device.convert(kCompute, view.slice(begin, count), from);
    }
  }
  device.synchronize();
}

struct Ceilings {
  double flops = 0;  // a second
  std::int64_t side = 0;
  double bytes = 0;  // a second
  std::int64_t copy_bytes = 0;
};

double product_rate(device::Device& device, Stopwatch& stopwatch, device::Dtype dtype,
                    std::int64_t side, double* seconds) {
  const device::DeviceMemory a(device, side * side, dtype);
  const device::DeviceMemory b(device, side * side, dtype);
  const device::DeviceMemory c(device, side * side, dtype);
  fill_with_numbers(device, a.view());
  fill_with_numbers(device, b.view());
  device::Gemm op;
  op.m = op.n = op.k = side;
  op.a = a.view();
  op.b = b.view();
  op.c = c.view();
  op.transpose_b = true;
  *seconds = stopwatch.measure([&] { device.gemm(kCompute, op); }, {}).median;
  device.synchronize();
  device.forget_repeats();
  return 2.0 * std::pow(static_cast<double>(side), 3) / *seconds;
}

// Bytes read and written a second by a copy too large for a cache, or as large as there is room
// for.
void measure_copy(device::Device& device, Stopwatch& stopwatch, std::int64_t bytes,
                  Ceilings* ceilings) {
  for (;; bytes /= 2) {
    try {
      const std::int64_t count = std::max(bytes, kSmallestCopy) / 4;
      const device::DeviceMemory from(device, count, device::Dtype::Float32);
      const device::DeviceMemory to(device, count, device::Dtype::Float32);
      fill_with_numbers(device, from.view());
      const CallTiming timing =
          stopwatch.measure([&] { device.copy(kCompute, to.view(), from.view()); }, {});
      device.forget_repeats();
      ceilings->copy_bytes = 4 * count;
      ceilings->bytes = 8.0 * static_cast<double>(count) / timing.median;
      return;
    } catch (const base::Error& error) {
      if (error.code() != base::Code::Operator || bytes <= kSmallestCopy) throw;
    }
  }
}

Ceilings measure_ceilings(device::Device& device, Stopwatch& stopwatch,
                          const BenchKernelsOptions& options) {
  Ceilings ceilings;
  measure_copy(device, stopwatch, options.copy_bytes, &ceilings);
  for (std::int64_t side = std::min(kSmallestProduct, options.product_side);
       side <= options.product_side; side *= 2) {
    double seconds = 0;
    const double rate = product_rate(device, stopwatch, options.dtype, side, &seconds);
    if (rate > ceilings.flops) {
      ceilings.flops = rate;
      ceilings.side = side;
    }
    if (8 * seconds > kLongProductSeconds) break;
  }
  return ceilings;
}

Json json_of(const KernelCase& entry, const CallTiming& timing, const Ceilings& ceilings) {
  const bool computes = entry.flop > 0;
  const double rate = (computes ? entry.flop : entry.bytes) / timing.median;
  Json json;
  json["name"] = entry.name;
  json["group"] = entry.group;
  json["shape"] = entry.shape;
  json["calls_per_step"] = entry.calls_per_step;
  json["seconds"] = timing.median;
  json["least_seconds"] = timing.least;
  json["most_seconds"] = timing.most;
  json["calls_per_batch"] = timing.calls_per_batch;
  json[computes ? "flop" : "bytes"] = computes ? entry.flop : entry.bytes;
  json[computes ? "tflop_per_second" : "terabytes_per_second"] = rate / kTera;
  json["percent_of_ceiling"] = 100 * rate / (computes ? ceilings.flops : ceilings.bytes);
  return json;
}

}  // namespace

std::string bench_kernels(device::Device& device, const base::Clock& clock,
                          const contract::LengthTable& lengths,
                          const BenchKernelsOptions& options) {
  if (!device.computes_in(options.dtype)) {
    throw base::Error(base::Code::User, device.description() + " does not compute in " +
                                            options.dtype_name + "; choose float32");
  }
  base::check(options.samples > 0 && options.repetitions > 0 && options.product_side > 0,
              "a benchmark has samples, repetitions and a largest product");
  Stopwatch stopwatch(device, clock, options);
  const Ceilings ceilings = measure_ceilings(device, stopwatch, options);
  const KernelCases cases(device, lengths, options);
  Json json;
  json["benchmark"] = "kernels";
  json["model"] = options.model_name;
  json["device"] = device.description();
  json["dtype"] = options.dtype_name;
  json["attention"] = options.attention_name;
  json["gelu"] = options.shape.gelu == contract::Gelu::Tanh ? "tanh" : "erf";
  json["lengths"] = options.lengths_name;
  json["dropout"] = options.dropout;
  json["samples"] = cases.sizes().samples;
  json["tokens"] = cases.sizes().tokens;
  json["padded_tokens"] = cases.room().tokens;
  json["squared_tokens"] = cases.sizes().squared_tokens;
  json["masked"] = cases.sizes().masked;
  json["padded_masked"] = cases.room().masked;
  json["repetitions"] = options.repetitions;
  json["counting"] =
      "products 2mnk with padding; attention forward 4*hidden*sum of squared lengths, backward 2.5 "
      "times that; all else the bytes that the operation must read and write once; a copy counts "
      "both ways; calls repeat on the same memory";
  json["ceilings"] = {
      {"product", {{"side", ceilings.side}, {"tflop_per_second", ceilings.flops / kTera}}},
      {"copy", {{"bytes", ceilings.copy_bytes}, {"terabytes_per_second", ceilings.bytes / kTera}}}};
  json["kernels"] = Json::array();
  double step_seconds = 0;
  for (const KernelCase& entry : cases.cases()) {
    const CallTiming timing = stopwatch.measure(entry.enqueue, entry.reset);
    step_seconds += entry.calls_per_step * timing.median;
    json["kernels"].push_back(json_of(entry, timing, ceilings));
  }
  device.synchronize();
  device.forget_repeats();
  json["step_seconds_by_kernels"] = step_seconds;
  json["peak_device_bytes"] = device.peak_bytes();
  return base::json_text(json, 2) + "\n";
}

std::string bench_kernels_table(const std::string& json) {
  const auto parsed = base::parse_json<nlohmann::json>(json);
  std::string table;
  char line[256];
  const auto print = [&](const char* format, auto... values) {
    std::snprintf(line, sizeof line, format, values...);
    table += line;
  };
  const double step = parsed["step_seconds_by_kernels"];
  print("%s, %s, attention %s, %lld samples, %lld tokens (%lld with padding)\n",
        parsed["model"].get<std::string>().c_str(), parsed["dtype"].get<std::string>().c_str(),
        parsed["attention"].get<std::string>().c_str(),
        static_cast<long long>(parsed["samples"].get<std::int64_t>()),
        static_cast<long long>(parsed["tokens"].get<std::int64_t>()),
        static_cast<long long>(parsed["padded_tokens"].get<std::int64_t>()));
  print("ceilings: product %.3f TFLOP/s, copy %.3f TB/s\n",
        parsed["ceilings"]["product"]["tflop_per_second"].get<double>(),
        parsed["ceilings"]["copy"]["terabytes_per_second"].get<double>());
  print("%-36s %6s %11s %9s %10s %9s\n", "operation", "calls", "us a call", "% of step", "rate",
        "% ceiling");
  for (const auto& kernel : parsed["kernels"]) {
    const double seconds = kernel["seconds"];
    const double calls = kernel["calls_per_step"];
    const bool computes = kernel.contains("flop");
    const double rate = kernel[computes ? "tflop_per_second" : "terabytes_per_second"];
    print("%-36s %6.0f %11.2f %9.2f %6.*f %s %8.1f\n", kernel["name"].get<std::string>().c_str(),
          calls, 1e6 * seconds, 100 * calls * seconds / step, rate < 10 ? 3 : 1, rate,
          computes ? "TF" : "TB", kernel["percent_of_ceiling"].get<double>());
  }
  print("sum of calls x time: %.3f ms a step\n", 1e3 * step);
  return table;
}

}  // namespace regatta::trainer::bench
