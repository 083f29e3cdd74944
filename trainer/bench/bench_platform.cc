#include "trainer/bench/bench_platform.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/host.h"
#include "base/statistics.h"
#include "base/text.h"
#include "base/wording.h"
#include "trainer/bench/platform_parts.h"
#include "trainer/plugins/machine_facts.h"
#include "trainer/step/train_loop.h"

namespace regatta::trainer::bench {
namespace {

using contract::DeviceKind;
using contract::Precision;

constexpr std::size_t kMostWhyBytes = 300;
constexpr int kRepetitions = 7, kFewRepetitions = 3;
constexpr double kShortSeconds = 10;  // below it a batch is one call, and few of them have to do
constexpr std::size_t kLeastRepeats = 3, kMostRepeats = 15;

// Of the time that there is; what is left is for what measuring needs beside.
constexpr double kProductShare = 0.15, kMemoryShare = 0.08, kLaunchShare = 0.03;
constexpr double kTransferShare = 0.04, kStepShare = 0.2, kThreadShare = 0.1;
constexpr double kStorageShare = 0.15, kInputShare = 0.06;

constexpr std::array<std::pair<Precision, const char*>, 4> kPrecisions{{
    {Precision::Float32, "float32"},
    {Precision::Tf32, "tf32"},
    {Precision::BFloat16, "bfloat16"},
    {Precision::Float16, "float16"},
}};

// One line, of at most kMostWhyBytes, in whole characters.
std::string reason(const std::string& why) {
  std::string text = base::printable(why);
  if (text.size() <= kMostWhyBytes) return text;
  std::size_t end = kMostWhyBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) --end;
  return text.substr(0, end);
}

class PlatformRun {
 public:
  PlatformRun(const PlatformTools& tools, const PlatformOptions& options)
      : tools_(tools), options_(options) {}

  contract::PlatformBench run() {
    const double start = tools_.clock.monotonic_seconds();
    describe();
    measure_cpu();
    part("transfer.host", kTransferShare, [](PlatformPart& part) { measure_host_copy(part); });
    measure_gpu();
    part("threads.cpu", kThreadShare, [](PlatformPart& part) { measure_threads(part); });
    part("input", kInputShare, [](PlatformPart& part) { measure_input(part); });
    part("storage", kStorageShare, [](PlatformPart& part) { measure_storage(part); });
    part("all_reduce", 0, [](PlatformPart& part) { measure_all_reduce(part); });
    bench_.seconds = tools_.clock.monotonic_seconds() - start;
    return std::move(bench_);
  }

 private:
  void describe() {
    bench_.host = base::host_name();
    bench_.utc = tools_.clock.utc_seconds();
    bench_.version = REGATTA_VERSION;
    bench_.commit = options_.commit;
    bench_.threads = options_.threads;
    const nlohmann::ordered_json facts = plugins::machine_facts(tools_.machine);
    const auto processor = facts.find("processor");
    if (processor != facts.end() && processor->is_object() && processor->contains("name") &&
        (*processor)["name"].is_string()) {
      bench_.processor = (*processor)["name"].get<std::string>();
    }
    bench_.memory_bytes = facts.value("memory_bytes", std::int64_t{0});
    bench_.file_system = file_system_of(tools_.machine, options_.directory);
    if (getloadavg(&bench_.load_average, 1) != 1) bench_.load_average = 0;
  }

  // What cannot be measured is absent, whoever says so.
  template <typename Measure>
  void part(const std::string& name, double share, const Measure& measure) {
    PlatformPart part(tools_, options_, &bench_, share * options_.seconds);
    part.stop_if_asked();
    try {
      measure(part);
    } catch (const base::Error& error) {
      if (tools_.stop()) throw;
      part.add_absent(name, error.what());
    }
  }

  void measure_cpu() {
    const auto cpu = tools_.device(DeviceKind::Cpu, Precision::Float32, options_.threads);
    const device::DeviceProfile profile = cpu->profile();
    bench_.instruction_set = profile.instruction_set;
    bench_.products = profile.products;
    part("product.cpu.float32", kProductShare, [&](PlatformPart& part) {
      measure_products(*cpu, device::Dtype::Float32, "cpu.float32", part);
    });
    for (const char* const name : {"product.cpu.bfloat16", "product.cpu.float16"}) {
      bench_.absent.push_back({name, "the CPU computes in float32"});
    }
    part("memory.cpu", kMemoryShare,
         [&](PlatformPart& part) { measure_memory(*cpu, "cpu", part); });
    part("launch.cpu", kLaunchShare,
         [&](PlatformPart& part) { measure_launches(*cpu, "cpu", part); });
    part("step.cpu.float32", kStepShare,
         [&](PlatformPart& part) { measure_step(*cpu, Precision::Float32, "cpu.float32", part); });
  }

  void measure_gpu() {
    std::unique_ptr<device::Device> gpu;
    try {
      gpu = tools_.device(DeviceKind::Cuda, Precision::BFloat16, options_.threads);
    } catch (const base::Error& error) {
      const std::string why = std::string("no GPU: ") + error.what();
      for (const char* const name :
           {"product.cuda", "memory.cuda", "launch.cuda", "step.cuda", "transfer.cuda"}) {
        bench_.absent.push_back({name, reason(why)});
      }
      return;
    }
    bench_.gpu = gpu->profile().model;
    part("memory.cuda", kMemoryShare,
         [&](PlatformPart& part) { measure_memory(*gpu, "cuda", part); });
    part("launch.cuda", kLaunchShare,
         [&](PlatformPart& part) { measure_launches(*gpu, "cuda", part); });
    part("transfer.cuda", kTransferShare,
         [&](PlatformPart& part) { measure_transfers(*gpu, "cuda", part); });
    part("step.cuda.bfloat16", kStepShare, [&](PlatformPart& part) {
      measure_step(*gpu, Precision::BFloat16, "cuda.bfloat16", part);
    });
    gpu.reset();
    for (const auto& [precision, name] : kPrecisions) {
      const std::string of = std::string("cuda.") + name;
      part("product." + of, kProductShare / 4, [&, precision = precision](PlatformPart& part) {
        const auto device = tools_.device(DeviceKind::Cuda, precision, options_.threads);
        measure_products(*device, step::compute_dtype(precision), of, part);
      });
    }
  }

