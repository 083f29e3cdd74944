// The parts of `bench platform`: what each measures, and the work that it counts.
#pragma once

#include <string>
#include <vector>

#include "trainer/bench/bench_platform.h"
#include "trainer/bench/stopwatch.h"

namespace regatta::trainer::bench {

// One part under way: where its figures go, and how long it should take.
class PlatformPart {
 public:
  PlatformPart(const PlatformTools& tools, const PlatformOptions& options,
               contract::PlatformBench* bench, double seconds)
      : tools_(tools), options_(options), bench_(bench), seconds_(seconds) {}

  [[nodiscard]] const PlatformTools& tools() const { return tools_; }
  [[nodiscard]] const PlatformOptions& options() const { return options_; }
  [[nodiscard]] double seconds() const { return seconds_; }

  // work ÷ each of `seconds`: a rate, of which more is better.
  void add_rate(const std::string& name, const std::string& unit, double work,
                const std::vector<double>& seconds, const std::string& text);
  // Seconds, of which fewer are better.
  void add_seconds(const std::string& name, const std::vector<double>& seconds,
                   const std::string& text);
  void add_values(const std::string& name, const std::string& unit,
                  const std::vector<double>& values, const std::string& text);
  void add_absent(const std::string& name, const std::string& why);
  // Of the figures so far; nothing where there is none of this name.
  [[nodiscard]] const contract::BenchFigure* find(const std::string& name) const;

  // For `figures` timings that share the part's time.
  [[nodiscard]] StopwatchOptions stopwatch(std::size_t figures) const;
  // What `once` returns, in seconds: at least 3 times, then until `limit` is over or 15 times;
  // after one that does not count.
  [[nodiscard]] std::vector<double> repeated(double limit,
                                             const std::function<double()>& once) const;
  // Throws Code::User when asked to stop.
  void stop_if_asked() const;

 private:
  const PlatformTools& tools_;
  const PlatformOptions& options_;
  contract::PlatformBench* bench_;
  double seconds_;
};

// Of one device. name: "cpu.float32".
void measure_products(device::Device& device, device::Dtype dtype, const std::string& name,
                      PlatformPart& part);
// name: "cpu".
void measure_memory(device::Device& device, const std::string& name, PlatformPart& part);
void measure_launches(device::Device& device, const std::string& name, PlatformPart& part);
// Between host and a device that is not the host.
void measure_transfers(device::Device& device, const std::string& name, PlatformPart& part);
void measure_step(device::Device& device, contract::Precision precision, const std::string& name,
                  PlatformPart& part);
// One product on 1, 2, 4, … threads.
void measure_threads(PlatformPart& part);

// Of the host.
void measure_host_copy(PlatformPart& part);
void measure_storage(PlatformPart& part);
void measure_input(PlatformPart& part);
void measure_all_reduce(PlatformPart& part);

// "ext4", as /proc/self/mountinfo calls the file system of `directory`; empty where it does not.
[[nodiscard]] std::string file_system_of(const plugins::MachineFiles& machine,
                                         const base::Path& directory);

}  // namespace regatta::trainer::bench
