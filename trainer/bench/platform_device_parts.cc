#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "trainer/bench/bench_kernel_cases.h"
#include "trainer/bench/bench_step.h"
#include "trainer/bench/platform_parts.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::bench {
namespace {

using model::kCompute;

// A product of a layer's matrix: outputs × inputs.
struct LayerProduct {
  std::string name;
  std::int64_t rows = 0, outputs = 0, inputs = 0;
  bool weight_gradient = false;  // else forward

  [[nodiscard]] double flop() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(outputs) *
           static_cast<double>(inputs);
  }
  [[nodiscard]] std::string text() const {
    return "2·" + std::to_string(rows) + "·" + std::to_string(outputs) + "·" +
           std::to_string(inputs) + " FLOP";
  }
};

LayerProduct feed_forward_product(const PlatformWorkload& work, std::int64_t tokens) {
  return {"fc1", tokens, work.product_shape.feed_forward, work.product_shape.hidden};
}

std::vector<LayerProduct> layer_products(const PlatformWorkload& work, bool on_host) {
  const std::int64_t tokens = on_host ? work.product_tokens : work.gpu_product_tokens;
  const std::int64_t masked = on_host ? work.product_masked : work.gpu_product_masked;
  const std::int64_t hidden = work.product_shape.hidden;
  const std::int64_t inner = work.product_shape.feed_forward;
  contract::ModelShape shape = work.product_shape;
  shape.vocabulary = work.vocabulary;
  const LayerProduct fc1 = feed_forward_product(work, tokens);
  LayerProduct gradient = fc1;
  gradient.name = "fc1_weight_gradient";
  gradient.weight_gradient = true;
  return {{"qkv", tokens, 3 * hidden, hidden},
          {"attention_output", tokens, hidden, hidden},
          fc1,
          {"fc2", tokens, hidden, inner},
          {"decoder", masked, contract::vocabulary_rows(shape), hidden},
          gradient};
}

// Memory of a device, and a product in it: y = x·Wᵀ, or dW = dyᵀ·x.
class ProductInMemory {
 public:
  ProductInMemory(device::Device& device, device::Dtype dtype, const LayerProduct& product)
      : device_(device),
        left_(device, product.rows * (product.weight_gradient ? product.outputs : product.inputs),
              dtype),
        right_(device,
               product.weight_gradient ? product.rows * product.inputs
                                       : product.outputs * product.inputs,
               dtype),
        result_(device,
                product.weight_gradient ? product.outputs * product.inputs
                                        : product.rows * product.outputs,
                product.weight_gradient ? device::Dtype::Float32 : dtype) {
    fill_with_numbers(device, left_.view());
    fill_with_numbers(device, right_.view());
    op_.a = left_.view();
    op_.b = right_.view();
    op_.c = result_.view();
    if (product.weight_gradient) {
      op_.m = product.outputs;
      op_.n = product.inputs;
      op_.k = product.rows;
      op_.transpose_a = true;
    } else {
      op_.m = product.rows;
      op_.n = product.outputs;
      op_.k = product.inputs;
      op_.transpose_b = true;
    }
  }
  ~ProductInMemory() {
    device_.synchronize();
    device_.forget_repeats();
  }
  ProductInMemory(const ProductInMemory&) = delete;
  ProductInMemory& operator=(const ProductInMemory&) = delete;

  [[nodiscard]] CallTiming time(Stopwatch& stopwatch) {
    return stopwatch.measure([this] { device_.gemm(kCompute, op_); }, {});
  }

 private:
  device::Device& device_;
  device::DeviceMemory left_, right_, result_;
  device::Gemm op_;
};

// 1, 2, 4, … and the most.
std::vector<int> thread_counts(int most) {
  std::vector<int> counts;
  for (int count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

std::string bytes_text(double bytes) { return std::to_string(std::llround(bytes)) + " B"; }

// The kernels' seconds of a step by group, in each batch of calls.
using GroupSeconds = std::map<std::string, std::vector<double>>;

GroupSeconds step_by_groups(device::Device& device, const BenchKernelsOptions& kernels,
                            PlatformPart& part) {
  const KernelCases cases(device, part.options().lengths, kernels);
  std::size_t counted = 0;
  for (const KernelCase& entry : cases.cases()) counted += entry.calls_per_step > 0 ? 1 : 0;
  const StopwatchOptions options = part.stopwatch(2 * counted);
  Stopwatch stopwatch(device, part.tools().clock, options);
  GroupSeconds groups;
  for (const KernelCase& entry : cases.cases()) {
    if (entry.calls_per_step <= 0) continue;
    part.stop_if_asked();
    const CallTiming timing = stopwatch.measure(entry.enqueue, entry.reset);
    std::vector<double>& sum = groups[entry.group];
    sum.resize(timing.seconds.size(), 0.0);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += entry.calls_per_step * timing.seconds[i];
    }
  }
  device.synchronize();
  device.forget_repeats();
  return groups;
}

}  // namespace

void measure_products(device::Device& device, device::Dtype dtype, const std::string& name,
                      PlatformPart& part) {
  const auto products = layer_products(part.options().workload, device.is_on_host());
  Stopwatch stopwatch(device, part.tools().clock, part.stopwatch(products.size()));
  for (const LayerProduct& product : products) {
    part.stop_if_asked();
    ProductInMemory memory(device, dtype, product);
    part.add_rate("product." + name + "." + product.name, "FLOP/s", product.flop(),
                  memory.time(stopwatch).seconds, product.text());
  }
}

