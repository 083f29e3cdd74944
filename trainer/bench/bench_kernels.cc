#include "trainer/bench/bench_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "trainer/bench/bench_kernel_cases.h"
#include "trainer/bench/stopwatch.h"

namespace regatta::trainer::bench {
namespace {

using Json = nlohmann::ordered_json;
using model::kCompute;

constexpr double kTera = 1e12;
// The ceiling's products grow until one takes this long.
constexpr double kLongProductSeconds = 0.25;
constexpr int kSmallestProduct = 256;
constexpr std::int64_t kSmallestCopy = 1 << 16;

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
  *seconds = stopwatch.measure([&] { device.gemm(kCompute, op); }, {}).median();
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
      ceilings->bytes = 8.0 * static_cast<double>(count) / timing.median();
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
  const double rate = (computes ? entry.flop : entry.bytes) / timing.median();
  Json json;
  json["name"] = entry.name;
  json["group"] = entry.group;
  json["shape"] = entry.shape;
  json["calls_per_step"] = entry.calls_per_step;
  json["seconds"] = timing.median();
  json["least_seconds"] = timing.least();
  json["most_seconds"] = timing.most();
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
  Stopwatch stopwatch(device, clock, {options.repetitions, options.batch_seconds});
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
    step_seconds += entry.calls_per_step * timing.median();
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