  const PlatformTools& tools_;
  const PlatformOptions& options_;
  contract::PlatformBench bench_;
};

// "1.23 TFLOP/s", "45.6 us".
std::string value_text(const contract::BenchFigure& figure) {
  if (figure.unit == "1") return base::short_number(figure.value, 3);
  constexpr std::array<std::pair<double, const char*>, 8> kScales{{{1e12, "T"},
                                                                   {1e9, "G"},
                                                                   {1e6, "M"},
                                                                   {1e3, "k"},
                                                                   {1, ""},
                                                                   {1e-3, "m"},
                                                                   {1e-6, "u"},
                                                                   {1e-9, "n"}}};
  for (const auto& [scale, prefix] : kScales) {
    if (figure.value < scale && scale > 1e-9) continue;
    return base::short_number(figure.value / scale, 4) + " " + prefix + figure.unit;
  }
  return "";
}

}  // namespace

void PlatformPart::add_values(const std::string& name, const std::string& unit,
                              const std::vector<double>& values, const std::string& text) {
  const double value = base::median(values);
  if (!std::isfinite(value) || value <= 0) {
    add_absent(name, "too fast for the clock");
    return;
  }
  bench_->figures.push_back({name, unit, value, base::robust_deviation(values),
                             static_cast<int>(values.size()), unit != "s", text});
}

void PlatformPart::add_rate(const std::string& name, const std::string& unit, double work,
                            const std::vector<double>& seconds, const std::string& text) {
  std::vector<double> rates;
  for (const double each : seconds) rates.push_back(work / each);
  add_values(name, unit, rates, text);
}

void PlatformPart::add_seconds(const std::string& name, const std::vector<double>& seconds,
                               const std::string& text) {
  add_values(name, "s", seconds, text);
}

void PlatformPart::add_absent(const std::string& name, const std::string& why) {
  bench_->absent.push_back({name, reason(why)});
}

const contract::BenchFigure* PlatformPart::find(const std::string& name) const {
  const auto found =
      std::find_if(bench_->figures.begin(), bench_->figures.end(),
                   [&](const contract::BenchFigure& figure) { return figure.name == name; });
  return found == bench_->figures.end() ? nullptr : &*found;
}

StopwatchOptions PlatformPart::stopwatch(std::size_t figures) const {
  const int repetitions = options_.seconds < kShortSeconds ? kFewRepetitions : kRepetitions;
  // Two batches' time is for the calls that come before the first.
  const auto batches = static_cast<double>(repetitions + 2);
  return {repetitions, seconds_ / (static_cast<double>(figures) * batches)};
}

std::vector<double> PlatformPart::repeated(double limit,
                                           const std::function<double()>& once) const {
  (void)once();
  std::vector<double> values;
  const double start = tools_.clock.monotonic_seconds();
  do {
    stop_if_asked();
    values.push_back(once());
  } while (values.size() < kLeastRepeats ||
           (values.size() < kMostRepeats && tools_.clock.monotonic_seconds() - start < limit));
  return values;
}

void PlatformPart::stop_if_asked() const {
  if (tools_.stop()) throw base::Error(base::Code::User, "stopped by a signal");
}

contract::PlatformBench bench_platform(const PlatformTools& tools, const PlatformOptions& options) {
  return PlatformRun(tools, options).run();
}

namespace {

// One line for each reason, with all that it is the reason of.
std::string absent_text(const std::vector<contract::MissingFigure>& absent) {
  std::vector<std::pair<std::string, std::string>> names;  // by reason
  for (const contract::MissingFigure& missing : absent) {
    const auto same = std::find_if(names.begin(), names.end(),
                                   [&](const auto& each) { return each.first == missing.why; });
    if (same == names.end()) {
      names.emplace_back(missing.why, missing.name);
    } else {
      same->second += ", " + missing.name;
    }
  }
  std::string text;
  for (const auto& [why, of] : names) {
    text += "not measured: " + of + ": " + base::printable(why) + "\n";
  }
  return text;
}

}  // namespace

std::string platform_table(const contract::PlatformBench& bench) {
  std::string text = base::printable(bench.host) + ": " +
                     base::printable(contract::machine_kind(bench)) + ", measured in " +
                     base::human_seconds(bench.seconds) + "\n";
  int width = 0;
  for (const contract::BenchFigure& figure : bench.figures) {
    width = std::max(width, static_cast<int>(figure.name.size()));
  }
  text += base::formatted("%-*s  %15s %8s  %s\n", width, "figure", "value", "spread", "of");
  for (const contract::BenchFigure& figure : bench.figures) {
    text += base::formatted(
        "%-*s  %15s %8s  %s\n", width, figure.name.c_str(), value_text(figure).c_str(),
        base::percent(figure.spread / figure.value).c_str(), figure.work.c_str());
  }
  return text + absent_text(bench.absent);
}

}  // namespace regatta::trainer::bench