void measure_memory(device::Device& device, const std::string& name, PlatformPart& part) {
  const std::int64_t count = part.options().workload.memory_bytes / 4;
  const device::DeviceMemory from(device, count, device::Dtype::Float32);
  const device::DeviceMemory to(device, count, device::Dtype::Float32);
  const device::DeviceMemory sum(device, 1, device::Dtype::Float32);
  fill_with_numbers(device, from.view());
  Stopwatch stopwatch(device, part.tools().clock, part.stopwatch(3));
  const double bytes = 4.0 * static_cast<double>(count);
  const auto add = [&](const char* operation, double moved, const std::function<void()>& enqueue) {
    part.stop_if_asked();
    part.add_rate("memory." + name + "." + operation, "B/s", moved,
                  stopwatch.measure(enqueue, {}).seconds, bytes_text(moved));
  };
  add("copy", 2 * bytes, [&] { device.copy(kCompute, to.view(), from.view()); });
  add("fill", bytes, [&] { device.fill_zero(kCompute, to.view()); });
  add("read", bytes, [&] { device.sum_of_squares(kCompute, from.view(), sum.view()); });
  device.synchronize();
  device.forget_repeats();
}

void measure_launches(device::Device& device, const std::string& name, PlatformPart& part) {
  const device::DeviceMemory little(device, 64, device::Dtype::Float32);
  Stopwatch stopwatch(device, part.tools().clock, part.stopwatch(2));
  const auto enqueue = [&] { device.fill_zero(kCompute, little.view()); };
  part.add_seconds("launch." + name + ".operation", stopwatch.measure(enqueue, {}).seconds,
                   "one operation on 256 B, of many in a row");
  const base::Clock& clock = part.tools().clock;
  part.add_seconds("launch." + name + ".round_trip",
                   part.repeated(part.seconds() / 2,
                                 [&] {
                                   constexpr int kTrips = 1000;
                                   const double start = clock.monotonic_seconds();
                                   for (int i = 0; i < kTrips; ++i) {
                                     enqueue();
                                     device.synchronize();
                                   }
                                   return (clock.monotonic_seconds() - start) / kTrips;
                                 }),
                   "the same, waited for");
}

void measure_transfers(device::Device& device, const std::string& name, PlatformPart& part) {
  const std::int64_t bytes = part.options().workload.transfer_bytes;
  const device::HostMemory host(device, bytes);
  const device::DeviceMemory memory(device, bytes / 4, device::Dtype::Float32);
  fill_with_numbers(device, memory.view());
  std::fill_n(host.floats(), bytes / 4, 1.0F);
  Stopwatch stopwatch(device, part.tools().clock, part.stopwatch(2));
  const auto moved = static_cast<double>(bytes);
  const auto to_device = [&] { device.copy_to_device(kCompute, memory.view(), host.floats()); };
  const auto to_host = [&] { device.copy_to_host(kCompute, host.floats(), memory.view()); };
  part.add_rate("transfer." + name + ".to_device", "B/s", moved,
                stopwatch.measure(to_device, {}).seconds, bytes_text(moved));
  part.add_rate("transfer." + name + ".to_host", "B/s", moved,
                stopwatch.measure(to_host, {}).seconds, bytes_text(moved));
  device.synchronize();
  device.forget_repeats();
}

void measure_step(device::Device& device, contract::Precision precision, const std::string& name,
                  PlatformPart& part) {
  const PlatformWorkload& work = part.options().workload;
  BenchKernelsOptions kernels;
  kernels.shape = work.step_shape;
  kernels.shape.vocabulary = work.vocabulary;
  kernels.dtype = step::compute_dtype(precision);
  kernels.samples = work.step_samples;
  const std::string model =
      "BERT " + work.step_model + ", " + std::to_string(work.step_samples) + " samples";
  for (const auto& [group, seconds] : step_by_groups(device, kernels, part)) {
    part.add_seconds("step." + name + "." + group, seconds, model + ": calls × time of a call");
  }
  BenchStepOptions whole;
  whole.shape = kernels.shape;
  whole.model_name = work.step_model;
  whole.precision = precision;
  whole.samples = work.step_samples;
  whole.threads = part.options().threads;
  whole.steps = 3;
  whole.warmup_steps = 1;
  std::vector<double> rates;
  const double start = part.tools().clock.monotonic_seconds();
  do {
    part.stop_if_asked();
    const auto json = base::parse_json<nlohmann::json>(
        bench_step(device, part.tools().clock, part.options().lengths, whole));
    rates.push_back(json["samples_per_second"]);
  } while (
      rates.size() < 3 ||
      (rates.size() < 15 && part.tools().clock.monotonic_seconds() - start < part.seconds() / 2));
  part.add_values("step." + name + ".whole", "samples/s", rates, model + ", AdamW");
}

void measure_threads(PlatformPart& part) {
  const std::vector<int> counts = thread_counts(part.options().threads);
  const LayerProduct product =
      feed_forward_product(part.options().workload, part.options().workload.product_tokens);
  for (const int threads : counts) {
    part.stop_if_asked();
    const auto device =
        part.tools().device(contract::DeviceKind::Cpu, contract::Precision::Float32, threads);
    Stopwatch stopwatch(*device, part.tools().clock, part.stopwatch(counts.size()));
    ProductInMemory memory(*device, device::Dtype::Float32, product);
    part.add_rate("threads.cpu." + std::to_string(threads), "FLOP/s", product.flop(),
                  memory.time(stopwatch).seconds, product.text());
  }
  if (counts.size() == 1) {
    part.add_absent("threads.cpu.efficiency", "one thread has nothing to share");
    return;
  }
  const double one = part.find("threads.cpu.1")->value;
  const double all = part.find("threads.cpu." + std::to_string(counts.back()))->value;
  part.add_values("threads.cpu.efficiency", "1", {all / (one * counts.back())},
                  std::to_string(counts.back()) + " threads: rate ÷ (threads × rate of one)");
}

}  // namespace regatta::trainer::bench
